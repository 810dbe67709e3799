//! What a UEFI firmware starts first on a boot image: it loads the next program from its own disk
//! and starts it, and has told in QEMU's trace where the load begins and ends, and the clock before
//! and after each read of the disk. So the reading of a loader, or of a kernel in one file, has a
//! begin and an end, whatever the program is.
#![no_std]
#![no_main]

use core::arch::asm;
use core::ffi::c_void;
use core::fmt::Write;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicPtr, Ordering};

use blocklab_loader::ports::{Console, out8};
use uefi::boot::{self, LoadImageSource, OpenProtocolAttributes, OpenProtocolParams};
use uefi::proto::BootPolicy;
use uefi::proto::device_path::DevicePath;
use uefi::proto::device_path::build::{DevicePathBuilder, media};
use uefi::proto::loaded_image::LoadedImage;
use uefi::proto::media::block::BlockIO;
use uefi::{CStr16, Handle, Identify, Status, cstr16};

/// The program that is loaded.
const NEXT: &CStr16 = cstr16!("\\EFI\\blocklab\\next.efi");
/// Room for the path to it.
const PATH_BYTES: usize = 1024;
/// The first serial line's scratch register: what is written to it is in QEMU's trace.
const MARK_PORT: u16 = 0x3ff;
/// Sectors that nothing else reads: a mark is a letter, and a read that tells the clock.
const FREE_SECTORS: [u64; 2] = [1920, 1984];
const SECTOR_BYTES: usize = 512;

/// A disk as the firmware offers it: UEFI specification, 13.9. Only what is needed here.
#[repr(C)]
struct Disk {
    revision: u64,
    media: *const c_void,
    reset: *const c_void,
    read: Read,
}

type Read = extern "efiapi" fn(*mut Disk, u32, u64, usize, *mut c_void) -> Status;

/// The firmware's own way to read.
static READ: AtomicPtr<()> = AtomicPtr::new(core::ptr::null_mut());

/// Write a letter with the clock.
fn mark(letter: u8) {
    out8(MARK_PORT, letter);
    // SAFETY: it reads a counter.
    let now = unsafe { core::arch::x86_64::_rdtsc() };
    now.to_le_bytes().into_iter().for_each(|byte| out8(MARK_PORT, byte));
}

/// Read as the firmware does, with the clock before and after.
extern "efiapi" fn read_and_tell(
    disk: *mut Disk,
    media: u32,
    first: u64,
    bytes: usize,
    to: *mut c_void,
) -> Status {
    // SAFETY: `tell_reads` has put the firmware's function here before this one is called.
    let read: Read = unsafe { core::mem::transmute(READ.load(Ordering::Relaxed)) };
    mark(b'S');
    let status = read(disk, media, first, bytes, to);
    mark(b'D');
    status
}

/// The disk: from now on each read of it is told.
fn tell_reads() -> uefi::Result<boot::ScopedProtocol<BlockIO>> {
    let handles = boot::locate_handle_buffer(boot::SearchType::ByProtocol(&BlockIO::GUID))?;
    for handle in handles.iter() {
        let io = protocol::<BlockIO>(*handle)?;
        if io.media().is_logical_partition() {
            continue;
        }
        let disk = (&raw const *io).cast_mut().cast::<Disk>();
        // SAFETY: the interface begins with these fields, and the firmware keeps it in memory that
        // is written to; nobody else runs.
        unsafe {
            READ.store((*disk).read as *mut (), Ordering::Relaxed);
            (*disk).read = read_and_tell;
        }
        return Ok(io);
    }
    Err(Status::NOT_FOUND.into())
}

/// A letter, and a read that tells the clock.
fn tell(disk: &BlockIO, letter: u8, sector: u64) -> uefi::Result {
    out8(MARK_PORT, letter);
    disk.read_blocks(disk.media().media_id(), sector, &mut [0; SECTOR_BYTES])
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
    let told = tell_reads()?;
    tell(&told, b'B', FREE_SECTORS[0])?;
    let boot_policy = BootPolicy::ExactMatch;
    let source = LoadImageSource::FromDevicePath { device_path, boot_policy };
    let loaded = boot::load_image(boot::image_handle(), source)?;
    tell(&told, b'E', FREE_SECTORS[1])?;
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
