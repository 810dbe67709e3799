//! From the disk to the jump.

use core::arch::asm;
use core::convert::Infallible;
use core::fmt;

use resume::machine::processor;
use resume::{
    HEADER_SECTOR, Header, Kind, MARK_SECTOR, Mark, PAGE_BYTES, PAGE_SECTORS, PageTables, Plan,
    Refusal, Room, Runs, SECTOR_BYTES, checksum, frames_needed,
};

use crate::machine::{add, cpuid, cycles, has_checksum, memory};
use crate::say;
use crate::start::Start;
use crate::virtio::{Broken, Disk, PARTS_MAX, Part, waited};

const PAGE: u64 = PAGE_BYTES as u64;
/// PCI devices of a bus.
const DEVICES: u32 = 32;
/// Most pages that one request reads.
const REQUEST_PAGES: u64 = 1024;

// SAFETY: `link.ld` and `entry.s` define them.
unsafe extern "C" {
    static loader_start: u8;
    static loader_end: u8;
    static way_out: u8;
    static way_out_end: u8;
    static segments: [u64; 4];
}

/// Why nothing is resumed.
pub(crate) enum Why {
    /// The image says so.
    Refused(Refusal),
    /// A disk failed.
    Broken,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Refused(refusal) => refusal.fmt(f),
            Why::Broken => write!(f, "a disk did not answer as it should"),
        }
    }
}

impl From<Refusal> for Why {
    fn from(refusal: Refusal) -> Why {
        Why::Refused(refusal)
    }
}

impl From<Broken> for Why {
    fn from(_: Broken) -> Why {
        Why::Broken
    }
}

/// Room for a page on the way in.
#[repr(C, align(4096))]
struct Page([u8; PAGE_BYTES]);

impl Page {
    fn sector(&self) -> &[u8; SECTOR_BYTES] {
        self.0.first_chunk().expect("a page has several sectors")
    }

    fn part(&self, bytes: usize) -> impl ExactSizeIterator<Item = Part> + Clone {
        [(self.0.as_ptr() as u64, bytes as u32)].into_iter()
    }
}

/// Resume the image that a disk of the machine has.
pub(crate) fn resume(start: Start) -> Result<Infallible, Why> {
    let entered = cycles();
    let (device, mark) = find()?;
    let mut page = Page([0; PAGE_BYTES]);
    let mut disk = Disk::open(device).ok_or(Why::Broken)?;
    disk.read(HEADER_SECTOR, page.part(PAGE_BYTES))?;
    let header = Header::read(&page.0, mark)?;
    if header.processor != processor(cpuid) {
        return Err(Refusal::Processor.into());
    }
    if header.memory != resume::machine::memory(start.map().iter().copied()) {
        return Err(Refusal::Memory.into());
    }
    let (layout, own) = (header.layout(), own_frames());
    let room = Room::new(&header, own, |from, to| start.usable(from * PAGE, to * PAGE))?;
    load(&mut disk, layout.table, layout.table_pages, room.table)?;
    load(&mut disk, layout.sums, layout.sums_pages, room.sums)?;
    let table = memory::slice(room.table * PAGE, header.table_bytes() as usize);
    let sums = memory::slice(room.sums * PAGE, header.sums_bytes() as usize);
    if checksum(table) != header.table_sum || checksum(sums) != header.sums_sum {
        return Err(Refusal::Table.into());
    }
    let runs = Runs::check(table, header.frames, header.data_pages)?;
    if !runs.free(room.first, room.end) {
        return Err(Refusal::Scratch.into());
    }
    if !runs.iter().all(|run| start.usable(run.start * PAGE, run.end() * PAGE)) {
        return Err(Refusal::Runs.into());
    }
    disk.reset();
    unchanged(&header)?;

    let mut disk = Disk::open(device).ok_or(Why::Broken)?;
    // All memory is mapped from here on.
    memory::fill(room.tables * PAGE, (frames_needed(header.frames) * PAGE / 8) as usize, 0);
    let tables = PageTables { start: room.tables, frames: header.frames };
    tables.write(header.entry.jump, header.entry.jump_physical, memory::set);
    // SAFETY: these tables map all memory where it is, as those in use do.
    unsafe { asm!("mov cr3, {}", in(reg) room.tables * PAGE) }
    let plan = Plan::new(runs, own, room.aside)?;
    let mut requests = 0;
    plan.reads::<PARTS_MAX, _>(REQUEST_PAGES, |page, parts| {
        requests += 1;
        let parts = parts.map(|(frame, pages)| (frame * PAGE, (pages * PAGE) as u32));
        disk.read((layout.data + page) * PAGE_SECTORS, parts)
    })?;
    let quick = has_checksum();
    plan.verify(sums, |sum, frame, pages| {
        add(sum, memory::slice(frame * PAGE, (pages * PAGE) as usize), quick)
    })?;
    for piece in plan.pieces() {
        if let Kind::Word(word) = piece.run.kind {
            memory::fill(piece.at * PAGE, piece.run.count as usize * (PAGE_BYTES / 8), word);
        }
    }
    // It is used once, whatever happens next.
    page.0.fill(0);
    disk.write(MARK_SECTOR, page.sector())?;
    disk.reset();
    let aside = plan.copies().count();
    let (jumped, pages) = (cycles(), header.pages);
    say(format_args!(
        "{pages} pages, {aside} of them aside, {requests} reads; cycles entered={entered} \
         waited={} jumped={jumped}",
        waited()
    ));
    jump(&header, &plan, &room)
}

/// The disk with an image: its device and its mark.
fn find() -> Result<(u32, Mark), Why> {
    let page = Page([0; PAGE_BYTES]);
    for device in 0..DEVICES {
        let Some(mut disk) = Disk::open(device) else { continue };
        disk.read(MARK_SECTOR, page.part(SECTOR_BYTES))?;
        disk.reset();
        if let Ok(mark) = Mark::read(page.sector()) {
            return Ok((device, mark));
        }
    }
    Err(Refusal::NoMark.into())
}

/// Are the disks that were mounted there, and as they were?
fn unchanged(header: &Header) -> Result<(), Why> {
    let page = Page([0; PAGE_BYTES]);
    for (index, wanted) in header.told_disks().iter().enumerate() {
        let mut found = false;
        for device in 0..DEVICES {
            let Some(mut disk) = Disk::open(device) else { continue };
            if disk.sectors == wanted.sectors {
                disk.read(wanted.superblock_sector, page.part(2 * SECTOR_BYTES))?;
                found |= checksum(&page.0[..2 * SECTOR_BYTES]) == wanted.sum;
            }
            disk.reset();
        }
        if !found {
            return Err(Refusal::Disk(index as u64).into());
        }
    }
    Ok(())
}

/// First frame of the loader, and the one after its last.
fn own_frames() -> (u64, u64) {
    let (from, to) = (&raw const loader_start as u64, &raw const loader_end as u64);
    (from / PAGE, to.div_ceil(PAGE))
}

/// Read pages of the disk into frames in a row.
fn load(disk: &mut Disk, page: u64, pages: u64, frame: u64) -> Result<(), Broken> {
    for done in (0..pages).step_by(REQUEST_PAGES as usize) {
        let part = ((frame + done) * PAGE, ((pages - done).min(REQUEST_PAGES) * PAGE) as u32);
        disk.read((page + done) * PAGE_SECTORS, [part].into_iter())?;
    }
    Ok(())
}

/// Leave for good.
fn jump(header: &Header, plan: &Plan, room: &Room) -> ! {
    let mut at = room.list * PAGE;
    for (to, from) in plan.copies() {
        memory::set(at, to * PAGE);
        memory::set(at + 8, from * PAGE);
        at += 16;
    }
    memory::set(at, u64::MAX);
    let code = room.code * PAGE;
    let bytes = &raw const way_out_end as u64 - &raw const way_out as u64;
    memory::write(code, memory::slice(&raw const way_out as u64, bytes as usize));
    // Descriptors, and what LGDT reads: their last byte and where they are.
    let (descriptors, pointer) = (code + 2048, code + 2048 + 64);
    // SAFETY: the assembler made them.
    let words = unsafe { segments };
    for (index, word) in words.into_iter().enumerate() {
        memory::set(descriptors + 8 * index as u64, word);
    }
    memory::write(pointer, &31u16.to_le_bytes());
    memory::write(pointer + 2, &descriptors.to_le_bytes());
    // SAFETY: the pages of the image are in place but for those in the list, which this code, that
    // is in none of them, puts there; then the kernel takes over.
    unsafe {
        asm!(
            "jmp rax",
            in("rax") code,
            in("rdi") room.list * PAGE,
            in("rsi") room.tables * PAGE,
            in("rdx") header.entry.cr3,
            in("rcx") header.entry.jump,
            in("r8") pointer,
            in("r12") code + PAGE - 64,
            options(noreturn)
        )
    }
}
