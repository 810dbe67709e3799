//! The loader as a virtual machine starts it, through its PVH entry, or GRUB on a BIOS, by
//! multiboot, with a driver of its own for the machine's disks. What is not right is said on the
//! serial line and on the screen. Then it stops; started by GRUB it leaves a note for that, and
//! starts the machine again.
#![no_std]
#![no_main]

mod screen;
mod start;
mod virtio;

use core::arch::{asm, global_asm};
use core::fmt::{Arguments, Write};

use blocklab_loader::cpu::memory;
use blocklab_loader::{Broken, Firmware, Places};
use resume::{Header, Moved, PAGE_BYTES, Refusal, Room, Runs};

use blocklab_loader::ports::{Console, in8, out8, stop};
use start::Start;

global_asm!(include_str!("entry.s"), options(att_syntax));

const PAGE: u64 = PAGE_BYTES as u64;
/// Where the note for GRUB is: byte 0x77 of the clock's memory, bit 0, and its ports.
const NOTE: (u8, u8, u16) = (0x77, 1, 0x70);
/// No interrupt table.
static NO_TABLE: [u64; 2] = [0; 2];
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
    /// The page tables from before those of an image.
    tables: Option<u64>,
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

    fn claim(&mut self, _: &Header, runs: Runs<'static>) -> Result<Places, Refusal> {
        let room = self.room.ok_or(Refusal::Scratch)?;
        if !runs.free(room.first, room.end) {
            return Err(Refusal::Scratch);
        }
        let (from, to) = own_frames();
        let place = &raw mut MOVED;
        // SAFETY: there is one processor, this is the only place that writes it, and what was given
        // before is not looked at any more.
        let moved = unsafe {
            *place = [Moved { from, to, at: room.aside }];
            &*place
        };
        let Room { tables, list, code, buffers, .. } = room;
        Ok(Places { moved, tables, list, code, buffers })
    }

    fn map(&mut self, tables: u64) {
        let before: u64;
        // SAFETY: it reads a register.
        unsafe { asm!("mov {}, cr3", out(reg) before) }
        self.tables = Some(before);
        // SAFETY: these tables map all memory where it is, as those in use do with the lowest part.
        unsafe { asm!("mov cr3, {}", in(reg) tables * PAGE) }
    }

    fn give_back(&mut self) {
        self.room = None;
        if let Some(before) = self.tables.take() {
            // SAFETY: they lie in the loader's own frames, and map the memory of all of the loader.
            unsafe { asm!("mov cr3, {}", in(reg) before) }
        }
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
    let _ = writeln!(screen::Screen, "blocklab-loader: {line}");
}

// SAFETY: `entry.s` calls it by this name, once.
#[unsafe(no_mangle)]
extern "C" fn loader_main(information: u32, magic: u32) -> ! {
    let start = Start::read(u64::from(information), magic, |address| {
        u64::from_le_bytes(*memory::slice(address, 8).first_chunk().unwrap_or(&[0; 8]))
    });
    match blocklab_loader::resume(&mut Machine { start, room: None, tables: None }) {
        Ok(never) => match never {},
        Err(why) => say(format_args!("not resumed: {why}")),
    }
    if start.by_multiboot { start_again() } else { stop() }
}

/// Leave a note in the clock's memory, for which GRUB has commands, and start the machine again.
fn start_again() -> ! {
    let (select, value, port) = NOTE;
    out8(port, select);
    let before = in8(port + 1);
    out8(port, select);
    out8(port + 1, before | value);
    // The chipset's way, the keyboard controller's, and a fault that cannot be served.
    out8(0xcf9, 2);
    out8(0xcf9, 6);
    out8(0x64, 0xfe);
    // SAFETY: the machine does not come back from it.
    unsafe { asm!("lidt [{}]", "int3", in(reg) &raw const NO_TABLE, options(noreturn)) }
}

#[panic_handler]
fn panicked(why: &core::panic::PanicInfo) -> ! {
    say(format_args!("a bug in the loader: {why}"));
    stop()
}
