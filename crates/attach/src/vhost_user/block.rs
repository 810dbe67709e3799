//! A virtio block device: its features, its configuration space, its requests (Virtual I/O Device
//! 1.2, section 5.2). Pure.

use sim::{Limits, Priority, PriorityClass, SECTOR_BYTES};

use crate::identity::Identity;
use crate::order::{Command, Refusal, Submitter};

/// Features of the device and of its queues.
pub mod feature {
    /// `size_max` counts.
    pub const SIZE_MAX: u64 = 1 << 1;
    /// `seg_max` counts.
    pub const SEG_MAX: u64 = 1 << 2;
    /// Writes are refused.
    pub const READ_ONLY: u64 = 1 << 5;
    /// `blk_size` counts.
    pub const BLK_SIZE: u64 = 1 << 6;
    /// There is a cache to flush.
    pub const FLUSH: u64 = 1 << 9;
    /// `topology` counts.
    pub const TOPOLOGY: u64 = 1 << 10;
    /// The cache can be switched.
    pub const CONFIG_WCE: u64 = 1 << 11;
    /// `num_queues` counts.
    pub const MQ: u64 = 1 << 12;
    /// Discards are understood.
    pub const DISCARD: u64 = 1 << 13;
    /// Write-zeroes is understood.
    pub const WRITE_ZEROES: u64 = 1 << 14;
    /// A chain may lie in a table of its own.
    pub const INDIRECT: u64 = 1 << 28;
    /// Kicks and calls by index.
    pub const EVENT_INDEX: u64 = 1 << 29;
    /// The protocol has features of its own.
    pub const PROTOCOL: u64 = 1 << 30;
    /// virtio 1.
    pub const VERSION_1: u64 = 1 << 32;
    /// Requests say on whose behalf they come, see [`super::submitter`]. It is not virtio's but of
    /// our guest's kernel; should what is said ever change, it gets another bit.
    pub const SUBMITTER: u64 = 1 << 60;
}

/// Bytes of the configuration space.
pub const CONFIG_BYTES: usize = 60;
/// Where the switch of the write cache is.
pub const WRITEBACK_AT: u32 = 32;
/// Bytes at the front of every request.
pub const REQUEST_HEADER_BYTES: usize = 16;
/// Bytes of the answer to a question for the name.
pub const SERIAL_BYTES: usize = 20;
/// Segments of a request's data: with header and status they fill QEMU's usual queue.
const SEGMENTS: u32 = 254;
/// The same where every bio comes by itself: as many as a bio has, so that none is split.
pub const SEGMENTS_MAX: u32 = 256;
/// Larger requests are refused; what Linux sends is below.
pub const REQUEST_BYTES_MAX: u64 = 16 << 20;
/// Bytes of one range of a discard or write-zeroes.
const RANGE_BYTES: usize = 16;
/// Sectors of a discard: 2 GiB, so that its bytes fit.
const RANGE_SECTORS_MAX: u32 = 1 << 22;

/// Status bytes.
pub mod status {
    /// Done.
    pub const OK: u8 = 0;
    /// Failed.
    pub const IO_ERROR: u8 = 1;
    /// Not known.
    pub const UNSUPPORTED: u8 = 2;
}

/// The features of a device of these limits with so many queues.
pub fn features(limits: &Limits, queues: u16, read_only: bool) -> u64 {
    use feature::*;
    let mut all = SEG_MAX | BLK_SIZE | TOPOLOGY | WRITE_ZEROES;
    all |= INDIRECT | EVENT_INDEX | PROTOCOL | VERSION_1;
    for (there, bits) in [
        (limits.write_cache, FLUSH | CONFIG_WCE),
        (limits.discard, DISCARD),
        (queues > 1, MQ),
        (read_only, READ_ONLY),
    ] {
        all |= if there { bits } else { 0 };
    }
    all
}

/// Bytes of blocks as a host is told of them, all powers of two.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Unit of addressing.
    pub logical: u32,
    /// Unit of writing without a read before it.
    pub physical: u32,
    /// Unit of discards.
    pub discard: u32,
    /// Longest request; `None`: what segments there may be.
    pub request_max: Option<u32>,
}

impl Geometry {
    /// What `limits` imply.
    pub fn implied(limits: &Limits) -> Geometry {
        let block = (limits.block_bytes / SECTOR_BYTES as u32).max(1) * SECTOR_BYTES as u32;
        let logical = SECTOR_BYTES as u32;
        Geometry { logical, physical: block, discard: block, request_max: None }
    }

    /// What a part says.
    pub fn of(identity: &Identity) -> Geometry {
        Geometry {
            logical: identity.logical_block_bytes,
            physical: identity.physical_block_bytes,
            discard: identity.discard_granularity_bytes,
            request_max: identity.request_bytes_max,
        }
    }

    /// Segments of a request, and bytes of one, that make it no longer than it may be; there is no
    /// other place for that. Linux takes no segments below a page.
    fn segments(&self, most: u32) -> (u32, u32) {
        const PAGE: u32 = 4096;
        let Some(bytes) = self.request_max else { return (most, 0) };
        let size = (bytes / most / PAGE * PAGE).max(PAGE);
        ((bytes / size).clamp(1, most), size)
    }
}

/// The configuration space of a device that offers these `features`.
pub fn config(
    limits: &Limits,
    geometry: &Geometry,
    queues: u16,
    writeback: bool,
    features: u64,
) -> [u8; CONFIG_BYTES] {
    let most = if features & feature::SUBMITTER == 0 { SEGMENTS } else { SEGMENTS_MAX };
    let (segments, segment_bytes) = geometry.segments(most);
    let mut space = [0; CONFIG_BYTES];
    let mut put = |at: usize, bytes: &[u8]| space[at..at + bytes.len()].copy_from_slice(bytes);
    let blocks = (geometry.physical / geometry.logical).max(1);
    let discard_sectors = (geometry.discard / SECTOR_BYTES as u32).max(1);
    put(0, &limits.sectors().to_le_bytes());
    put(8, &segment_bytes.to_le_bytes());
    put(12, &segments.to_le_bytes());
    put(20, &geometry.logical.to_le_bytes());
    put(24, &[blocks.ilog2() as u8]);
    put(26, &(blocks as u16).to_le_bytes());
    put(WRITEBACK_AT as usize, &[u8::from(writeback)]);
    put(34, &queues.to_le_bytes());
    put(36, &RANGE_SECTORS_MAX.to_le_bytes());
    put(40, &1u32.to_le_bytes());
    put(44, &discard_sectors.to_le_bytes());
    put(48, &RANGE_SECTORS_MAX.to_le_bytes());
    put(52, &1u32.to_le_bytes());
    put(56, &[1]);
    space
}

/// On whose behalf a request comes, by the second word of its header: the priority's level in bits
/// 0 to 2, its class in 3 and 4, whether the process waits in 5, and the process from 6 on.
pub fn submitter(header: &[u8; REQUEST_HEADER_BYTES]) -> Submitter {
    let word = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
    let class = match word >> 3 & 3 {
        0 => PriorityClass::None,
        1 => PriorityClass::RealTime,
        2 => PriorityClass::BestEffort,
        _ => PriorityClass::Idle,
    };
    let priority = match class {
        PriorityClass::None => Priority::NONE,
        class => Priority::new(class, (word & 7) as u8),
    };
    Submitter { process: word >> 6, sync: word >> 5 & 1 != 0, priority }
}

/// What a request's header and its first data bytes ask.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asked {
    /// Something for the device, on this range of bytes.
    Order {
        /// What.
        command: Command,
        /// First byte.
        offset: u64,
        /// How many.
        bytes: u32,
    },
    /// The device's name.
    Serial,
}

/// Read a request. `to_device` are the bytes of data behind the header, `from_device` the room
/// for an answer's data; `range` are the first data bytes, at most 16. `durable` makes every write
/// force unit access: the cache is switched off.
///
/// # Errors
/// With the status byte that says what is wrong.
pub fn request(
    header: &[u8; REQUEST_HEADER_BYTES],
    range: &[u8],
    (to_device, from_device): (u64, u64),
    durable: bool,
) -> Result<Asked, u8> {
    let kind = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    let sector = u64::from_le_bytes(*header.last_chunk::<8>().expect("16 bytes have a last 8"));
    let offset = sector.checked_mul(SECTOR_BYTES).ok_or(status::IO_ERROR)?;
    let transfer = |bytes: u64, command: Command| {
        if bytes == 0 || bytes > REQUEST_BYTES_MAX || !bytes.is_multiple_of(SECTOR_BYTES) {
            return Err(status::IO_ERROR);
        }
        Ok(Asked::Order { command, offset, bytes: bytes as u32 })
    };
    match kind {
        0 => transfer(from_device, Command::Read),
        1 => transfer(to_device, Command::Write { fua: durable }),
        4 => Ok(Asked::Order { command: Command::Flush, offset: 0, bytes: 0 }),
        8 => Ok(Asked::Serial),
        11 | 13 => {
            if to_device != RANGE_BYTES as u64 {
                return Err(status::IO_ERROR);
            }
            self::range(range, kind == 11, durable)
        }
        _ => Err(status::UNSUPPORTED),
    }
}

fn range(range: &[u8], discard: bool, fua: bool) -> Result<Asked, u8> {
    let range: &[u8; RANGE_BYTES] = range.try_into().map_err(|_| status::IO_ERROR)?;
    let word =
        |at: usize| u32::from_le_bytes([range[at], range[at + 1], range[at + 2], range[at + 3]]);
    let sector = u64::from(word(0)) | u64::from(word(4)) << 32;
    let (sectors, flags) = (word(8), word(12));
    if sectors == 0 || sectors > RANGE_SECTORS_MAX {
        return Err(status::IO_ERROR);
    }
    // A discard has no flags; a write-zeroes may be allowed to discard.
    if flags & !1 != 0 || discard && flags != 0 {
        return Err(status::UNSUPPORTED);
    }
    let command = if discard {
        Command::Discard
    } else {
        Command::WriteZeroes { fua, may_discard: flags & 1 != 0 }
    };
    let offset = sector.checked_mul(SECTOR_BYTES).ok_or(status::IO_ERROR)?;
    Ok(Asked::Order { command, offset, bytes: sectors * SECTOR_BYTES as u32 })
}

/// The status byte of an answer.
pub fn status_of(result: Result<(), Refusal>) -> u8 {
    match result {
        Ok(()) => status::OK,
        Err(Refusal::Io | Refusal::BeyondEnd | Refusal::NoSpace) => status::IO_ERROR,
    }
}

/// The device's name, in as many bytes as there are for it.
pub fn serial(name: &str) -> [u8; SERIAL_BYTES] {
    let mut bytes = [0; SERIAL_BYTES];
    for (to, from) in bytes.iter_mut().zip(name.bytes()) {
        *to = from;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Bytes;

    const LIMITS: Limits = Limits {
        capacity: Bytes::from_mib(1),
        block_bytes: 4096,
        queue_depth_max: 32,
        rotational: false,
        write_cache: true,
        discard: true,
    };

    fn header(kind: u32, sector: u64) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..4].copy_from_slice(&kind.to_le_bytes());
        bytes[8..].copy_from_slice(&sector.to_le_bytes());
        bytes
    }

    fn range(sector: u64, sectors: u32, flags: u32) -> Vec<u8> {
        let mut bytes = sector.to_le_bytes().to_vec();
        bytes.extend([sectors.to_le_bytes(), flags.to_le_bytes()].concat());
        bytes
    }

    #[test]
    fn requests_are_read() {
        let asked = request(&header(0, 8), &[], (0, 4096), false).unwrap();
        assert_eq!(asked, Asked::Order { command: Command::Read, offset: 4096, bytes: 4096 });
        let asked = request(&header(1, 0), &[], (512, 0), true).unwrap();
        let command = Command::Write { fua: true };
        assert_eq!(asked, Asked::Order { command, offset: 0, bytes: 512 });
        let asked = request(&header(13, 0), &range(8, 16, 1), (16, 0), false).unwrap();
        let command = Command::WriteZeroes { fua: false, may_discard: true };
        assert_eq!(asked, Asked::Order { command, offset: 4096, bytes: 8192 });
        assert_eq!(request(&header(8, 0), &[], (0, 20), false), Ok(Asked::Serial));
    }

    #[test]
    fn a_header_says_on_whose_behalf() {
        let told = |word: u32| {
            let mut header = header(0, 0);
            header[4..8].copy_from_slice(&word.to_le_bytes());
            submitter(&header)
        };
        assert_eq!(told(0), Submitter::default());
        let real_time = Priority::new(PriorityClass::RealTime, 3);
        let expected = Submitter { process: 77, sync: true, priority: real_time };
        assert_eq!(told(77 << 6 | 1 << 5 | 1 << 3 | 3), expected);
        let best_effort = Priority::new(PriorityClass::BestEffort, 7);
        // The largest number of a process on Linux.
        let expected = Submitter { process: 1 << 22, sync: false, priority: best_effort };
        assert_eq!(told(1 << 28 | 2 << 3 | 7), expected);
        let idle = Priority::new(PriorityClass::Idle, 0);
        assert_eq!(told(3 << 3), Submitter { priority: idle, ..Submitter::default() });
        // Without a class the level says nothing.
        assert_eq!(told(4).priority, Priority::NONE);
    }

    #[test]
    fn only_whole_bios_have_more_segments() {
        let segments = |features| {
            let space = config(&LIMITS, &Geometry::implied(&LIMITS), 1, true, features);
            u32::from_le_bytes([space[12], space[13], space[14], space[15]])
        };
        assert_eq!((segments(0), segments(feature::SUBMITTER)), (254, 256));
    }

    #[test]
    fn wrong_requests_get_their_status() {
        assert_eq!(request(&header(0, 0), &[], (0, 0), false), Err(1));
        assert_eq!(request(&header(0, 0), &[], (0, 513), false), Err(1));
        assert_eq!(request(&header(1, 0), &[], ((16 << 20) + 512, 0), false), Err(1));
        assert_eq!(request(&header(0, u64::MAX), &[], (0, 512), false), Err(1));
        assert_eq!(request(&header(7, 0), &[], (0, 0), false), Err(2));
        assert_eq!(request(&header(11, 0), &range(0, 8, 0), (32, 0), false), Err(1));
        assert_eq!(request(&header(11, 0), &range(0, 0, 0), (16, 0), false), Err(1));
        assert_eq!(request(&header(11, 0), &range(0, 8, 1), (16, 0), false), Err(2));
        assert_eq!(request(&header(13, 0), &range(0, 8, 2), (16, 0), false), Err(2));
    }

    #[test]
    fn features_and_configuration_say_what_the_device_can() {
        let all = features(&LIMITS, 1, false);
        assert!(all & feature::FLUSH != 0 && all & feature::MQ == 0);
        let plain = Limits { write_cache: false, discard: false, ..LIMITS };
        let few = features(&plain, 4, true);
        assert!(few & (feature::FLUSH | feature::CONFIG_WCE | feature::DISCARD) == 0);
        assert!(few & feature::MQ != 0 && few & feature::READ_ONLY != 0);
        let space = config(&LIMITS, &Geometry::implied(&LIMITS), 4, true, all);
        assert_eq!(space[..8], 2048u64.to_le_bytes());
        assert_eq!((space[24], space[32], space[34]), (3, 1, 4));
        assert_eq!((&space[8..12], &space[20..24], space[44]), (&[0; 4][..], &[0, 2, 0, 0][..], 8));
        assert_eq!(&serial("wd-80g-5400")[..12], b"wd-80g-5400\0");
    }

    #[test]
    fn what_the_part_says_is_in_the_configuration() {
        let space = |request_max| {
            let (logical, physical, discard) = (4096, 16384, 1 << 20);
            let geometry = Geometry { logical, physical, discard, request_max };
            config(&LIMITS, &geometry, 1, true, 0)
        };
        let word = |space: &[u8; CONFIG_BYTES], at: usize| {
            u32::from_le_bytes(space[at..at + 4].try_into().unwrap())
        };
        let told = space(Some(128 << 10));
        // In logical blocks, but sectors for discards.
        assert_eq!((word(&told, 20), told[24], told[26], word(&told, 44)), (4096, 2, 4, 2048));
        for (bytes, expected) in
            [(128 << 10, (32, 4096)), (4096, (1, 4096)), (4 << 20, (254, 16384)), (512, (1, 4096))]
        {
            let told = space(Some(bytes));
            assert_eq!((word(&told, 12), word(&told, 8)), expected, "{bytes}");
        }
    }
}
