//! The loader as a UEFI firmware starts it: as a boot entry, from its shell, or from GRUB's
//! `chainloader`. It reads by the firmware's drivers. When nothing is resumed, it returns, and the
//! firmware or GRUB goes on with what comes next.
#![no_std]
#![no_main]

mod block;

use core::arch::asm;
use core::fmt::{Arguments, Write};
use core::ptr::NonNull;

use blocklab_loader::ports::Console;
use blocklab_loader::{Broken, Firmware, Places, REQUEST_PAGES, Why};
use resume::machine::{Range, kind_of_efi, merge};
use resume::{Buffers, Header, Moved, PAGE_BYTES, Refusal, Runs, frames_needed, taken};
use uefi::boot::{self, AllocateType, HandleBuffer, MemoryType};
use uefi::mem::memory_map::MemoryMap;
use uefi::{Identify, Status};

use block::Block;

const PAGE: u64 = PAGE_BYTES as u64;
const MOVED_MAX: usize = 4096;
/// What an image needs beside its own frames: run table, checksums, pages aside, page tables, the
/// list, the code, buffers, and where parts are read as one.
const GIVEN_MAX: usize = 8;
/// What a firmware gives a boot entry (UEFI 2.10, 3.1.2) until it has to have left.
const WATCHDOG_SECONDS: usize = 300;
/// Up to here a code of the watchdog's end is the firmware's own.
const WATCHDOG_CODE: u64 = 0x1_0000;

/// What is not free. Too large for the stack that a firmware gives.
static mut MOVED: [Moved; MOVED_MAX] = [Moved { from: 0, to: 0, at: 0 }; MOVED_MAX];

/// A machine with UEFI.
struct Machine {
    handles: HandleBuffer,
    map: &'static [Range],
    /// Frames that were given for tables and the like, the first and how many, and the number of
    /// these.
    given: [(u64, u64); GIVEN_MAX],
    given_count: usize,
    image: Option<Image>,
}

/// An image whose frames were taken, all before one.
struct Image {
    runs: Runs<'static>,
    /// How many of the list of what is not free are its.
    moved: usize,
    end: u64,
}

/// The memory map as a kernel's boot code reads it: what is the firmware's only until it has left
/// is usable memory.
fn memory_map() -> Result<&'static [Range], Status> {
    let kind = MemoryType::LOADER_DATA;
    let map = boot::memory_map(kind).map_err(|why| why.status())?;
    let count = map.entries().len();
    // A multiple of eight bytes, and what a firmware gives begins at one.
    let place =
        boot::allocate_pool(kind, count * size_of::<Range>()).map_err(|why| why.status())?;
    let place = place.as_ptr().cast::<Range>();
    for (index, entry) in map.entries().enumerate() {
        let kind = kind_of_efi(entry.ty.0);
        let range = Range { start: entry.phys_start, bytes: entry.page_count * PAGE, kind };
        // SAFETY: there is room for `count` of them, which nobody else has.
        unsafe { place.add(index).write(range) };
    }
    // SAFETY: all `count` of them were written, and nobody else has them.
    let ranges = unsafe { core::slice::from_raw_parts_mut(place, count) };
    let count = merge(ranges);
    Ok(&ranges[..count])
}

fn free(from: u64, count: u64) {
    // No firmware gives the first frame, as its address means none.
    if let Some(place) = NonNull::new((from * PAGE) as *mut u8) {
        // SAFETY: these frames were taken for an image that nobody looks at any more.
        let _ = unsafe { boot::free_pages(place, count as usize) };
    }
}

impl Machine {
    /// Frames in a row, which hold anything, below 4 GiB: where 32 bits reach.
    fn frames(&mut self, count: u64) -> Result<u64, Refusal> {
        self.frames_of(MemoryType::LOADER_DATA, count)
    }

    fn frames_of(&mut self, kind: MemoryType, count: u64) -> Result<u64, Refusal> {
        let given = self.given.get_mut(self.given_count).ok_or(Refusal::Scratch)?;
        let count = count.max(1);
        let pages = usize::try_from(count).map_err(|_| Refusal::Scratch)?;
        let place = AllocateType::MaxAddress(u32::MAX.into());
        let place = boot::allocate_pages(place, kind, pages).map_err(|_| Refusal::Scratch)?;
        *given = (place.as_ptr() as u64 / PAGE, count);
        self.given_count += 1;
        Ok(given.0)
    }

    /// Take the frames of the image that are free: how many are not.
    fn take_all(&mut self, runs: Runs<'static>) -> Result<u64, Refusal> {
        let place = &raw mut MOVED;
        // SAFETY: there is one processor, this is the only place that writes it but for its caller,
        // and what was given before is not looked at any more.
        let mut list = List { moved: unsafe { &mut *place }, count: 0, pages: 0 };
        let done = runs.iter().try_for_each(|run| take(run.start, run.count.into(), &mut list));
        let end = done.err().unwrap_or(u64::MAX);
        self.image = Some(Image { runs, moved: list.count, end });
        done.map_err(|_| Refusal::Scratch).map(|()| list.pages)
    }
}

/// Take frames; those that the firmware or the loader has are added to the list. The error is the
/// frame for which that has no room.
fn take(from: u64, count: u64, list: &mut List) -> Result<(), u64> {
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
    fn add(&mut self, frame: u64) -> Result<(), u64> {
        match self.moved[..self.count].last_mut() {
            Some(last) if last.to == frame => last.to += 1,
            _ => {
                let next = self.moved.get_mut(self.count).ok_or(frame)?;
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
        Ok((self.frames(layout.table_pages)?, self.frames(layout.sums_pages)?))
    }

    fn claim(&mut self, header: &Header, runs: Runs<'static>) -> Result<Places, Refusal> {
        let pages = self.take_all(runs)?;
        // All of the image's frames are taken or listed: what is given now is none of them.
        let aside = self.frames(pages)?;
        let tables = self.frames(frames_needed(header.frames))?;
        let list = self.frames((pages + 1) * 16 / PAGE + 1)?;
        // Strict firmware runs no page of data.
        let code = self.frames_of(MemoryType::LOADER_CODE, 1)?;
        let buffers = match header.is_packed() {
            true => Buffers::at(self.frames(Buffers::MOST)?, Buffers::MOST),
            false => Buffers::default(),
        };
        // Without it each part is a read of its own: slower, and nothing else.
        block::gather_at(self.frames(REQUEST_PAGES).map_or(0, |frame| frame * PAGE));
        let place = &raw mut MOVED;
        let count = self.image.as_ref().map_or(0, |image| image.moved);
        // SAFETY: as in `take_all`, whose list has ended.
        let moved = unsafe { &mut (&mut *place)[..count] };
        moved.iter_mut().for_each(|moved| moved.at += aside);
        Ok(Places { moved, tables, list, code, buffers })
    }

    fn give_back(&mut self) {
        block::gather_at(0);
        let place = &raw const MOVED;
        if let Some(Image { runs, moved, end }) = self.image.take() {
            // SAFETY: nobody writes there meanwhile.
            let moved = unsafe { &(&*place)[..moved] };
            taken(runs, moved, end).for_each(|(from, count)| free(from, count));
        }
        let given = core::mem::take(&mut self.given_count);
        self.given[..given].iter().for_each(|(from, count)| free(*from, *count));
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

fn resume_image() -> Result<core::convert::Infallible, Why> {
    let by_protocol = boot::SearchType::ByProtocol(&uefi::proto::media::block::BlockIO::GUID);
    let handles =
        boot::locate_handle_buffer(by_protocol).map_err(|_| Why::Unserved("name its disks"))?;
    let map = memory_map().map_err(|_| Why::Unserved("give its memory map, or room for that"))?;
    let given = [(0, 0); GIVEN_MAX];
    let mut machine = Machine { handles, map, given, given_count: 0, image: None };
    blocklab_loader::resume(&mut machine)
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
