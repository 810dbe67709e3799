//! What a UEFI firmware starts first on a boot image: it loads the next program from its own disk
//! and starts it, and stops a guest of QEMU before it loads and after it has. So the reading of a
//! loader, or of a kernel in one file, has a begin and an end, whatever the program is.
#![no_std]
#![no_main]

use core::arch::asm;
use core::fmt::Write;
use core::mem::MaybeUninit;

use blocklab_loader::ports::{Console, in8, in32, out8};
use uefi::boot::{self, LoadImageSource, OpenProtocolAttributes, OpenProtocolParams};
use uefi::proto::BootPolicy;
use uefi::proto::device_path::DevicePath;
use uefi::proto::device_path::build::{DevicePathBuilder, media};
use uefi::proto::loaded_image::LoadedImage;
use uefi::{CStr16, Handle, Status, cstr16};

/// The program that is loaded.
const NEXT: &CStr16 = cstr16!("\\EFI\\blocklab\\next.efi");
/// Room for the path to it.
const PATH_BYTES: usize = 1024;
/// A write stops the guest; a read of it says in the trace that the clock is read next.
const STOP_PORT: u16 = 0x505;
/// The PM timer, where this firmware puts it.
const TIMER_PORT: u16 = 0xb008;

fn begins() {
    out8(STOP_PORT, 1);
    reads_clock();
}

fn ends() {
    reads_clock();
    out8(STOP_PORT, 1);
}

fn reads_clock() {
    in8(STOP_PORT);
    in32(TIMER_PORT);
}

fn protocol<P: uefi::proto::ProtocolPointer + ?Sized>(
    handle: Handle,
) -> uefi::Result<boot::ScopedProtocol<P>> {
    let params = OpenProtocolParams { handle, agent: boot::image_handle(), controller: None };
    // SAFETY: it is only looked at, and the firmware keeps it while this program runs.
    unsafe { boot::open_protocol(params, OpenProtocolAttributes::GetProtocol) }
}

/// Load the next program from the disk that this one is from.
fn load() -> uefi::Result<Handle> {
    let wrong = |_| Status::DEVICE_ERROR;
    let me = protocol::<LoadedImage>(boot::image_handle())?;
    let disk = me.device().ok_or(Status::NOT_FOUND)?;
    let disk = protocol::<DevicePath>(disk)?;
    let mut room = [MaybeUninit::uninit(); PATH_BYTES];
    let mut path = DevicePathBuilder::with_buf(&mut room);
    for node in disk.node_iter() {
        path = path.push(&node).map_err(wrong)?;
    }
    let path = path.push(&media::FilePath { path_name: NEXT }).map_err(wrong)?;
    let device_path = path.finalize().map_err(wrong)?;
    begins();
    let boot_policy = BootPolicy::ExactMatch;
    let source = LoadImageSource::FromDevicePath { device_path, boot_policy };
    let loaded = boot::load_image(boot::image_handle(), source)?;
    ends();
    Ok(loaded)
}

#[uefi::entry]
fn main() -> Status {
    let why = match load().and_then(boot::start_image) {
        Ok(()) => Status::ABORTED,
        Err(why) => why.status(),
    };
    let _ = writeln!(Console, "blocklab-starter: {NEXT}: {why}\r");
    why
}

#[panic_handler]
fn panicked(why: &core::panic::PanicInfo) -> ! {
    let _ = writeln!(Console, "blocklab-starter: a bug: {why}");
    loop {
        // SAFETY: it waits.
        unsafe { asm!("hlt") }
    }
}
