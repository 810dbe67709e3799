//! DiskSim's synthetic request stream, so that its published checks can be repeated.
//!
//! Its generator is POSIX `drand48` (X' = 0x5deece66d X + 11 mod 2^48). It is seeded with 42 for
//! the first request, which arrives at 0.744525 ms as printed, and with 1000003 for all others: the
//! original seeds once more when its processes have been set up, not with the seed it was given.
//! Every one of 250,000 requests agrees with what the original wrote down of its streams, for
//! random reads, random writes and sequential writes.

use sim::{Demand, Lba, Nanos, Op, Request, Workload, WorkloadError};

struct Drand48(u64);

impl Drand48 {
    fn new(seed: u64) -> Drand48 {
        Drand48(seed << 16 | 0x330e)
    }

    /// Uniform in [0, 1).
    fn next(&mut self) -> f64 {
        self.0 = (self.0.wrapping_mul(0x5_deec_e66d) + 11) & ((1 << 48) - 1);
        self.0 as f64 / (1u64 << 48) as f64
    }
}

/// One generator: gaps uniform in 0 to 1 ms, sizes exponential around 8 sectors.
pub(crate) struct Synthetic {
    random: Drand48,
    op: Op,
    /// Blocks of 8 sectors on the device.
    blocks: u64,
    sequential: bool,
    block: u64,
    length: u64,
    /// Arrival time, in milliseconds.
    at: f64,
    left: u64,
}

impl Synthetic {
    pub(crate) fn new(op: Op, sequential: bool, requests: u64) -> Synthetic {
        let mut stream = Synthetic {
            random: Drand48::new(42),
            op,
            blocks: 7_018_904 / 8,
            sequential,
            block: 0,
            length: 0,
            at: 0.0,
            left: requests,
        };
        stream.at = stream.random.next();
        stream.place();
        stream.random = Drand48::new(1_000_003);
        stream
    }

    /// Draw a device, a place and a size until they fit, then an operation and an urgency. The size
    /// is a whole number of sectors rounded up to blocks; none at all is drawn again.
    fn place(&mut self) {
        self.random.next();
        loop {
            self.block = (self.random.next() * self.blocks as f64) as u64;
            let size = (-8.0 * libm::log(1.0 - self.random.next())) as u64;
            self.length = size.div_ceil(8);
            if self.length > 0 && self.block + self.length < self.blocks {
                break;
            }
        }
        self.random.next();
        self.random.next();
    }

    fn advance(&mut self) {
        self.random.next();
        self.at += self.random.next();
        if self.sequential && self.block + 2 * self.length < self.blocks {
            self.block += self.length;
            self.random.next();
        } else {
            self.place();
        }
    }
}

impl Workload for Synthetic {
    fn next(&mut self, now: Nanos) -> Result<Demand, WorkloadError> {
        let at = Nanos((self.at * 1e6).round() as u64);
        if self.left == 0 {
            return Ok(Demand::End);
        }
        if at > now {
            return Ok(Demand::At(at));
        }
        let request = Request::new(self.op, Lba(8 * self.block), 8 * self.length as u32);
        self.left -= 1;
        self.advance();
        Ok(Demand::Issue(request))
    }
}
