//! The loader as a virtual machine starts it, through its PVH entry, with a driver of its own for
//! the machine's disks. What is not right is said on the serial line.
#![no_std]
#![no_main]

mod start;
mod virtio;

use core::arch::{asm, global_asm};
use core::fmt::{Arguments, Write};

use blocklab_loader::cpu::memory;
use blocklab_loader::{Broken, Firmware, Places};
use resume::{Header, Moved, PAGE_BYTES, Refusal, Room, Runs};

use blocklab_loader::ports::{Console, stop};
use start::Start;

global_asm!(include_str!("entry.s"), options(att_syntax));

const PAGE: u64 = PAGE_BYTES as u64;
/// PCI devices of a bus.
const DEVICES: u32 = 32;

// SAFETY: `link.ld` defines them.
unsafe extern "C" {
    static loader_start: u8;
    static loader_end: u8;
}

/// A virtual machine with nothing in it but the loader.
struct Machine {
    start: Start,
    room: Option<Room>,
}

/// What belongs to the loader's own frames.
static mut MOVED: [Moved; 1] = [Moved { from: 0, to: 0, at: 0 }];

/// First frame of the loader, and the one after its last.
fn own_frames() -> (u64, u64) {
    let (from, to) = (&raw const loader_start as u64, &raw const loader_end as u64);
    (from / PAGE, to.div_ceil(PAGE))
}

impl Firmware for Machine {
    type Disk = virtio::Virtio;

    fn disks(&self) -> u32 {
        DEVICES
    }

    fn open(&mut self, number: u32) -> Option<virtio::Virtio> {
        virtio::Virtio::open(number)
    }

    fn memory(&self) -> u64 {
        resume::machine::memory(self.start.map().iter().copied())
    }

    fn usable(&self, from: u64, to: u64) -> bool {
        self.start.usable(from * PAGE, to * PAGE)
    }

    fn place_tables(&mut self, header: &Header) -> Result<(u64, u64), Refusal> {
        let start = &self.start;
        let room =
            Room::new(header, own_frames(), |from, to| start.usable(from * PAGE, to * PAGE))?;
        self.room = Some(room);
        Ok((room.table, room.sums))
    }

    fn claim(&mut self, _: &Header, runs: Runs) -> Result<Places, Refusal> {
        let room = self.room.ok_or(Refusal::Scratch)?;
        if !runs.free(room.first, room.end) {
            return Err(Refusal::Scratch);
        }
        let (from, to) = own_frames();
        let place = &raw mut MOVED;
        // SAFETY: there is one processor, and this is the only place that writes it, once.
        let moved = unsafe {
            *place = [Moved { from, to, at: room.aside }];
            &*place
        };
        let Room { tables, list, code, buffers, .. } = room;
        Ok(Places { moved, tables, list, code, buffers })
    }

    fn map(&mut self, tables: u64) {
        // SAFETY: these tables map all memory where it is, as those in use do with the lowest part.
        unsafe { asm!("mov cr3, {}", in(reg) tables * PAGE) }
    }

    fn leave(&mut self) -> Result<(), Broken> {
        Ok(())
    }

    fn say(&mut self, line: Arguments) {
        say(line);
    }

    fn waited(&self) -> u64 {
        virtio::waited()
    }
}

/// Say a line.
fn say(line: Arguments) {
    let _ = writeln!(Console, "blocklab-loader: {line}");
}

// SAFETY: `entry.s` calls it by this name, once.
#[unsafe(no_mangle)]
extern "C" fn loader_main(information: u32) -> ! {
    let start = Start::read(u64::from(information), |address| {
        u64::from_le_bytes(*memory::slice(address, 8).first_chunk().unwrap_or(&[0; 8]))
    });
    match blocklab_loader::resume(&mut Machine { start, room: None }) {
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
