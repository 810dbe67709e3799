//! What a travelled run answers with: the metrics of its device as in a simulated run, those of the
//! guest's block layer, and what the program says.

use serde_json::{Map, Value};
use sim::{Counters, Digest, Histogram, Nanos, Outcome};

use crate::crash::Cuts;
use crate::digest;
use crate::metrics;
use crate::observe::Series;
use crate::program::{Numbers, Program};
use crate::recorder::{Progress, Recorder};
use crate::runner::RunResult;
use crate::tables::Tables;
use crate::travel_metrics::{self, BlockUse};

/// What was measured from the program's start until its data was written back.
pub struct Session {
    /// Response times of the device, by operation.
    pub histograms: [Histogram; 4],
    /// Bytes, by operation.
    pub bytes: [u64; 4],
    /// Of these, what the device was asked for until the program's end.
    pub program_bytes: [u64; 4],
    /// The device's counters at the beginning and at the end.
    pub counters: [Counters; 2],
    /// Of the program alone.
    pub program: Nanos,
    /// Of writing back what it left.
    pub sync: Nanos,
    /// Of the program's time what its code was charged, where it was.
    pub processor: Option<Nanos>,
    /// The guest's block layer.
    pub block: Vec<BlockUse>,
    /// What the program says.
    pub numbers: Numbers,
    /// Digest of every request of the device, and of what the program wrote.
    pub digest: String,
    /// What the guest read back of its settings.
    pub settings: Map<String, Value>,
    /// What a reader must know.
    pub notes: Vec<String>,
    /// What is left after cuts of the power, where there were any.
    pub crash: Option<Cuts>,
    /// How long this machine took.
    pub wall: std::time::Duration,
}

impl Session {
    /// As the result of a run of `program`.
    pub fn result(self, program: Program) -> RunResult {
        let time = self.program + self.sync;
        let unwatched = Progress::default();
        let recorder = Recorder::of(self.histograms, self.bytes, &unwatched);
        let [before, after] = self.counters;
        let series = Series::between(before, after, time);
        let requests = sim::Op::ALL.iter().map(|&op| recorder.requests(op)).sum();
        let outcome = Outcome {
            end: time,
            requests,
            digest: Digest::default(),
            in_flight_ns: 0,
            response_ns: 0,
        };
        let mut all = metrics::simulated(&recorder, &series.total(), &series, &outcome);
        // Nobody watched the queue.
        all.insert("little_error".into(), None);
        all.extend(travel_metrics::undefined(program, self.crash.is_some()));
        travel_metrics::add_block(&mut all, &self.block);
        if let Some(cuts) = &self.crash {
            travel_metrics::add_cuts(&mut all, cuts);
        }
        all.insert("program_s".into(), Some(self.program.as_secs_f64()));
        all.insert("sync_s".into(), Some(self.sync.as_secs_f64()));
        let program = self.program.as_secs_f64();
        travel_metrics::add_rates(&mut all, &self.program_bytes, program);
        let share = self.processor.filter(|_| program > 0.0).map(|ns| ns.as_secs_f64() / program);
        all.insert("processor_share".into(), share);
        let read_ahead = self.settings.get("read_ahead_kb").and_then(Value::as_f64);
        all.insert("guest_read_ahead_kb".into(), read_ahead);
        all.extend(self.numbers.into_iter().map(|(name, value)| (name.to_string(), Some(value))));
        let result_digest = digest::of(&serde_json::json!({
            "session": self.digest, "metrics": metrics::digested(&all),
            "counters": series.total().counts, "settings": self.settings,
        }));
        metrics::add_wall(&mut all, requests, self.wall);
        RunResult {
            metrics: all,
            result_digest,
            notes: self.notes,
            tables: Tables::default(),
            failed: None,
            settings: self.settings,
        }
    }
}

impl RunResult {
    /// A travelled run of `program`, with cuts or without, that came to nothing: every metric is
    /// undefined.
    pub fn failed(program: Program, crashes: bool, why: String) -> RunResult {
        let metrics = travel_metrics::undefined(program, crashes);
        RunResult {
            // The words may be this machine's.
            result_digest: digest::of(&"failed"),
            metrics,
            notes: vec![format!("it failed: {why}")],
            tables: Tables::default(),
            failed: Some(why),
            settings: Map::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a program leaves behind is written at full speed, and nobody reads beside it.
    #[test]
    fn what_is_written_after_the_program_is_not_what_it_got() {
        let session = Session {
            histograms: Default::default(),
            bytes: [4_000_000, 24_000_000, 0, 0],
            program_bytes: [4_000_000, 8_000_000, 0, 0],
            counters: Default::default(),
            program: Nanos::from_secs(4),
            sync: Nanos::from_secs(2),
            processor: None,
            block: Vec::new(),
            numbers: Numbers::new(),
            digest: String::new(),
            settings: Map::new(),
            notes: Vec::new(),
            crash: None,
            wall: std::time::Duration::ZERO,
        };
        let metrics = session.result(Program::default()).metrics;
        assert_eq!(metrics["program_write_mb_s"], Some(2.0));
        assert_eq!(metrics["program_read_mb_s"], Some(1.0));
        assert_eq!(metrics["write_mb_s"], Some(4.0), "of both phases");
    }
}
