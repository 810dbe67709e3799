//! Resumes an image of a Linux kernel: finds it, checks it, puts its pages where they belong, and
//! enters the kernel as if it had resumed itself. What is not right is said, and the image is left
//! as it is. What starts the loader, and what it runs on, is a [`Firmware`]: a program each.
#![no_std]

pub mod cpu;
pub mod ports;

use core::arch::{asm, global_asm};
use core::convert::Infallible;
use core::fmt;

use resume::machine::processor;
use resume::{
    Buffers, Group, Groups, HEADER_SECTOR, Header, Kind, LoadPlan, MARK_SECTOR, Mark, Moved,
    PAGE_BYTES, PAGE_SECTORS, PageTables, Parts, Rank, Refusal, Runs, SECTOR_BYTES, Transfer,
    checksum, frames_needed, superblock_sum,
};

use cpu::{cpuid, cycles, memory};

global_asm!(include_str!("way_out.s"), options(att_syntax));

const PAGE: u64 = PAGE_BYTES as u64;
/// Most pages that one request reads.
pub const REQUEST_PAGES: u64 = 1024;
/// Parts of memory that one request reads into.
pub const PARTS_MAX: usize = 120;
/// Code segment, data segment, and nothing else.
const SEGMENTS: [u64; 4] = [0, 0x00cf_9b00_0000_ffff, 0x00af_9b00_0000_ffff, 0x00cf_9300_0000_ffff];

// SAFETY: `way_out.s` defines them.
unsafe extern "C" {
    static way_out: u8;
    static way_out_end: u8;
}

/// A part of memory: address and bytes.
pub type Part = (u64, u32);

/// A disk or partition that was made ready.
pub trait Disk {
    /// Its size.
    fn sectors(&self) -> u64;

    /// Ask for what is from `sector` on, into `parts`, at most [`PARTS_MAX`] of them. A disk that
    /// is still busy with as much as it can be is waited for. How many reads it became.
    ///
    /// # Errors
    /// When that, or what was asked for before, is not done.
    fn ask(
        &mut self,
        sector: u64,
        parts: impl ExactSizeIterator<Item = Part> + Clone,
    ) -> Result<u32, Broken>;

    /// Wait for all that was asked for but the last `ahead` times.
    ///
    /// # Errors
    /// When it is not done.
    fn wait(&mut self, ahead: u64) -> Result<(), Broken>;

    /// Read from `sector` on into `parts`, at most [`PARTS_MAX`] of them.
    ///
    /// # Errors
    /// When it does not do that.
    fn read(
        &mut self,
        sector: u64,
        parts: impl ExactSizeIterator<Item = Part> + Clone,
    ) -> Result<(), Broken> {
        self.ask(sector, parts)?;
        self.wait(0)
    }

    /// Write a sector, durably.
    ///
    /// # Errors
    /// When it does not do that.
    fn write(&mut self, sector: u64, bytes: &[u8; SECTOR_BYTES]) -> Result<(), Broken>;

    /// End all that it may still do to memory.
    fn reset(&mut self);
}

/// It did not do what it was asked.
pub struct Broken;

/// Frames for what is needed until the jump, none of them in the image.
pub struct Places {
    /// Where what cannot go to its frame yet is kept.
    pub moved: &'static [Moved],
    /// Page tables.
    pub tables: u64,
    /// The list of what is kept aside: two words for each page and for the end.
    pub list: u64,
    /// The code of the jump.
    pub code: u64,
    /// Where what is packed is read and unpacked.
    pub buffers: Buffers,
}

/// The image's data on its way to memory.
struct Loading<'a, D> {
    disk: &'a mut D,
    /// The page of the disk at which the data begins.
    data: u64,
    requests: u32,
}

impl<D: Disk> Transfer for Loading<'_, D> {
    type Error = Why;

    fn read(&mut self, from: u64, parts: Parts) -> Result<(), Why> {
        let parts = parts.map(|(frame, pages)| (frame * PAGE, (pages * PAGE) as u32));
        self.requests += self.disk.ask((self.data + from) * PAGE_SECTORS, parts)?;
        Ok(())
    }

    fn wait(&mut self, ahead: u64) -> Result<(), Why> {
        Ok(self.disk.wait(ahead)?)
    }

    fn unpack(&mut self, group: &Group, from: u64, to: u64) -> bool {
        let stored = memory::slice(from * PAGE, (group.stored * PAGE) as usize);
        let plain = memory::slice_mut(to * PAGE, (group.pages * PAGE) as usize);
        group.unpack(stored, plain)
    }

    fn copy(&mut self, to: u64, from: u64, pages: u64) {
        memory::write(to * PAGE, memory::slice(from * PAGE, (pages * PAGE) as usize));
    }
}

/// What the loader runs on.
pub trait Firmware {
    /// Its disks.
    type Disk: Disk;

    /// How many disks and partitions there may be.
    fn disks(&self) -> u32;

    /// Make a disk ready; `None` when there is none with this number.
    fn open(&mut self, number: u32) -> Option<Self::Disk>;

    /// Digest of the memory map.
    fn memory(&self) -> u64;

    /// Are all frames from one to another usable memory?
    fn usable(&self, from: u64, to: u64) -> bool;

    /// Frames for the run table and the checksums.
    ///
    /// # Errors
    /// When there are none.
    fn place_tables(&mut self, header: &Header) -> Result<(u64, u64), Refusal>;

    /// Take the frames of the image that are free, and find places for the rest.
    ///
    /// # Errors
    /// When there are none.
    fn claim(&mut self, header: &Header, runs: Runs<'static>) -> Result<Places, Refusal>;

    /// These tables map all memory where it is: use them, if those in use do not.
    fn map(&mut self, tables: u64);

    /// An image was refused: all that was taken for it is free again, its tables and what was given
    /// by [`claim`](Firmware::claim), and nobody looks there any more.
    fn give_back(&mut self);

    /// All is in place: the firmware has nothing to do any more.
    ///
    /// # Errors
    /// When it does not let go.
    fn leave(&mut self) -> Result<(), Broken>;

    /// Say a line.
    fn say(&mut self, line: fmt::Arguments);

    /// Cycles that were spent waiting for disks, if that is known.
    fn waited(&self) -> u64;
}

/// Why nothing is resumed.
#[derive(Clone, Copy)]
pub enum Why {
    /// The image says so.
    Refused(Refusal),
    /// A disk failed.
    Broken,
    /// The firmware does not do this.
    Unserved(&'static str),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Why::Refused(refusal) => refusal.fmt(f),
            Why::Broken => write!(f, "a disk did not answer as it should"),
            Why::Unserved(what) => write!(f, "the firmware does not {what}"),
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

/// For what is read before there is room in memory: the stack is short.
static mut FIRST_READ: Page = Page([0; PAGE_BYTES]);

/// Resume the newest image of those on the machine's disks that fits.
///
/// # Errors
/// Why none is resumed: what the oldest is refused for. Those refused are as they were; one of
/// which a disk broke while its mark was erased may be none any more.
pub fn resume<F: Firmware>(firmware: &mut F) -> Result<Infallible, Why> {
    let entered = cycles();
    let place = &raw mut FIRST_READ;
    // SAFETY: there is one processor, and this is called once.
    let page = unsafe { &mut *place };
    let mut found = find(firmware, page, None).ok_or(Refusal::NoMark)?;
    loop {
        let (rank, mark) = found;
        let why = match enter(firmware, page, rank.number, mark, entered) {
            Ok(never) => match never {},
            Err(why) => why,
        };
        firmware.give_back();
        if !matches!(why, Why::Refused(_)) {
            return Err(why);
        }
        found = find(firmware, page, Some(rank)).ok_or(why)?;
        firmware.say(format_args!("the newest image is refused: {why}; there is an older one"));
    }
}

/// Enter the image on a disk.
fn enter<F: Firmware>(
    firmware: &mut F,
    page: &mut Page,
    number: u32,
    mark: Mark,
    entered: u64,
) -> Result<Infallible, Why> {
    let mut disk = firmware.open(number).ok_or(Why::Broken)?;
    let read = disk.read(HEADER_SECTOR, page.part(PAGE_BYTES));
    disk.reset();
    read?;
    let header = &Header::read(&page.0, mark)?;
    if header.processor != processor(cpuid) {
        return Err(Refusal::Processor.into());
    }
    if header.memory != firmware.memory() {
        return Err(Refusal::Memory.into());
    }
    let mut disk = firmware.open(number).ok_or(Why::Broken)?;
    let tables = tables(firmware, &mut disk, header);
    disk.reset();
    let (groups, runs) = tables?;
    unchanged(firmware, page, header)?;

    let mut disk = firmware.open(number).ok_or(Why::Broken)?;
    let loaded = load_all(firmware, &mut disk, header, groups, runs).and_then(|loaded| {
        // It is used once, whatever happens next.
        page.0.fill(0);
        disk.write(MARK_SECTOR, page.sector())?;
        Ok(loaded)
    });
    // Nothing is on its way to memory that may soon be another's.
    disk.reset();
    let Loaded { plan, places, requests, at } = loaded?;
    let aside = plan.copies().count();
    let (jumped, pages, waited) = (cycles(), header.pages, firmware.waited());
    let packed = groups.packed();
    firmware.say(format_args!(
        "{pages} pages, {aside} of them aside, {requests} reads, {packed} MiB unpacked; cycles \
         entered={entered} waited={waited} loaded={at} jumped={jumped}"
    ));
    firmware.leave()?;
    let tables = PageTables { start: places.tables, frames: header.frames };
    jump(header, &plan, &places, tables.top(header.paging_levels))
}

/// The image's tables, checked.
fn tables<F: Firmware>(
    firmware: &mut F,
    disk: &mut F::Disk,
    header: &Header,
) -> Result<(Groups<'static>, Runs<'static>), Why> {
    let layout = header.layout();
    let (table, sums) = firmware.place_tables(header)?;
    load(disk, layout.table, layout.table_pages, table)?;
    load(disk, layout.sums, layout.sums_pages, sums)?;
    let table = memory::slice(table * PAGE, header.table_bytes() as usize);
    let sums = memory::slice(sums * PAGE, header.sums_bytes() as usize);
    if checksum(table) != header.table_sum || checksum(sums) != header.sums_sum {
        return Err(Refusal::Table.into());
    }
    let groups = Groups::check(sums, header)?;
    let runs = Runs::check(table, header.frames, header.data_pages)?;
    header.entry.check_places(&runs)?;
    if !runs.iter().all(|run| firmware.usable(run.start, run.end())) {
        return Err(Refusal::Runs.into());
    }
    Ok((groups, runs))
}

/// An image that is in memory.
struct Loaded {
    plan: LoadPlan<'static>,
    places: Places,
    requests: u32,
    /// When its data was there.
    at: u64,
}

/// Put all pages where they belong.
fn load_all<F: Firmware>(
    firmware: &mut F,
    disk: &mut F::Disk,
    header: &Header,
    groups: Groups,
    runs: Runs<'static>,
) -> Result<Loaded, Why> {
    let places = firmware.claim(header, runs)?;
    memory::fill(places.tables * PAGE, (frames_needed(header.frames) * PAGE / 8) as usize, 0);
    let tables = PageTables { start: places.tables, frames: header.frames };
    tables.write(header.entry.jump, header.entry.jump_physical, memory::set);
    firmware.map(places.tables);
    let plan = LoadPlan::new(runs, places.moved)?;
    let mut loading = Loading { disk, data: header.layout().data, requests: 0 };
    plan.load::<PARTS_MAX, _>(groups, places.buffers, REQUEST_PAGES, &mut loading)?;
    let (requests, at) = (loading.requests, cycles());
    plan.verify(groups, |sum, frame, pages| {
        sum.add(memory::slice(frame * PAGE, (pages * PAGE) as usize));
    })?;
    for piece in plan.pieces() {
        if let Kind::Word(word) = piece.run.kind {
            memory::fill(piece.at * PAGE, piece.run.count as usize * (PAGE_BYTES / 8), word);
        }
    }
    Ok(Loaded { plan, places, requests, at })
}

/// The newest image on the disks, of those that come after `before`.
fn find<F: Firmware>(
    firmware: &mut F,
    page: &mut Page,
    before: Option<Rank>,
) -> Option<(Rank, Mark)> {
    let mut newest = None;
    for number in 0..firmware.disks() {
        let Some(mut disk) = firmware.open(number) else { continue };
        let read = disk.read(MARK_SECTOR, page.part(SECTOR_BYTES));
        disk.reset();
        // A drive without a medium has none.
        if let (Ok(()), Ok(mark)) = (read, Mark::read(page.sector())) {
            let rank = Rank { written: mark.written, number };
            if rank.comes_between(before, newest.map(|(rank, _)| rank)) {
                newest = Some((rank, mark));
            }
        }
    }
    newest
}

/// Are the disks that were mounted there, and as they were?
fn unchanged<F: Firmware>(
    firmware: &mut F,
    page: &mut Page,
    header: &Header,
) -> Result<(), Refusal> {
    for (index, wanted) in header.told_disks().iter().enumerate() {
        if !wanted.is_among(firmware.disks(), |number| state(firmware, page, number, wanted)) {
            return Err(Refusal::Disk(index as u64));
        }
    }
    Ok(())
}

/// What tells the state of a disk, if it is of the size of the `wanted` one.
fn state<F: Firmware>(
    firmware: &mut F,
    page: &mut Page,
    number: u32,
    wanted: &resume::Disk,
) -> Result<Option<u64>, Broken> {
    let Some(mut disk) = firmware.open(number) else { return Ok(None) };
    if disk.sectors() != wanted.sectors {
        disk.reset();
        return Ok(None);
    }
    let read = disk.read(wanted.superblock_sector, page.part(2 * SECTOR_BYTES));
    disk.reset();
    read.map(|()| Some(superblock_sum(&page.0[..2 * SECTOR_BYTES])))
}

/// Read pages of the disk into frames in a row.
fn load(disk: &mut impl Disk, page: u64, pages: u64, frame: u64) -> Result<(), Broken> {
    for done in (0..pages).step_by(REQUEST_PAGES as usize) {
        let part = ((frame + done) * PAGE, ((pages - done).min(REQUEST_PAGES) * PAGE) as u32);
        disk.read((page + done) * PAGE_SECTORS, [part].into_iter())?;
    }
    Ok(())
}

/// Leave for good, under the page tables with this top.
fn jump(header: &Header, plan: &LoadPlan, places: &Places, top: u64) -> ! {
    let mut at = places.list * PAGE;
    for (to, from) in plan.copies() {
        memory::set(at, to * PAGE);
        memory::set(at + 8, from * PAGE);
        at += 16;
    }
    memory::set(at, u64::MAX);
    let code = places.code * PAGE;
    let bytes = &raw const way_out_end as u64 - &raw const way_out as u64;
    memory::write(code, memory::slice(&raw const way_out as u64, bytes as usize));
    // Descriptors, and what LGDT reads: their last byte and where they are.
    let (descriptors, pointer) = (code + 2048, code + 2048 + 64);
    for (index, word) in SEGMENTS.into_iter().enumerate() {
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
            in("rdi") places.list * PAGE,
            in("rsi") top * PAGE,
            in("rdx") header.entry.cr3,
            in("rcx") header.entry.jump,
            in("r8") pointer,
            in("r12") code + PAGE - 64,
            in("r13") if header.paging_levels == 5 { cpu::FIVE_LEVELS } else { 0 },
            options(noreturn)
        )
    }
}
