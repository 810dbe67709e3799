//! What a trace is like: counts, sizes, span, footprint, who asked.

use std::collections::BTreeMap;

use serde::Serialize;
use sim::{Bytes, Nanos, Op};

use crate::{Record, Trace};

/// Requests and bytes of one kind.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Share {
    /// Number of requests.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Mean bytes of one; 0 when there is none.
    pub mean_bytes: f64,
}

impl Share {
    fn add(&mut self, bytes: u64) {
        self.requests += 1;
        self.bytes += bytes;
        self.mean_bytes = self.bytes as f64 / self.requests as f64;
    }
}

/// Requests of one name.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Named {
    /// The device or process.
    pub name: String,
    /// What it asked for.
    #[serde(flatten)]
    pub share: Share,
}

/// Requests of sizes above half of `bytes_max` and up to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct SizeClass {
    /// Largest size, a power of two.
    pub bytes_max: u64,
    /// Number of reads and writes.
    pub requests: u64,
}

/// A description of a trace.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Summary {
    /// All requests.
    pub requests: u64,
    /// From the first request to the latest; absent where the trace has no times.
    pub span_s: Option<f64>,
    /// The first request's time as the trace counts it.
    pub origin_ns: Option<u64>,
    /// Reads.
    pub read: Share,
    /// Writes.
    pub write: Share,
    /// Flushes.
    pub flush: Share,
    /// Discards.
    pub discard: Share,
    /// Writes with force unit access.
    pub fua: u64,
    /// Sizes of reads and writes, in powers of two.
    pub sizes: Vec<SizeClass>,
    /// Share of reads and writes that start where the device's last one ended.
    pub sequential_share: f64,
    /// Bytes touched at least once by a read or a write, in 4 KiB blocks; absent when they are
    /// spread over more places than the meter holds.
    pub footprint_bytes: Option<u64>,
    /// First sector touched.
    pub sector_first: Option<u64>,
    /// First sector past everything touched.
    pub sector_end: u64,
    /// Mean response time where the trace tells it.
    pub response_mean_us: Option<f64>,
    /// Per device, in the order of their numbers.
    pub devices: Vec<Named>,
    /// Per process, most requests first; empty where the trace does not tell.
    pub processes: Vec<Named>,
}

/// Measures a [`Summary`]; memory grows with the footprint and the number of processes.
#[derive(Default)]
pub struct SummaryMeter {
    ops: [Share; 4],
    fua: u64,
    /// By largest size.
    sizes: BTreeMap<u64, u64>,
    sequential: u64,
    touched: BlockSet,
    first: Option<u64>,
    end: u64,
    last: Option<Nanos>,
    responses: (u64, u128),
    devices: BTreeMap<u32, (Share, u64)>,
    processes: BTreeMap<u32, Share>,
}

impl SummaryMeter {
    /// One more record.
    pub fn add(&mut self, record: &Record) {
        let request = &record.request;
        let bytes = request.bytes().0;
        self.ops[request.op as usize].add(bytes);
        self.fua += u64::from(request.fua);
        self.last = self.last.max(record.time);
        if let Some(response) = record.response {
            self.responses.0 += 1;
            self.responses.1 += u128::from(response.0);
        }
        if request.process != 0 {
            self.processes.entry(request.process).or_default().add(bytes);
        }
        let (share, next) = self.devices.entry(record.device).or_default();
        share.add(bytes);
        if matches!(request.op, Op::Read | Op::Write) {
            self.sequential += u64::from(*next == request.lba.0 && share.requests > 1);
            *next = request.end().0;
            *self.sizes.entry(bytes.next_power_of_two()).or_default() += 1;
            let (first, last) = (request.lba.0 / 8, (request.end().0 - 1) / 8);
            self.touched.insert(record.device, first, last);
        }
        if request.op != Op::Flush {
            self.first = Some(self.first.unwrap_or(u64::MAX).min(request.lba.0));
            self.end = self.end.max(request.end().0);
        }
    }

    /// The description of what was added; `trace` knows the names.
    pub fn finish(self, trace: &Trace) -> Summary {
        let [read, write, flush, discard] = self.ops;
        let transfers = read.requests + write.requests;
        let sizes = self.sizes.iter();
        let devices = self.devices.iter();
        let devices = devices
            .map(|(&device, &(share, _))| Named { name: trace.device_name(device), share })
            .collect();
        let name = |process: u32| match trace.process_name(process) {
            Some(name) => format!("{name} ({process})"),
            None => process.to_string(),
        };
        let mut processes: Vec<Named> =
            self.processes.iter().map(|(&p, &share)| Named { name: name(p), share }).collect();
        processes.sort_by_key(|process| std::cmp::Reverse(process.share.requests));
        let (responses, sum) = self.responses;
        Summary {
            requests: self.ops.iter().map(|share| share.requests).sum(),
            span_s: self.last.map(Nanos::as_secs_f64),
            origin_ns: trace.origin().map(|time| time.0),
            read,
            write,
            flush,
            discard,
            fua: self.fua,
            sizes: sizes.map(|(&bytes_max, &requests)| SizeClass { bytes_max, requests }).collect(),
            sequential_share: self.sequential as f64 / (transfers.max(1)) as f64,
            footprint_bytes: self.touched.len().map(|blocks| blocks * Bytes::from_kib(4).0),
            sector_first: self.first,
            sector_end: self.end,
            response_mean_us: (responses > 0).then(|| sum as f64 / responses as f64 / 1e3),
            devices,
            processes,
        }
    }
}

/// A set of blocks: bits in chunks, so that memory follows what is touched, up to a bound.
#[derive(Default)]
pub(crate) struct BlockSet {
    chunks: BTreeMap<(u32, u64), Box<[u64; CHUNK_WORDS]>>,
    len: u64,
    full: bool,
}

const CHUNK_WORDS: usize = 64;
const CHUNK_BITS: u64 = 64 * CHUNK_WORDS as u64;
/// 512 MiB of bits: 16 TiB in one piece, or a million places.
const CHUNKS_MAX: usize = 1 << 20;

impl BlockSet {
    /// Insert the blocks `first..=last` of a device; how many of them were there already.
    pub(crate) fn insert(&mut self, device: u32, first: u64, last: u64) -> u64 {
        let mut known = 0;
        let mut at = first;
        while at <= last && !self.full {
            let end = last.min(at / CHUNK_BITS * CHUNK_BITS + CHUNK_BITS - 1);
            let chunk = self.chunks.entry((device, at / CHUNK_BITS));
            let chunk = chunk.or_insert_with(|| Box::new([0; CHUNK_WORDS]));
            for bit in at % CHUNK_BITS..=end % CHUNK_BITS {
                let (word, mask) = (&mut chunk[(bit / 64) as usize], 1 << (bit % 64));
                known += u64::from(*word & mask != 0);
                *word |= mask;
            }
            self.full = self.chunks.len() >= CHUNKS_MAX;
            at = end + 1;
        }
        self.len += last - first + 1 - known;
        known
    }

    /// One that holds as much as it may.
    #[cfg(test)]
    pub(crate) fn filled() -> BlockSet {
        BlockSet { full: true, ..BlockSet::default() }
    }

    /// How many blocks there are, unless they are too spread to be counted.
    pub(crate) fn len(&self) -> Option<u64> {
        (!self.full).then_some(self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_set_counts_each_block_once() {
        let mut set = BlockSet::default();
        assert_eq!(set.insert(0, 4090, 4100), 0);
        assert_eq!(set.insert(0, 4095, 4096), 2);
        assert_eq!(set.insert(0, 4100, 4101), 1);
        assert_eq!(set.insert(1, 4100, 4101), 0);
        assert_eq!(set.insert(0, 1 << 50, 1 << 50), 0);
        assert_eq!(set.len(), Some(15));
    }

    #[test]
    fn absurd_requests_do_not_fill_the_memory() {
        let mut set = BlockSet::default();
        for i in 0..40 {
            set.insert(0, i << 40, (i << 40) + (1 << 27));
        }
        assert_eq!(set.len(), None);
        assert_eq!(set.chunks.len(), CHUNKS_MAX);
    }
}
