//! IOzone: eight passes over one file.
//!
//! # What it models
//! The passes write, rewrite, read and reread, twice over, each transferring as much as the file
//! holds, with the request sizes mixed so that total and mean are those of the published trace.
//! `passes = "all"` is the program's own list instead: write, rewrite, read, reread, random read,
//! random write, backward read and stride read.
//!
//! # Equation
//! `total = 8 file`; the share of small units solves `sum of share * size = mean_size`.
//!
//! # Parameters
//! `total`, `mean_size`, `small`, `large`, `passes`, `start`, `stride`, `queue_depth`.
//!
//! # What it leaves out
//! IOzone's automatic mode over many file and record sizes, CPU time between requests.
//!
//! # Validated against
//! Total (3.42 GiB) within 0.1 % and mean request (58.68 KiB) within 0.5 % of the publication.
//!
//! # References
//! Ha, Cho, Eom, Journal of KIISE: Systems and Theory 37(4), 2010, table 1 (totals and means, and
//! that the addresses are sequential). The recipe and the two sizes are ours.

use config::{ConfigError, Size, check_share};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{Bytes, Lba, Request, Rng, Workload};

use crate::Context;
use crate::closed_loop::{ClosedLoop, Source};
use crate::one_file::first_sector;
use crate::size_mix::{SizeMix, solve_two};

/// Which passes are made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Passes {
    /// Write, rewrite, read, reread, twice over: sequential, as the published trace is.
    #[default]
    Sequential,
    /// The program's eight, of which four are not sequential.
    All,
}

/// Parameters of the IOzone generator.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// Everything transferred. Ha, Cho, Eom 2010, table 1.
    pub total: Size,
    /// Mean request. Ha, Cho, Eom 2010, table 1.
    pub mean_size: Size,
    /// The small unit.
    pub small: Size,
    /// The large unit.
    pub large: Size,
    /// Which passes are made.
    pub passes: Passes,
    /// Where the file starts, as a share of the device.
    pub start: f64,
    /// Distance between two requests of the stride pass, in large units. IOzone's own default.
    pub stride: u32,
    /// Requests in flight.
    pub queue_depth: u32,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            // 3.42 GiB and 58.68 KiB, in bytes.
            total: Size(Bytes(3_672_197_038)),
            mean_size: Size(Bytes(60_088)),
            small: Size(Bytes::from_kib(4)),
            large: Size(Bytes::from_kib(64)),
            passes: Passes::default(),
            start: 0.05,
            stride: 17,
            queue_depth: 1,
        }
    }
}

impl Params {
    /// Build the workload.
    ///
    /// # Errors
    /// When the file does not fit the device or the size mix has no solution.
    pub fn build(&self, context: &Context) -> Result<Box<dyn Workload + Send>, ConfigError> {
        check_share("start", self.start)?;
        let mean = self.mean_size.0.0 as f64;
        let shares = solve_two(self.small, self.large, mean)?;
        let step = self.small.0.sectors();
        let large = self.large.0.sectors();
        let file = (self.total.0.sectors() / 8 / step * step).max(large);
        let first = first_sector(context, self.start, step, (file, 0))?;
        let source = Iozone {
            sizes: SizeMix::new(&shares, context.rng.split("sizes")),
            places: context.rng.split("places"),
            step,
            stride: u64::from(self.stride) * large,
            large,
            first,
            file,
            passes: match self.passes {
                Passes::Sequential => SEQUENTIAL,
                Passes::All => ALL,
            },
            pass: 0,
            done: 0,
            at: 0,
        };
        let workload = ClosedLoop::new(source, self.total, self.queue_depth, Vec::new())?;
        Ok(Box::new(workload))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pass {
    Write,
    Read,
    RandomRead,
    RandomWrite,
    Backward,
    Stride,
}

const SEQUENTIAL: &[Pass] = &[Pass::Write, Pass::Write, Pass::Read, Pass::Read];

const ALL: &[Pass] = &[
    Pass::Write,
    Pass::Write,
    Pass::Read,
    Pass::Read,
    Pass::RandomRead,
    Pass::RandomWrite,
    Pass::Backward,
    Pass::Stride,
];

#[derive(Clone, Debug)]
struct Iozone {
    sizes: SizeMix,
    places: Rng,
    /// Sectors of the small unit, to which everything is aligned.
    step: u64,
    stride: u64,
    large: u64,
    first: u64,
    file: u64,
    passes: &'static [Pass],
    pass: usize,
    /// Sectors of this pass so far.
    done: u64,
    /// Position of the stride pass.
    at: u64,
}

impl Source for Iozone {
    fn next_request(&mut self) -> Request {
        let left = self.file - self.done;
        let size = u64::from(self.sizes.draw()).min(left);
        let pass = self.passes[self.pass % self.passes.len()];
        let at = match pass {
            Pass::Write | Pass::Read => self.done,
            Pass::RandomRead | Pass::RandomWrite => {
                self.places.below((self.file - size) / self.step + 1) * self.step
            }
            Pass::Backward => left - size,
            Pass::Stride => self.at,
        };
        if pass == Pass::Stride {
            self.at = (self.at + self.stride) % self.file;
            if self.at + self.large > self.file {
                // The next lap starts one unit further.
                self.at = self.at % self.stride / self.step * self.step;
            }
        }
        self.done += size;
        if self.done == self.file {
            (self.done, self.at) = (0, 0);
            self.pass += 1;
        }
        let lba = Lba(self.first + at);
        match pass {
            Pass::Write | Pass::RandomWrite => Request::write(lba, size as u32),
            _ => Request::read(lba, size as u32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::closed_loop::testing::{all, check, context};
    use sim::Op;

    #[test]
    fn total_mean_and_passes_are_the_published_ones() {
        for seed in 1..4 {
            let built = |passes| Params { passes, ..Params::default() }.build(&context(seed));
            let requests = all(built(Passes::Sequential).unwrap());
            let got = check(&requests, 3.42 * 1024.0, 58.68);
            assert!(requests.len().abs_diff(61_114) < 310, "{} requests", requests.len());
            assert!((got.writes - 0.5).abs() < 0.01, "writes {}", got.writes);
            assert!(got.sequential > 0.99, "sequential {}", got.sequential);
            let requests = all(built(Passes::All).unwrap());
            let got = check(&requests, 3.42 * 1024.0, 58.68);
            assert!(requests.len().abs_diff(61_114) < 310, "{} requests", requests.len());
            // Three passes of eight write; four of eight are in order.
            assert!((got.writes - 0.375).abs() < 0.01, "writes {}", got.writes);
            assert!((got.sequential - 0.5).abs() < 0.01, "sequential {}", got.sequential);
            assert!((got.first_touch - 1.0 / 3.0).abs() < 0.01, "{}", got.first_touch);
            assert!((got.unique * 8.0 / got.bytes - 1.0).abs() < 1e-3);
        }
    }

    #[test]
    fn backward_and_stride_passes_run_as_named() {
        let params = Params { passes: Passes::All, ..Params::default() };
        let requests = all(params.build(&context(1)).unwrap());
        let eighth = requests.len() / 8;
        let backward = &requests[requests.len() - eighth * 2 + 100..requests.len() - eighth - 100];
        assert!(backward.windows(2).all(|w| w[1].end() == w[0].lba && w[1].op == Op::Read));
        let stride = &requests[requests.len() - eighth + 100..];
        let steps = stride.windows(2).filter(|w| w[1].lba.0 == w[0].lba.0 + 17 * 128).count();
        assert!(steps as f64 > 0.98 * stride.len() as f64, "{steps} of {}", stride.len());
    }
}
