//! Resumes an image of a Linux kernel: finds it, checks it, puts its pages where they belong, and
//! enters the kernel as if it had resumed itself. Started by a virtual machine through its PVH
//! entry. What is not right is said on the serial line, and the image is left as it is.
#![no_std]
#![no_main]

mod image;
mod machine;
mod start;
mod virtio;

use core::arch::global_asm;
use core::fmt::{Arguments, Write};

use machine::{Console, stop};

global_asm!(include_str!("entry.s"), options(att_syntax));

/// Say a line.
fn say(line: Arguments) {
    let _ = writeln!(Console, "blocklab-loader: {line}");
}

// SAFETY: `entry.s` calls it by this name, once.
#[unsafe(no_mangle)]
extern "C" fn loader_main(information: u32) -> ! {
    match image::resume(start::Start::read(information)) {
        Ok(never) => match never {},
        Err(why) => say(format_args!("not resumed: {why}")),
    }
    stop()
}

#[panic_handler]
fn panicked(why: &core::panic::PanicInfo) -> ! {
    say(format_args!("a bug in the loader: {why}"));
    stop()
}
