//! What goes over ublk's descriptors, sans I/O.
//!
//! <https://github.com/torvalds/linux/blob/master/include/uapi/linux/ublk_cmd.h>. Both sides are
//! on one machine, so numbers have its byte order.

use super::super::linux::{u32_at, u64_at};
use crate::order::Command;

/// Requests to the control device and to a queue, as `_IOC` numbers them.
pub(super) mod command {
    const fn encode(direction: u32, number: u32, bytes: u32) -> u32 {
        direction << 30 | bytes << 16 | (b'u' as u32) << 8 | number
    }

    const READ: u32 = 2;
    const BOTH: u32 = 3;
    const CONTROL_BYTES: u32 = 32;

    pub(in super::super) const GET_INFO: u32 = encode(READ, 0x02, CONTROL_BYTES);
    pub(in super::super) const ADD: u32 = encode(BOTH, 0x04, CONTROL_BYTES);
    pub(in super::super) const DELETE: u32 = encode(BOTH, 0x05, CONTROL_BYTES);
    pub(in super::super) const START: u32 = encode(BOTH, 0x06, CONTROL_BYTES);
    pub(in super::super) const STOP: u32 = encode(BOTH, 0x07, CONTROL_BYTES);
    pub(in super::super) const SET_PARAMETERS: u32 = encode(BOTH, 0x08, CONTROL_BYTES);
    pub(in super::super) const FETCH: u32 = encode(BOTH, 0x20, 16);
    pub(in super::super) const COMMIT_AND_FETCH: u32 = encode(BOTH, 0x21, 16);
}

/// Any free number will do for a new device.
pub(super) const ANY_DEVICE: u32 = u32::MAX;
/// The server moves data itself by reading and writing the device (Linux 6.5).
pub(super) const USER_COPY: u64 = 1 << 7;

/// What we leave in every device of ours; the driver only keeps it. It forgets the process that
/// served a device, so that is in here.
pub(super) fn mark(process: u32) -> u64 {
    u64::from(u32::from_be_bytes(*b"blab")) << 32 | u64::from(process)
}

/// The process that made a device of ours; `None` for those of others.
pub(super) fn maker(mark: u64) -> Option<u32> {
    let process = mark as u32;
    (mark == self::mark(process)).then_some(process)
}

/// A device of ours that nobody serves any more. The process that made one that is live may be
/// known under this number in another namespace only.
pub(super) fn is_abandoned(info: &DeviceInfo, is_running: impl Fn(u32) -> bool) -> bool {
    const LIVE: u16 = 1;
    info.state != LIVE && maker(info.mark).is_some_and(|process| !is_running(process))
}

/// Length of a request's description.
pub(super) const DESCRIPTION_BYTES: usize = 24;

/// Data of request `tag` of the only queue begins here in the device's file.
pub(super) fn data_offset(tag: u16) -> u64 {
    const DATA: u64 = 0x8000_0000;
    const TAG_SHIFT: u32 = 25;
    DATA + (u64::from(tag) << TAG_SHIFT)
}

/// `struct ublksrv_ctrl_cmd`, padded for the ring. `address` is that of a buffer of `bytes`.
pub(super) fn control(device: u32, address: u64, bytes: u16, data: u64) -> [u8; 80] {
    const NO_QUEUE: u16 = u16::MAX;
    let mut out = [0; 80];
    out[..4].copy_from_slice(&device.to_ne_bytes());
    out[4..6].copy_from_slice(&NO_QUEUE.to_ne_bytes());
    out[6..8].copy_from_slice(&bytes.to_ne_bytes());
    out[8..16].copy_from_slice(&address.to_ne_bytes());
    out[16..24].copy_from_slice(&data.to_ne_bytes());
    out
}

/// `struct ublksrv_io_cmd` for request `tag` of the only queue.
pub(super) fn io(tag: u16, result: i32) -> [u8; 16] {
    let mut out = [0; 16];
    out[2..4].copy_from_slice(&tag.to_ne_bytes());
    out[4..8].copy_from_slice(&result.to_ne_bytes());
    out
}

/// `struct ublksrv_ctrl_dev_info`, as far as we care.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DeviceInfo {
    pub(super) depth: u16,
    /// The driver's alone.
    pub(super) state: u16,
    pub(super) request_bytes_max: u32,
    pub(super) device: u32,
    pub(super) flags: u64,
    /// The server's own.
    pub(super) mark: u64,
}

impl DeviceInfo {
    pub(super) const BYTES: usize = 64;

    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; DeviceInfo::BYTES];
        out[..2].copy_from_slice(&1u16.to_ne_bytes());
        out[2..4].copy_from_slice(&self.depth.to_ne_bytes());
        out[8..12].copy_from_slice(&self.request_bytes_max.to_ne_bytes());
        out[12..16].copy_from_slice(&self.device.to_ne_bytes());
        const NO_PROCESS: i32 = -1;
        out[16..20].copy_from_slice(&NO_PROCESS.to_ne_bytes());
        out[24..32].copy_from_slice(&self.flags.to_ne_bytes());
        out[32..40].copy_from_slice(&self.mark.to_ne_bytes());
        out
    }

    /// The opposite of [`DeviceInfo::encode`]; `bytes` has the length of one.
    pub(super) fn decode(bytes: &[u8]) -> DeviceInfo {
        DeviceInfo {
            depth: u16::from_ne_bytes(bytes[2..4].try_into().expect("two bytes")),
            state: u16::from_ne_bytes(bytes[4..6].try_into().expect("two bytes")),
            request_bytes_max: u32_at(bytes, 8),
            device: u32_at(bytes, 12),
            flags: u64_at(bytes, 24),
            mark: u64_at(bytes, 32),
        }
    }
}

/// What the block layer is told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters {
    pub(super) sectors: u64,
    pub(super) read_only: bool,
    pub(super) rotational: bool,
    pub(super) write_cache: bool,
    pub(super) logical_block_bytes: u32,
    pub(super) physical_block_bytes: u32,
    pub(super) request_bytes_max: u32,
    /// Unit of discards; `None` when there are none.
    pub(super) discard_bytes: Option<u32>,
}

/// Longest discard, 2 GiB, and longest range of zeroes to be written, 32 MiB.
const DISCARD_SECTORS_MAX: u32 = 1 << 22;
const ZEROES_SECTORS_MAX: u32 = 1 << 16;

impl Parameters {
    /// `struct ublk_params` up to the discards.
    pub(super) fn encode(&self) -> Vec<u8> {
        const BYTES: u32 = 60;
        const BASIC: u32 = 1;
        const DISCARD: u32 = 1 << 1;
        let when = |on: bool, bit: u32| u32::from(on) << bit;
        let attributes = when(self.read_only, 0)
            | when(self.rotational, 1)
            | when(self.write_cache, 2)
            | when(self.write_cache, 3);
        let mut out = Vec::with_capacity(BYTES as usize);
        out.extend(BYTES.to_ne_bytes());
        // The zeroes' limit is among the discards'.
        out.extend((BASIC | DISCARD).to_ne_bytes());
        out.extend(attributes.to_ne_bytes());
        let (logical, physical) = (self.logical_block_bytes, self.physical_block_bytes);
        // Shifts: logical and physical block, best size (none), smallest good one.
        let shifts = [logical.trailing_zeros(), physical.trailing_zeros(), 0, 0];
        out.extend([shifts[0] as u8, shifts[1] as u8, 0, shifts[1] as u8]);
        out.extend((self.request_bytes_max >> 9).to_ne_bytes());
        out.extend(0u32.to_ne_bytes());
        out.extend(self.sectors.to_ne_bytes());
        out.extend(0u64.to_ne_bytes());
        let most = self.discard_bytes.map_or(0, |_| DISCARD_SECTORS_MAX);
        for value in [0, self.discard_bytes.unwrap_or(logical), most, ZEROES_SECTORS_MAX] {
            out.extend(value.to_ne_bytes());
        }
        out.extend(1u16.to_ne_bytes());
        out.extend(0u16.to_ne_bytes());
        out
    }
}

/// One request of the kernel, or nothing that we know.
pub(super) fn understand(description: &[u8; DESCRIPTION_BYTES]) -> Option<(Command, u64, u32)> {
    const FUA: u32 = 1 << 13;
    const NO_UNMAP: u32 = 1 << 15;
    let (flags, sectors) = (u32_at(description, 0), u32_at(description, 4));
    let fua = flags & FUA != 0;
    let command = match flags & 0xff {
        0 => Command::Read,
        1 => Command::Write { fua },
        2 => return Some((Command::Flush, 0, 0)),
        3 => Command::Discard,
        5 => Command::WriteZeroes { fua, may_discard: flags & NO_UNMAP == 0 },
        _ => return None,
    };
    let offset = u64_at(description, 8).checked_mul(512)?;
    Some((command, offset, sectors.checked_mul(512)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description(flags: u32, sectors: u32, first: u64) -> [u8; DESCRIPTION_BYTES] {
        let mut out = [0; DESCRIPTION_BYTES];
        out[..4].copy_from_slice(&flags.to_ne_bytes());
        out[4..8].copy_from_slice(&sectors.to_ne_bytes());
        out[8..16].copy_from_slice(&first.to_ne_bytes());
        out
    }

    #[test]
    fn commands_have_the_numbers_of_the_kernels_header() {
        // From strace of another server on x86-64.
        assert_eq!(command::ADD, 0xc020_7504);
        assert_eq!(command::GET_INFO, 0x8020_7502);
        assert_eq!(command::COMMIT_AND_FETCH, 0xc010_7521);
        assert_eq!(data_offset(3), 0x8000_0000 + 3 * (32 << 20));
    }

    #[test]
    fn requests_are_understood_and_nonsense_is_not() {
        let fua = 1 << 13;
        for (flags, expected) in [
            (0, Command::Read),
            (1 | fua, Command::Write { fua: true }),
            (3, Command::Discard),
            (5, Command::WriteZeroes { fua: false, may_discard: true }),
            (5 | 1 << 15, Command::WriteZeroes { fua: false, may_discard: false }),
            // A priority and read-ahead are nothing to us.
            (1 << 19, Command::Read),
        ] {
            assert_eq!(understand(&description(flags, 8, 16)), Some((expected, 8192, 4096)));
        }
        assert_eq!(understand(&description(2, 9, 9)), Some((Command::Flush, 0, 0)));
        assert_eq!(understand(&description(4, 8, 0)), None);
        assert_eq!(understand(&description(0, 1 << 23, 0)), None);
        assert_eq!(understand(&description(0, 8, 1 << 55)), None);
    }

    #[test]
    fn a_device_is_described_and_found_again() {
        let info = DeviceInfo {
            depth: 128,
            state: 0,
            request_bytes_max: 1 << 20,
            device: 7,
            flags: USER_COPY,
            mark: mark(99),
        };
        assert_eq!(DeviceInfo::decode(&info.encode()), info);
        assert_eq!((maker(info.mark), maker(99)), (Some(99), None));
        // Dead, live, quiesced, and failing: none of a process that is there, and no live one.
        let mut bytes = info.encode();
        let abandoned = [0, 1, 2, 3].map(|state| {
            bytes[4] = state;
            let info = DeviceInfo::decode(&bytes);
            assert!(!is_abandoned(&info, |process| process == 99));
            is_abandoned(&info, |_| false)
        });
        assert_eq!(abandoned, [true, false, true, true]);
        assert!(!is_abandoned(&DeviceInfo { mark: 99, ..info }, |_| false));
        let parameters = Parameters {
            sectors: 1 << 20,
            read_only: false,
            rotational: true,
            write_cache: true,
            logical_block_bytes: 4096,
            physical_block_bytes: 16384,
            request_bytes_max: 128 << 10,
            discard_bytes: None,
        };
        let bytes = parameters.encode();
        assert_eq!((bytes.len(), u32_at(&bytes, 0), u32_at(&bytes, 8)), (60, 60, 0b1110));
        assert_eq!((&bytes[12..16], u32_at(&bytes, 16)), (&[12, 14, 0, 14][..], 256));
        assert_eq!((u64_at(&bytes, 24), u32_at(&bytes, 44)), (1 << 20, 4096));
        assert_eq!((u32_at(&bytes, 48), u32_at(&bytes, 52)), (0, 1 << 16));
    }
}
