//! A disk of a virtual machine: virtio-blk by its legacy interface, polled.
//!
//! Virtual I/O Device (VIRTIO) 1.2, sections 2.7 and 5.2, and their notes on the legacy interface.

use core::sync::atomic::{AtomicU64, Ordering, fence};

use resume::{PAGE_BYTES, SECTOR_BYTES};

use blocklab_loader::cpu::{cycles, memory};
use blocklab_loader::{Broken, Disk, PARTS_MAX, Part};

use blocklab_loader::ports::{in8, in16, in32, out8, out16, out32, pci, set_pci};

/// Vendor and device of a disk that has the legacy interface.
const LEGACY_DISK: u32 = 0x1001_1af4;
/// Room for a queue of 1,024, the longest that QEMU has: who speaks the legacy interface cannot ask
/// for a shorter one.
const QUEUE_BYTES: usize = 32768;

// Offsets in the legacy interface's ports.
const GUEST_FEATURES: u16 = 4;
const QUEUE_ADDRESS: u16 = 8;
const QUEUE_SIZE: u16 = 12;
const QUEUE_SELECT: u16 = 14;
const QUEUE_NOTIFY: u16 = 16;
const STATUS: u16 = 18;
const CAPACITY: u16 = 20;

const ACKNOWLEDGED_AND_DRIVER: u8 = 3;
const READY: u8 = 7;

/// Flags of a descriptor.
const NEXT: u16 = 1;
const DEVICE_WRITES: u16 = 2;

#[repr(C, align(4096))]
struct Queue([u8; QUEUE_BYTES]);

/// One queue serves: disks are used one after the other.
static mut QUEUE: Queue = Queue([0; QUEUE_BYTES]);

/// A request's head and the byte that its answer goes to.
#[repr(C, align(16))]
struct Request {
    head: [u64; 2],
    answer: u64,
}

/// Most requests that a disk has at a time: while it answers one, the next waits in its queue.
const DEPTH: usize = 2;
/// Descriptors of a request: its head, its parts and its answer.
const DESCRIPTORS: u16 = PARTS_MAX as u16 + 2;

static mut REQUESTS: [Request; DEPTH] = [const { Request { head: [0; 2], answer: 0 } }; DEPTH];

/// Cycles that were spent waiting for disks.
static WAITED: AtomicU64 = AtomicU64::new(0);

/// Cycles that were spent waiting for disks.
pub(crate) fn waited() -> u64 {
    WAITED.load(Ordering::Relaxed)
}

/// A disk that was made ready.
pub(crate) struct Virtio {
    ports: u16,
    size: u16,
    available: u64,
    used: u64,
    /// Answers that were taken, modulo 2^16 as the device counts them.
    taken: u16,
    /// Requests so far.
    asked: u64,
    /// How many it can have at a time.
    depth: usize,
    /// Of each place for a request the number of the one that has it, from 1 on.
    busy: [Option<u64>; DEPTH],
    sectors: u64,
}

impl Virtio {
    /// The disk that is PCI device `device`, if that is one.
    pub(crate) fn open(device: u32) -> Option<Virtio> {
        if pci(device, 0) != LEGACY_DISK {
            return None;
        }
        let ports = (pci(device, 0x10) & !3) as u16;
        // Ports and bus mastering on.
        set_pci(device, 4, pci(device, 4) & 0xffff | 5);
        out8(ports + STATUS, 0);
        out8(ports + STATUS, ACKNOWLEDGED_AND_DRIVER);
        // No feature: so each write is durable before its answer.
        out32(ports + GUEST_FEATURES, 0);
        out16(ports + QUEUE_SELECT, 0);
        let size = in16(ports + QUEUE_SIZE);
        let table = &raw const QUEUE as u64;
        let available = table + 16 * u64::from(size);
        let page = PAGE_BYTES as u64;
        let used = (available + 6 + 2 * u64::from(size)).next_multiple_of(page);
        let end = used + 6 + 8 * u64::from(size);
        let depth = DEPTH.min(usize::from(size / DESCRIPTORS));
        if depth == 0 || end > table + QUEUE_BYTES as u64 {
            return None;
        }
        memory::fill(table, QUEUE_BYTES / 8, 0);
        out32(ports + QUEUE_ADDRESS, (table / page) as u32);
        out8(ports + STATUS, READY);
        let half = |at: u16| u64::from(in32(ports + CAPACITY + at));
        let sectors = half(0) | half(4) << 32;
        let busy = [None; DEPTH];
        let (taken, asked) = (0, 0);
        Some(Virtio { ports, size, available, used, taken, asked, depth, busy, sectors })
    }

    /// Put a request into the queue.
    fn request(
        &mut self,
        kind: u64,
        sector: u64,
        parts: impl ExactSizeIterator<Item = Part> + Clone,
        flag: u16,
    ) -> Result<(), Broken> {
        let bytes: u64 = parts.clone().map(|part| u64::from(part.1)).sum();
        let end = sector.checked_add(bytes / SECTOR_BYTES as u64).ok_or(Broken)?;
        if parts.len() > PARTS_MAX || end > self.sectors {
            return Err(Broken);
        }
        self.wait(self.depth as u64 - 1)?;
        let place = self.busy[..self.depth].iter().position(Option::is_none).ok_or(Broken)?;
        self.asked += 1;
        self.busy[place] = Some(self.asked);
        let (request, answer) = place_of(place);
        memory::set(request, kind);
        memory::set(request + 8, sector);
        memory::set(answer, 0xff);
        let first = place as u16 * DESCRIPTORS;
        let last = first + parts.len() as u16 + 1;
        descriptor(first, (request, 16), NEXT, first + 1);
        for (index, part) in (first + 1..).zip(parts) {
            descriptor(index, part, NEXT | flag, index + 1);
        }
        descriptor(last, (answer, 1), DEVICE_WRITES, 0);
        // SAFETY: the ring lies in the queue, which only this driver and the device use.
        unsafe {
            let number = (self.available + 2) as *mut u16;
            let next = number.read_volatile();
            let place = self.available + 4 + 2 * u64::from(next % self.size);
            (place as *mut u16).write_volatile(first);
            fence(Ordering::SeqCst);
            number.write_volatile(next.wrapping_add(1));
        }
        fence(Ordering::SeqCst);
        out16(self.ports + QUEUE_NOTIFY, 0);
        Ok(())
    }

    /// Wait for an answer, whichever comes first, and take it.
    fn take(&mut self) -> Result<(), Broken> {
        let began = cycles();
        // SAFETY: the ring lies in the queue, which only this driver and the device use.
        while unsafe { ((self.used + 2) as *const u16).read_volatile() } == self.taken {
            core::hint::spin_loop();
        }
        fence(Ordering::SeqCst);
        WAITED.fetch_add(cycles() - began, Ordering::Relaxed);
        let at = self.used + 4 + 8 * u64::from(self.taken % self.size);
        self.taken = self.taken.wrapping_add(1);
        // SAFETY: as above.
        let first = unsafe { (at as *const u32).read_volatile() };
        let place = first as usize / usize::from(DESCRIPTORS);
        self.busy.get_mut(place).and_then(Option::take).ok_or(Broken)?;
        match memory::slice(place_of(place).1, 1) {
            [0] => Ok(()),
            _ => Err(Broken),
        }
    }
}

/// Where a place for a request has its head and its answer.
fn place_of(place: usize) -> (u64, u64) {
    let request = &raw const REQUESTS as u64 + (place * size_of::<Request>()) as u64;
    (request, request + 16)
}

impl Disk for Virtio {
    fn sectors(&self) -> u64 {
        self.sectors
    }

    fn ask(
        &mut self,
        sector: u64,
        parts: impl ExactSizeIterator<Item = Part> + Clone,
    ) -> Result<u32, Broken> {
        self.request(0, sector, parts, DEVICE_WRITES).map(|()| 1)
    }

    fn wait(&mut self, ahead: u64) -> Result<(), Broken> {
        let due = self.asked.saturating_sub(ahead);
        while self.busy.iter().flatten().any(|number| *number <= due) {
            self.take()?;
        }
        Ok(())
    }

    fn write(&mut self, sector: u64, bytes: &[u8; SECTOR_BYTES]) -> Result<(), Broken> {
        let part = (bytes.as_ptr() as u64, SECTOR_BYTES as u32);
        self.request(1, sector, [part].into_iter(), 0)?;
        self.wait(0)
    }

    fn reset(&mut self) {
        self.busy = [None; DEPTH];
        out8(self.ports + STATUS, 0);
        while in8(self.ports + STATUS) != 0 {}
    }
}

fn descriptor(index: u16, part: Part, flags: u16, next: u16) {
    let place = &raw const QUEUE as u64 + 16 * u64::from(index);
    memory::set(place, part.0);
    memory::set(place + 8, u64::from(part.1) | u64::from(flags) << 32 | u64::from(next) << 48);
}
