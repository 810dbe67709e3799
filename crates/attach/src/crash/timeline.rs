//! What happened before a cut: system calls, promises, requests, and when each write was safe.

use std::collections::BTreeMap;

use serde::Serialize;
use sim::{Nanos, RequestId};
use study::Failure;

use crate::clock::Wall;
use crate::order::{Command, Reply, Ticket};

use super::replay::{Replay, Submitted};
use super::{Media, Recorded, Shared, journal};

/// So many steps of the device's engine before the cut are looked at.
const STEPS: usize = 400;

/// What kind of thing happened.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A request came to the drive.
    Asked,
    /// The drive answered one.
    Answered,
    /// A write that was answered would stay if the power went.
    Safe,
    /// A system call began or returned.
    Call,
    /// Something was promised.
    Ack,
    /// The power went.
    Cut,
}

/// Something that happened.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Event {
    /// The moment, in nanoseconds of virtual time.
    pub at_ns: u64,
    /// What kind of thing.
    pub kind: Kind,
    /// In words.
    pub text: String,
}

/// Requests by their numbers, in the order in which they came.
#[derive(Default)]
struct Requests {
    count: u64,
    under_way: Vec<(Ticket, u64)>,
    /// Writes that the drive has not answered, by its names for them.
    unanswered: BTreeMap<RequestId, u64>,
    /// Those that were answered and are not known to be safe.
    unsafe_writes: BTreeMap<RequestId, u64>,
}

impl Requests {
    /// What came, in words.
    fn came(&mut self, submitted: &Submitted) -> String {
        let Submitted { order, id, data } = submitted;
        self.count += 1;
        let number = self.count;
        self.under_way.push((order.ticket, number));
        let range = format!("{} bytes at {}", order.bytes, order.offset);
        let (name, fua) = match order.command {
            Command::Read => ("read", false),
            Command::Flush => return format!("flush #{number}"),
            Command::Discard => ("discard", false),
            Command::Write { fua } => ("write", fua),
            Command::WriteZeroes { fua, .. } => ("write zeros", fua),
        };
        // Zeroes are lost as other data is.
        if let Some(id) = id.filter(|_| name.starts_with("write")) {
            self.unanswered.insert(id, number);
        }
        let fua = if fua { ", FUA" } else { "" };
        let mark = journal::mark(data).map(|mark| format!(" ({mark})")).unwrap_or_default();
        format!("{name} #{number}: {range}{fua}{mark}")
    }

    /// The number of what was answered.
    fn answered(&mut self, reply: &Reply) -> Option<u64> {
        let index = self.under_way.iter().position(|(ticket, _)| *ticket == reply.order.ticket)?;
        let (_, number) = self.under_way.swap_remove(index);
        let id = self.unanswered.iter().find(|(_, known)| **known == number).map(|(id, _)| *id);
        if let Some(id) = id {
            self.unanswered.remove(&id);
            self.unsafe_writes.insert(id, number);
        }
        Some(number)
    }

    /// The numbers of writes that have become safe.
    fn made_safe(&mut self, replay: &Replay<'_>) -> Vec<u64> {
        if self.unsafe_writes.is_empty() {
            return Vec::new();
        }
        let exposed = replay.exposed();
        let safe: Vec<RequestId> =
            self.unsafe_writes.keys().copied().filter(|id| !exposed.contains(id)).collect();
        safe.iter().filter_map(|id| self.unsafe_writes.remove(id)).collect()
    }
}

impl Shared<'_> {
    /// What happened up to the cut at `at`.
    pub(super) fn timeline(
        &self,
        mut replay: Replay<'_>,
        recorded: &Recorded,
        at: Nanos,
    ) -> Result<Vec<Event>, Failure> {
        let steps = recorded.log.steps();
        let end = steps.partition_point(|step| step.at() <= Wall(at.0));
        let first = end.saturating_sub(STEPS);
        let mut requests = Requests::default();
        let mut events = Vec::new();
        while let Some(step) = replay.upcoming(Wall(at.0)) {
            let now = step.at().0;
            let told = replay.position() >= first;
            let mut tell = |at_ns: u64, kind: Kind, text: String| {
                if told {
                    events.push(Event { at_ns, kind, text });
                }
            };
            let (submitted, replies) = replay.step()?;
            if let Some(submitted) = submitted {
                tell(now, Kind::Asked, requests.came(&submitted));
            }
            for reply in replies {
                let Some(number) = requests.answered(reply) else { continue };
                let how = if reply.result.is_ok() { "" } else { ", failed" };
                tell(reply.timing.due.0, Kind::Answered, format!("#{number}{how}"));
            }
            if told {
                let safe = requests.made_safe(&replay);
                if !safe.is_empty() {
                    tell(now, Kind::Safe, numbers(&safe));
                }
            }
        }
        let from = events.first().map_or(at.0, |event| event.at_ns);
        let within = |moment: Nanos| (from..=at.0).contains(&moment.0);
        let calls = recorded.calls.iter().filter(|call| within(call.at)).map(|call| Event {
            at_ns: call.at.0,
            kind: Kind::Call,
            text: call.text.clone(),
        });
        let acks = recorded.acks.iter().filter(|ack| within(ack.at)).map(|ack| Event {
            at_ns: ack.at.0,
            kind: Kind::Ack,
            text: ack.text.clone(),
        });
        events.extend(calls.chain(acks));
        events.sort_by_key(|event| (event.at_ns, event.kind));
        events.push(Event { at_ns: at.0, kind: Kind::Cut, text: self.end(&requests) });
        Ok(events)
    }

    /// What is not safe at the cut.
    fn end(&self, requests: &Requests) -> String {
        if self.media == Media::Panicked {
            return "the kernel dies; the drive does what it was asked".into();
        }
        let answered: Vec<u64> = requests.unsafe_writes.values().copied().collect();
        let others: Vec<u64> = requests.unanswered.values().copied().collect();
        let told = |which: &str, all: &[u64]| match all.len() {
            0 => format!("no {which} write"),
            1 => format!("1 {which} write ({})", numbers(all)),
            count => format!("{count} {which} writes ({})", numbers(all)),
        };
        format!(
            "the power goes; not safe are {} and {}",
            told("answered", &answered),
            told("unanswered", &others)
        )
    }
}

/// So many numbers are told.
const NUMBERS_MAX: usize = 12;

/// Numbers of requests, in words.
fn numbers(all: &[u64]) -> String {
    let first = all.iter().take(NUMBERS_MAX).map(|number| format!("#{number}"));
    let more = (all.len() > NUMBERS_MAX).then(|| "...".to_string());
    first.chain(more).collect::<Vec<_>>().join(" ")
}
