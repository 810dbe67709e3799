//! The loader as a UEFI firmware starts it: as a boot entry, from its shell, or from GRUB's
//! `chainloader`. It reads by the firmware's drivers. When nothing is resumed, it returns, and the
//! firmware or GRUB goes on with what comes next.
#![no_std]
#![no_main]

mod block;

use core::arch::asm;
use core::fmt::{Arguments, Write};

use blocklab_loader::ports::Console;
use blocklab_loader::{Broken, Firmware, Places};
use resume::machine::{Range, kind_of_efi, merge};
use resume::{Buffers, Header, Moved, PAGE_BYTES, Refusal, Runs, frames_needed};
use uefi::boot::{self, AllocateType, HandleBuffer, MemoryType};
use uefi::mem::memory_map::MemoryMap;
use uefi::{Identify, Status};

use block::Block;

const PAGE: u64 = PAGE_BYTES as u64;
const RANGES_MAX: usize = 1024;
const MOVED_MAX: usize = 4096;
/// What a firmware gives a boot entry (UEFI 2.10, 3.1.2) until it has to have left.
const WATCHDOG_SECONDS: usize = 300;
/// Up to here a code of the watchdog's end is the firmware's own.
const WATCHDOG_CODE: u64 = 0x1_0000;

/// What is not free. Too large for the stack that a firmware gives.
static mut MOVED: [Moved; MOVED_MAX] = [Moved { from: 0, to: 0, at: 0 }; MOVED_MAX];
static mut RANGES: [Range; RANGES_MAX] = [Range { start: 0, bytes: 0, kind: 0 }; RANGES_MAX];

/// A machine with UEFI.
struct Machine {
    handles: HandleBuffer,
    map: &'static [Range],
}

/// The memory map as a kernel's boot code reads it: what is the firmware's only until it has left
/// is usable memory.
fn memory_map() -> Result<&'static [Range], Status> {
    let map = boot::memory_map(MemoryType::LOADER_DATA).map_err(|why| why.status())?;
    let place = &raw mut RANGES;
    // SAFETY: there is one processor, and this is the only place that writes it, once.
    let ranges = unsafe { &mut *place };
    let mut count = 0;
    for entry in map.entries() {
        let range = ranges.get_mut(count).ok_or(Status::BUFFER_TOO_SMALL)?;
        let kind = kind_of_efi(entry.ty.0);
        *range = Range { start: entry.phys_start, bytes: entry.page_count * PAGE, kind };
        count += 1;
    }
    let count = merge(&mut ranges[..count]);
    Ok(&ranges[..count])
}

/// Frames in a row, which hold anything, below 4 GiB: where 32 bits reach.
fn frames(count: u64) -> Result<u64, Refusal> {
    frames_of(MemoryType::LOADER_DATA, count)
}

fn frames_of(kind: MemoryType, count: u64) -> Result<u64, Refusal> {
    let count = usize::try_from(count).map_err(|_| Refusal::Scratch)?;
    let place = AllocateType::MaxAddress(u32::MAX.into());
    let place = boot::allocate_pages(place, kind, count.max(1));
    place.map(|place| place.as_ptr() as u64 / PAGE).map_err(|_| Refusal::Scratch)
}

/// Take frames; those that the firmware or the loader has are added to the list.
fn take(from: u64, count: u64, list: &mut List) -> Result<(), Refusal> {
    let place = AllocateType::Address(from * PAGE);
    if boot::allocate_pages(place, MemoryType::LOADER_DATA, count as usize).is_ok() {
        return Ok(());
    }
    if count == 1 {
        return list.add(from);
    }
    take(from, count / 2, list)?;
    take(from + count / 2, count - count / 2, list)
}

/// Frames that are not free, in rising order.
struct List {
    moved: &'static mut [Moved; MOVED_MAX],
    count: usize,
    pages: u64,
}

impl List {
    fn add(&mut self, frame: u64) -> Result<(), Refusal> {
        match self.moved[..self.count].last_mut() {
            Some(last) if last.to == frame => last.to += 1,
            _ => {
                let next = self.moved.get_mut(self.count).ok_or(Refusal::Scratch)?;
                *next = Moved { from: frame, to: frame + 1, at: self.pages };
                self.count += 1;
            }
        }
        self.pages += 1;
        Ok(())
    }
}

impl Firmware for Machine {
    type Disk = Block;

    fn disks(&self) -> u32 {
        self.handles.len() as u32
    }

    fn open(&mut self, number: u32) -> Option<Block> {
        Block::open(*self.handles.get(number as usize)?)
    }

    fn memory(&self) -> u64 {
        resume::machine::memory(self.map.iter().copied())
    }

    fn usable(&self, from: u64, to: u64) -> bool {
        self.map.iter().any(|range| {
            let end = range.start + range.bytes;
            range.kind == Range::USABLE && range.start <= from * PAGE && to * PAGE <= end
        })
    }

    fn place_tables(&mut self, header: &Header) -> Result<(u64, u64), Refusal> {
        let layout = header.layout();
        Ok((frames(layout.table_pages)?, frames(layout.sums_pages)?))
    }

    fn claim(&mut self, header: &Header, runs: Runs) -> Result<Places, Refusal> {
        let place = &raw mut MOVED;
        // SAFETY: there is one processor, and this is the only place that writes it, once.
        let moved = unsafe { &mut *place };
        let mut list = List { moved, count: 0, pages: 0 };
        for run in runs.iter() {
            take(run.start, u64::from(run.count), &mut list)?;
        }
        // All of the image's frames are taken or listed: what is given now is none of them.
        let aside = frames(list.pages)?;
        let tables = frames(frames_needed(header.frames))?;
        let words = frames((list.pages + 1) * 16 / PAGE + 1)?;
        // Strict firmware runs no page of data.
        let code = frames_of(MemoryType::LOADER_CODE, 1)?;
        let buffers = match header.is_packed() {
            true => Buffers::at(frames(Buffers::MOST)?, Buffers::MOST),
            false => Buffers::default(),
        };
        let List { moved, count, .. } = list;
        let moved = &mut moved[..count];
        moved.iter_mut().for_each(|moved| moved.at += aside);
        Ok(Places { moved, tables, list: words, code, buffers })
    }

    fn map(&mut self, _: u64) {}

    fn leave(&mut self) -> Result<(), Broken> {
        // SAFETY: what is the firmware's is not used from here on.
        let map = unsafe { boot::exit_boot_services(Some(MemoryType::LOADER_DATA)) };
        core::mem::forget(map);
        Ok(())
    }

    fn say(&mut self, line: Arguments) {
        say(line);
    }

    fn waited(&self) -> u64 {
        block::waited()
    }
}

/// Say a line, on the first serial line and where the firmware writes.
fn say(line: Arguments) {
    let _ = writeln!(Console, "blocklab-loader: {line}\r");
    uefi::system::with_stdout(|out| {
        let _ = writeln!(out, "blocklab-loader: {line}");
    });
}

fn resume_image() -> Result<core::convert::Infallible, blocklab_loader::Why> {
    let broken = |_| blocklab_loader::Why::Broken;
    let by_protocol = boot::SearchType::ByProtocol(&uefi::proto::media::block::BlockIO::GUID);
    let handles = boot::locate_handle_buffer(by_protocol).map_err(|_| Broken)?;
    let map = memory_map().map_err(broken)?;
    blocklab_loader::resume(&mut Machine { handles, map })
}

#[uefi::entry]
fn main() -> Status {
    // A large image on a slow disk takes longer than firmware gives what it boots.
    let _ = boot::set_watchdog_timer(0, WATCHDOG_CODE, None);
    match resume_image() {
        Ok(never) => match never {},
        Err(why) => say(format_args!("not resumed: {why}")),
    }
    let _ = boot::set_watchdog_timer(WATCHDOG_SECONDS, WATCHDOG_CODE, None);
    Status::ABORTED
}

#[panic_handler]
fn panicked(why: &core::panic::PanicInfo) -> ! {
    let _ = writeln!(Console, "blocklab-loader: a bug in the loader: {why}");
    loop {
        // SAFETY: it waits.
        unsafe { asm!("hlt") }
    }
}
