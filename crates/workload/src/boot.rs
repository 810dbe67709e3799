//! A recorded boot loader: reads, one at a time or two, with the computing in between.
//!
//! # What it models
//! A loader that reads a kernel, unpacks it and starts it. It is serial: it waits for each read,
//! then computes, then reads on. The recording has the reads and the instructions between them, as
//! `blocklab boot load --record` counted them; each instruction takes the same time. A loader of
//! images (`blocklab snapshot try --record`) asks for a read beside the one before, where the
//! recording says so: it waits for all but that, computes, and asks.
//!
//! # Equation
//! `simulated_s = instructions / instructions_per_second + sum of the reads' response times`; of
//! reads beside others what is not hidden behind these.
//!
//! # Parameters
//! `file`, `instructions_per_second`, `until`.
//!
//! # What it leaves out
//! Caches, memory and the differences between instructions: 10^9 instructions of a decompressor and
//! of a loop over device registers take the same time. What comes before the loader's first
//! command, and waiting for the device as the recording machine had it, is not in the recording.
//!
//! # Validated against
//! The equation, to the nanosecond, in a test.
//!
//! # References
//! A boot on SSD and disk with a plain and a compressed kernel: see the study `boot/kernel-image`.

use config::{ConfigError, bounded};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{Completion, Demand, Lba, Nanos, Request, Workload, WorkloadError};

use crate::boot_recording::Recording;
use crate::{Built, Context};

/// Longest recording that is read.
const BYTES_MAX: u64 = 256 << 20;

/// Parameters of a recorded boot.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Params {
    /// The recording, relative to the study's file.
    pub file: String,
    /// Speed of the processor.
    pub instructions_per_second: u64,
    /// Where it ends.
    pub until: Until,
}

impl Default for Params {
    fn default() -> Params {
        Params { file: String::new(), instructions_per_second: 3_000_000_000, until: Until::Init }
    }
}

/// Where a recorded boot ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Until {
    /// The loader is ready to start the kernel.
    Loaded,
    /// The first instruction of the kernel's init.
    #[default]
    Init,
}

impl Params {
    /// Build the workload.
    ///
    /// # Errors
    /// When the recording cannot be read, or reads beyond the device's end.
    pub fn build(&self, context: &Context) -> Built {
        let wrong = |message: String| ConfigError::new("file", message);
        if self.file.is_empty() {
            return Err(wrong("expected the name of a boot recording".into()));
        }
        let text = (context.open)(&self.file)
            .and_then(|read| bounded::text(read, BYTES_MAX))
            .map_err(|why| wrong(format!("{}: {why}", self.file)))?;
        let recording =
            Recording::parse(&text).map_err(|why| wrong(format!("{}: {why}", self.file)))?;
        let workload = BootReplay::new(recording, self.instructions_per_second, self.until)
            .map_err(|message| ConfigError::new("instructions_per_second", message))?;
        let (needs, has) = (workload.recording.span_sectors(), context.limits.sectors());
        if needs > has {
            Err(wrong(format!(
                "{} reads up to sector {needs}, the device has {has}: expected a larger device",
                self.file
            )))
        } else {
            Ok(Box::new(workload))
        }
    }
}

/// A recorded boot being replayed.
#[derive(Clone, Debug)]
pub struct BootReplay {
    recording: Recording,
    instructions_per_second: u64,
    until: Until,
    issued: usize,
    /// When the next read goes out; nothing while one is waited for.
    due: Option<Nanos>,
    /// Reads that are not answered yet.
    asked: u32,
}

impl BootReplay {
    /// Replay `recording` on a processor of `speed` instructions per second.
    ///
    /// # Errors
    /// When the speed is 0.
    pub fn new(recording: Recording, speed: u64, until: Until) -> Result<BootReplay, String> {
        if speed == 0 {
            return Err("expected at least 1, got 0".into());
        }
        let (issued, due, asked) = (0, None, 0);
        Ok(BootReplay { recording, instructions_per_second: speed, until, issued, due, asked })
    }

    /// How long the processor computes in all.
    pub fn computing(&self) -> Nanos {
        let reads = self.recording.reads.iter();
        reads.fold(self.busy_after(), |sum, read| sum + self.time(read.instructions))
    }

    /// How long the processor needs for so many instructions.
    fn time(&self, instructions: u64) -> Nanos {
        let scaled = u128::from(instructions) * 1_000_000_000;
        let nanos = scaled / u128::from(self.instructions_per_second);
        Nanos(u64::try_from(nanos).unwrap_or(u64::MAX / 4).min(u64::MAX / 4))
    }
}

impl Workload for BootReplay {
    fn next(&mut self, now: Nanos) -> Result<Demand, WorkloadError> {
        let Some(read) = self.recording.reads.get(self.issued) else {
            return Ok(if self.asked > 0 { Demand::Wait } else { Demand::End });
        };
        if self.asked > u32::from(read.beside) {
            return Ok(Demand::Wait);
        }
        let time = self.time(read.instructions);
        let due = *self.due.get_or_insert(now + time);
        if now < due {
            return Ok(Demand::At(due));
        }
        self.due = None;
        (self.issued, self.asked) = (self.issued + 1, self.asked + 1);
        Ok(Demand::Issue(Request::read(Lba(read.sector), read.sectors)))
    }

    fn complete(&mut self, _request: &Request, _completion: Completion) {
        self.asked -= 1;
    }

    fn busy_after(&self) -> Nanos {
        self.time(match self.until {
            Until::Loaded => self.recording.last_instructions,
            Until::Init => self.recording.last_instructions + self.recording.start_instructions,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::boot_recording::tests::example;
    use sim::{Bytes, Limits, NoProbe, Rng, Stop, simulate, testing::FixedDelay};

    fn end(speed: u64, until: Until) -> u64 {
        let mut boot = BootReplay::new(example(), speed, until).unwrap();
        let mut device = FixedDelay::new(Nanos(700), 1);
        simulate(&mut device, &mut boot, Nanos::ZERO, Stop::default(), &mut NoProbe).unwrap().end.0
    }

    #[test]
    fn time_is_computing_and_the_answers_of_the_device() {
        assert_eq!(end(1_000_000_000, Until::Loaded), 1750 + 3 * 700);
        assert_eq!(end(1_000_000_000, Until::Init), 1750 + 8000 + 3 * 700);
        assert_eq!(end(500_000_000, Until::Init), 2 * (1750 + 8000) + 3 * 700);
    }

    /// The second read goes out 500 after the first, the third when the first is answered.
    #[test]
    fn reads_beside_others_hide_behind_them() {
        let mut recording = example();
        (recording.reads[1].beside, recording.reads[2].beside) = (true, true);
        let mut boot = BootReplay::new(recording, 1_000_000_000, Until::Loaded).unwrap();
        assert_eq!(boot.computing(), Nanos(1750));
        let mut device = FixedDelay::new(Nanos(700), 2);
        let outcome =
            simulate(&mut device, &mut boot, Nanos::ZERO, Stop::default(), &mut NoProbe).unwrap();
        assert_eq!(outcome.end.0, 1000 + 700 + 700 + 250);
    }

    fn error(text: &'static str, capacity: u64) -> String {
        let limits = Limits {
            capacity: Bytes(capacity),
            block_bytes: 512,
            queue_depth_max: 1,
            rotational: false,
            write_cache: false,
            discard: false,
        };
        let open = |_: &str| -> std::io::Result<Box<dyn std::io::Read + Send>> {
            Ok(Box::new(text.as_bytes()))
        };
        let context = Context { rng: Rng::new(1, "workload"), limits, open: &open };
        let params = Params { file: "a.boot".into(), ..Params::default() };
        params.build(&context).map(drop).unwrap_err().to_string()
    }

    #[test]
    fn a_small_device_and_a_damaged_recording_are_refused() {
        let text: &'static str = example().to_string().leak();
        let small = error(text, 2111 * 512);
        assert!(small.contains("up to sector 2112, the device has 2111"), "{small}");
        let damaged = error("blocklab boot recording 9\n", 1 << 30);
        assert!(damaged.contains("a.boot: line 1: "), "{damaged}");
    }
}
