//! A chain of descriptors: what the guest gives to one request.

use std::ops::Deref;

use vm_memory::GuestMemory;

use virtio_queue::DescriptorChain;

use super::block::{REQUEST_BYTES_MAX, REQUEST_HEADER_BYTES, SEGMENTS_MAX};
use super::memory::Memory;
use super::message::Malformed;

/// Descriptors of a chain: the data's, and one each for header and status.
const DESCRIPTORS_MAX: usize = SEGMENTS_MAX as usize + 2;
/// A discard's range is as long.
const RANGE_BYTES: usize = 16;

/// Address and length.
type Segment = (u64, u32);

/// A chain that was walked once, so that the guest cannot change it any more. A virtio device may
/// not care how its bytes are spread over descriptors.
#[derive(Debug)]
pub(crate) struct Chain {
    head: u16,
    /// What the device reads, header included.
    readable: Vec<Segment>,
    /// What the device writes, status included.
    writable: Vec<Segment>,
}

fn total(segments: &[Segment]) -> u64 {
    segments.iter().map(|segment| u64::from(segment.1)).sum()
}

impl Chain {
    /// Walk a chain.
    ///
    /// # Errors
    /// When it loops, leaves memory, is too long, or is no request.
    pub(crate) fn read<M>(chain: DescriptorChain<M>, memory: &Memory) -> Result<Chain, Malformed>
    where
        M: Deref,
        M::Target: GuestMemory,
    {
        let head = chain.head_index();
        let (mut readable, mut writable) = (Vec::with_capacity(4), Vec::with_capacity(4));
        let (mut count, mut ended) = (0, false);
        for descriptor in chain {
            let (address, bytes) = (descriptor.addr().0, descriptor.len());
            count += 1;
            if count > DESCRIPTORS_MAX {
                return Err(Malformed(format!("chain {head} has over {DESCRIPTORS_MAX} parts")));
            }
            if bytes == 0 || !memory.has(address, bytes as usize) {
                let what = format!("chain {head}: {bytes} bytes at {address:#x} are not memory");
                return Err(Malformed(what));
            }
            match descriptor.is_write_only() {
                true => writable.push((address, bytes)),
                false if writable.is_empty() => readable.push((address, bytes)),
                false => return Err(Malformed(format!("chain {head} goes back to reading"))),
            }
            ended = !descriptor.has_next();
        }
        // The walk stops where a descriptor leads nowhere or back.
        if !ended {
            return Err(Malformed(format!("chain {head} does not end")));
        }
        let limit = REQUEST_BYTES_MAX + 4096;
        if total(&readable) < REQUEST_HEADER_BYTES as u64 || writable.is_empty() {
            return Err(Malformed(format!("chain {head} has no header or no status")));
        }
        if total(&readable) > limit || total(&writable) > limit {
            return Err(Malformed(format!("chain {head} is larger than any request")));
        }
        Ok(Chain { head, readable, writable })
    }

    /// Its number in the queue.
    pub(crate) fn head(&self) -> u16 {
        self.head
    }

    /// Bytes of data (to the device, from the device).
    pub(crate) fn data_bytes(&self) -> (u64, u64) {
        (total(&self.readable) - REQUEST_HEADER_BYTES as u64, total(&self.writable) - 1)
    }

    /// The header, and the first data bytes behind it.
    ///
    /// # Errors
    /// When memory is gone.
    pub(crate) fn front(
        &self,
        memory: &Memory,
    ) -> Result<([u8; REQUEST_HEADER_BYTES], Vec<u8>), Malformed> {
        let mut front = [0; REQUEST_HEADER_BYTES + RANGE_BYTES];
        let mut filled = 0;
        for &(address, bytes) in &self.readable {
            let part = (bytes as usize).min(front.len() - filled);
            if part == 0 {
                break;
            }
            memory.read(address, &mut front[filled..filled + part])?;
            filled += part;
        }
        let mut header = [0; REQUEST_HEADER_BYTES];
        header.copy_from_slice(&front[..REQUEST_HEADER_BYTES]);
        Ok((header, front[REQUEST_HEADER_BYTES..filled].to_vec()))
    }

    /// The segments of the data for the device.
    pub(crate) fn to_device(&self) -> impl Iterator<Item = Segment> {
        let mut skip = REQUEST_HEADER_BYTES as u32;
        self.readable.iter().filter_map(move |&(address, bytes)| {
            let skipped = skip.min(bytes);
            skip -= skipped;
            (bytes > skipped).then(|| (address + u64::from(skipped), bytes - skipped))
        })
    }

    /// Give the guest data.
    ///
    /// # Errors
    /// When memory is gone.
    pub(crate) fn answer(&self, memory: &Memory, mut data: &[u8]) -> Result<(), Malformed> {
        let mut room = self.data_bytes().1 as usize;
        for &(address, bytes) in &self.writable {
            let part = (bytes as usize).min(data.len()).min(room);
            if part == 0 {
                break;
            }
            memory.write(address, &data[..part])?;
            data = &data[part..];
            room -= part;
        }
        Ok(())
    }

    /// Write the status; returns how many bytes the guest may look at.
    ///
    /// # Errors
    /// When memory is gone.
    pub(crate) fn finish(&self, memory: &Memory, status: u8) -> Result<u32, Malformed> {
        if let Some(&(address, bytes)) = self.writable.last() {
            memory.write(address + u64::from(bytes) - 1, &[status])?;
        }
        Ok(total(&self.writable) as u32)
    }
}
