//! A disk or partition by the firmware's driver.

use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicU64, Ordering};

use blocklab_loader::cpu::{cycles, memory};
use blocklab_loader::{Broken, Disk, Part, REQUEST_PAGES};
use resume::{PAGE_BYTES, SECTOR_BYTES};
use uefi::Handle;
use uefi::boot::{self, OpenProtocolAttributes, OpenProtocolParams, ScopedProtocol};
use uefi::proto::media::block::BlockIO;

/// Cycles that were spent waiting for disks.
static WAITED: AtomicU64 = AtomicU64::new(0);

/// Cycles that were spent waiting for disks.
pub(crate) fn waited() -> u64 {
    WAITED.load(Ordering::Relaxed)
}

/// Where requests of several parts are read in one piece, [`REQUEST_PAGES`] in all; 0 where there
/// is no room for that.
static GATHER: AtomicU64 = AtomicU64::new(0);

/// From here on requests of several parts are read at this address first; at none, if it is 0.
pub(crate) fn gather_at(address: u64) {
    GATHER.store(address, Ordering::Relaxed);
}

/// A page where a driver can take it from.
#[repr(C, align(4096))]
struct Page([u8; PAGE_BYTES]);

/// A disk or partition.
pub(crate) struct Block {
    /// Who only gets a protocol need not close it (UEFI 2.10, 7.3.9), and the library panics where
    /// a firmware has meanwhile taken the disk away: then reads say so.
    io: ManuallyDrop<ScopedProtocol<BlockIO>>,
    medium: u32,
    block_sectors: u64,
    sectors: u64,
}

impl Block {
    /// The one behind a handle, if it has a medium with blocks of at most a page.
    pub(crate) fn open(handle: Handle) -> Option<Block> {
        let params = OpenProtocolParams { handle, agent: boot::image_handle(), controller: None };
        let how = OpenProtocolAttributes::GetProtocol;
        // SAFETY: the firmware's own drivers keep it open, too; nothing runs beside this program.
        let io = unsafe { boot::open_protocol::<BlockIO>(params, how) }.ok()?;
        let io = ManuallyDrop::new(io);
        let media = io.media();
        let bytes = u64::from(media.block_size());
        let whole = bytes.is_multiple_of(SECTOR_BYTES as u64) && bytes > 0;
        if !media.is_media_present() || !whole || !(PAGE_BYTES as u64).is_multiple_of(bytes) {
            return None;
        }
        let block_sectors = bytes / SECTOR_BYTES as u64;
        let sectors = (media.last_block() + 1).checked_mul(block_sectors)?;
        Some(Block { medium: media.media_id(), block_sectors, sectors, io })
    }

    /// Read parts as one, and copy each to its place: a firmware reads into one place, and each
    /// part would be a request of its own. False where it cannot be so.
    fn gather(
        &self,
        sector: u64,
        parts: impl ExactSizeIterator<Item = Part> + Clone,
    ) -> Result<bool, Broken> {
        let bytes: u64 = parts.clone().map(|part| u64::from(part.1)).sum();
        let place = GATHER.load(Ordering::Relaxed);
        let whole = |bytes: u64| bytes.is_multiple_of(self.block_sectors * SECTOR_BYTES as u64);
        let fits = place != 0 && bytes <= REQUEST_PAGES * PAGE_BYTES as u64;
        if parts.len() < 2 || !fits || !whole(bytes) || !whole(sector * SECTOR_BYTES as u64) {
            return Ok(false);
        }
        self.read_blocks(sector, memory::slice_mut(place, bytes as usize))?;
        let mut from = place;
        for (to, bytes) in parts {
            memory::write(to, memory::slice(from, bytes as usize));
            from += u64::from(bytes);
        }
        Ok(true)
    }

    /// Read bytes of whole blocks.
    fn read_blocks(&self, sector: u64, to: &mut [u8]) -> Result<(), Broken> {
        let end = sector + (to.len() / SECTOR_BYTES) as u64;
        if end > self.sectors {
            return Err(Broken);
        }
        let asked = cycles();
        let read = self.io.read_blocks(self.medium, sector / self.block_sectors, to);
        WAITED.fetch_add(cycles() - asked, Ordering::Relaxed);
        read.map_err(|_| Broken)
    }
}

impl Disk for Block {
    fn sectors(&self) -> u64 {
        self.sectors
    }

    /// The firmware does one thing at a time, and is done when it comes back.
    fn ask(
        &mut self,
        sector: u64,
        parts: impl ExactSizeIterator<Item = Part> + Clone,
    ) -> Result<u32, Broken> {
        if self.gather(sector, parts.clone())? {
            return Ok(1);
        }
        let (mut sector, reads) = (sector, parts.len() as u32);
        for (address, bytes) in parts {
            let count = u64::from(bytes) / SECTOR_BYTES as u64;
            // SAFETY: memory that was claimed for this, or a buffer of the loader's.
            let to = unsafe { core::slice::from_raw_parts_mut(address as *mut u8, bytes as usize) };
            let whole = |number: u64| number.is_multiple_of(self.block_sectors);
            if whole(sector) && whole(count) {
                self.read_blocks(sector, to)?;
            } else {
                // Some sectors of larger blocks, never more than a page.
                let mut page = Page([0; PAGE_BYTES]);
                let first = sector / self.block_sectors * self.block_sectors;
                let skip = (sector - first) as usize * SECTOR_BYTES;
                let part = skip..skip + to.len();
                let whole = part.end.next_multiple_of(self.block_sectors as usize * SECTOR_BYTES);
                let whole = page.0.get_mut(..whole).ok_or(Broken)?;
                self.read_blocks(first, whole)?;
                to.copy_from_slice(&whole[part]);
            }
            sector += count;
        }
        Ok(reads)
    }

    fn wait(&mut self, _: u64) -> Result<(), Broken> {
        Ok(())
    }

    fn write(&mut self, sector: u64, bytes: &[u8; SECTOR_BYTES]) -> Result<(), Broken> {
        let mut page = Page([0; PAGE_BYTES]);
        let first = sector / self.block_sectors * self.block_sectors;
        let whole = self.block_sectors as usize * SECTOR_BYTES;
        self.read_blocks(first, &mut page.0[..whole])?;
        let skip = (sector - first) as usize * SECTOR_BYTES;
        page.0[skip..skip + SECTOR_BYTES].copy_from_slice(bytes);
        let block = first / self.block_sectors;
        self.io.write_blocks(self.medium, block, &page.0[..whole]).map_err(|_| Broken)?;
        self.io.flush_blocks().map_err(|_| Broken)
    }

    fn reset(&mut self) {}
}
