//! `blocklab trace beside`: a recorded queue, and what a modelled elevator makes of it.

use std::path::PathBuf;

use models::device::elevator;
use models::elevator::{BesideRecording, Sent};
use models::registry::ElevatorPolicy;
use serde_json::{Map, json};
use sim::Op;
use study::Failure;
use trace::{QueueAction, QueueEvent, queue_events};

use super::source::{failure, open_file, set_all};

#[derive(clap::Args)]
pub(super) struct Args {
    /// The recording, as blkparse prints it: plain, gzip or zstd; `-` is standard input
    file: PathBuf,
    /// The elevator, such as mq-deadline
    #[arg(long)]
    policy: String,
    /// Set a parameter of the elevator, such as max_sectors_kb=1280 or nomerges=true, or of its
    /// policy, such as policy.fifo_batch=1
    #[arg(long = "with", value_name = "KEY=VALUE")]
    parameters: Vec<String>,
    /// The recorded device did not rotate
    #[arg(long)]
    ssd: bool,
    /// One JSON object on stdout
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(super) fn run(self) -> Result<u8, Failure> {
        let elevator = self.elevator()?;
        let (read, _) = open_file(&self.file)?;
        let name = self.file.to_string_lossy();
        let events = queue_events(&name, read).map_err(|error| failure(&self.file, error))?;
        check(&events).map_err(|failed| failed.at(self.place()))?;
        let wrong = |error: config::ConfigError| Failure::input(format!("--with {error}"));
        let result = elevator.beside(&events, !self.ssd).map_err(wrong)?;
        if self.json {
            super::say_json(&as_json(&result))?;
        } else {
            super::say(&as_text(&result, &self.policy))?;
        }
        Ok(0)
    }

    fn place(&self) -> study::FilePlace {
        study::FilePlace { file: self.file.clone(), line_column: None, byte: None, quote: None }
    }

    fn elevator(&self) -> Result<elevator::Params, Failure> {
        if ElevatorPolicy::from_name(&self.policy).is_none() {
            let what = format!("there is no elevator \"{}\"", self.policy);
            return Err(Failure::input(what).expected(ElevatorPolicy::NAMES.join(", ")));
        }
        let (mut of_queue, mut of_policy) = (Vec::new(), Vec::new());
        for parameter in &self.parameters {
            match parameter.strip_prefix("policy.") {
                Some(own) => of_policy.push(own.to_owned()),
                None => of_queue.push(parameter.clone()),
            }
        }
        let mut tunables = Map::new();
        set_all(&mut tunables, &of_policy)?;
        let mut table = Map::new();
        table.insert("policy".into(), json!({ self.policy.as_str(): tunables }));
        set_all(&mut table, &of_queue)?;
        serde_json::from_value(table.into()).map_err(|error| {
            Failure::input(format!("--with does not suit the elevator: {error}"))
                .help("blocklab explain device.elevator")
        })
    }
}

/// There must be something to compare, of one device.
fn check(events: &[QueueEvent]) -> Result<(), Failure> {
    let needed = [(QueueAction::Queued, "Q"), (QueueAction::Dispatched, "D")];
    for (action, letter) in needed {
        if !events.iter().any(|event| event.action == action) {
            return Err(Failure::input(format!("the recording has no events {letter}"))
                .expected("a recording with at least Q, U, D and C, as of blktrace")
                .help("blocklab travel --record-queue makes one"));
        }
    }
    if events.windows(2).any(|pair| pair[0].device != pair[1].device) {
        return Err(Failure::input("the recording is of several devices")
            .help("blkparse -i DEVICE prints one"));
    }
    Ok(())
}

fn difference(modelled: f64, recorded: f64) -> Option<f64> {
    (recorded != 0.0).then(|| modelled / recorded - 1.0)
}

fn share(of: usize, all: usize) -> Option<f64> {
    (all > 0).then(|| of as f64 / all as f64)
}

fn as_json(result: &BesideRecording) -> serde_json::Value {
    let side = |sent: &Sent| {
        json!({
            "reads": sent.count(Op::Read),
            "writes": sent.count(Op::Write),
            "mean_kib": sent.mean_kib(),
            "mean_seek_sectors": sent.mean_seek_sectors(),
        })
    };
    let (recorded, modelled) = (&result.recorded, &result.modelled);
    let count = |sent: &Sent| sent.requests.len() as f64;
    json!({
        "queued": result.queued,
        "left_out": result.alone,
        "recorded": side(recorded),
        "modelled": side(modelled),
        "dispatched_difference": difference(count(modelled), count(recorded)),
        "size_distance": recorded.size_distance(modelled),
        "seek_difference":
            difference(modelled.mean_seek_sectors(), recorded.mean_seek_sectors()),
        "same_choices": share(result.same_choices, result.choices()),
        "same_choices_of_several": share(result.same_real_choices, result.real_choices),
    })
}

fn as_text(result: &BesideRecording, policy: &str) -> String {
    let (recorded, modelled) = (&result.recorded, &result.modelled);
    let mut text = format!(
        "{} queued, {} more left out: flushes and what goes with them\n\
         {:<28}{:>12}{policy:>14}{:>12}\n",
        result.queued, result.alone, "", "recorded", "difference"
    );
    let mut line = |name: &str, recorded: f64, modelled: f64, digits: usize| {
        let difference = difference(modelled, recorded);
        let difference = difference.map_or("-".into(), |share| format!("{:+.2} %", 100.0 * share));
        text +=
            &format!("{name:<28}{recorded:>12.digits$}{modelled:>14.digits$}{difference:>12}\n");
    };
    for (name, op) in [("dispatched reads", Op::Read), ("dispatched writes", Op::Write)] {
        line(name, recorded.count(op) as f64, modelled.count(op) as f64, 0);
    }
    line("dispatched", recorded.requests.len() as f64, modelled.requests.len() as f64, 0);
    line("mean size, KiB", recorded.mean_kib(), modelled.mean_kib(), 2);
    line("mean seek, sectors", recorded.mean_seek_sectors(), modelled.mean_seek_sectors(), 0);
    let percent = |share: Option<f64>| share.map_or("-".into(), |s| format!("{:.2} %", 100.0 * s));
    let distance = percent(Some(recorded.size_distance(modelled)));
    let same = percent(share(result.same_choices, result.choices()));
    let of_several = percent(share(result.same_real_choices, result.real_choices));
    text += &format!("{:<28}{distance:>12}\n", "distance of the sizes");
    text += &format!(
        "{:<28}{same:>12}  of {}, {of_several} of {} where several waited\n",
        "same next request",
        result.choices(),
        result.real_choices
    );
    text
}
