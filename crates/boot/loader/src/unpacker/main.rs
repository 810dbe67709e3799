//! Unpacks a kernel that GRUB cannot, and enters it. It is entered as a kernel is by PVH, and
//! enters the kernel with the same start information. What to do is written in the page before it.
#![no_std]
#![no_main]

mod arena;

use core::arch::global_asm;
use core::fmt::Write;

use arena::Arena;
use blocklab_loader::cpu::memory;
use blocklab_loader::ports::{Console, stop};
use ruzstd::decoding::FrameDecoder;

global_asm!(include_str!("../pvh/entry.s"), options(att_syntax));
global_asm!(include_str!("way_out.s"), options(att_syntax));

/// Where the task is.
const TASK_AT: u64 = 0x20_0c00;
/// LZ4 as kernels read it: a magic number, then blocks of so much, each behind its packed size.
const LZ4_MAGIC: [u8; 4] = [0x02, 0x21, 0x4c, 0x18];
const LZ4_BLOCK: usize = 8 << 20;

#[global_allocator]
static ARENA: Arena = Arena::empty();

// SAFETY: `way_out.s` defines it.
unsafe extern "C" {
    fn enter_kernel(entry: u32, start_information: u32) -> !;
}

/// What is to be done: places and sizes in memory, as the image says.
struct Task {
    packed: &'static [u8],
    kernel: &'static mut [u8],
    entry: u32,
}

impl Task {
    fn read() -> Task {
        let words = memory::slice(TASK_AT, 7 * 8);
        let word = |index: usize| {
            let bytes = words[index * 8..].first_chunk().expect("there are 7 words");
            u64::from_le_bytes(*bytes)
        };
        ARENA.fill(word(4), word(5));
        Task {
            packed: memory::slice(word(0), word(1) as usize),
            kernel: memory::slice_mut(word(2), word(3) as usize),
            entry: word(6) as u32,
        }
    }
}

/// Unpack blocks; the bytes that they became, unless they are damaged.
fn unpack_lz4(mut packed: &[u8], out: &mut [u8]) -> Option<usize> {
    let mut done = 0;
    while let Some((size, rest)) = packed.split_first_chunk::<4>() {
        let (block, rest) = rest.split_at_checked(u32::from_le_bytes(*size) as usize)?;
        let room = out.len().min(done + LZ4_BLOCK);
        done += resume::lz4::unpack(block, &mut out[done..room])?;
        packed = rest;
    }
    packed.is_empty().then_some(done)
}

/// Unpack what the packed kernel begins like.
fn unpack(packed: &[u8], out: &mut [u8]) -> Option<usize> {
    match packed.strip_prefix(&LZ4_MAGIC) {
        Some(blocks) => unpack_lz4(blocks, out),
        None => FrameDecoder::new().decode_all(packed, out).ok(),
    }
}

// SAFETY: no other function has the name that the way in calls.
#[unsafe(no_mangle)]
extern "C" fn loader_main(start_information: u32) -> ! {
    let Task { packed, kernel, entry } = Task::read();
    let bytes = kernel.len();
    if unpack(packed, kernel) != Some(bytes) {
        let _ = writeln!(Console, "blocklab-unpacker: the packed kernel is damaged\r");
        stop()
    }
    // SAFETY: the kernel is in place.
    unsafe { enter_kernel(entry, start_information) }
}

#[panic_handler]
fn panicked(why: &core::panic::PanicInfo) -> ! {
    let _ = writeln!(Console, "blocklab-unpacker: a bug: {why}\r");
    stop()
}
