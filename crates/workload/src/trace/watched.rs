//! How long processes of a trace wait for the device.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use sim::{Nanos, Request};

/// Names that an error tells.
const NAMES_SHOWN: usize = 5;

/// Processes of one name.
pub(super) struct Watched {
    /// Of each: the requests under way that it waits for, and since when there are any.
    processes: BTreeMap<u32, (u64, Nanos)>,
    /// How long there were any, summed over the processes.
    pub(super) total: Nanos,
}

impl Watched {
    /// The processes called `name`; `all` has one for each request.
    pub(super) fn find(
        name: &str,
        all: impl Iterator<Item = u32>,
        called: impl Fn(u32) -> Option<String>,
    ) -> Result<Watched, String> {
        let mut requests = BTreeMap::<u32, u64>::new();
        all.for_each(|process| *requests.entry(process).or_default() += 1);
        let mut named: Vec<(u64, u32, String)> = requests
            .iter()
            .filter_map(|(&process, &count)| Some((count, process, called(process)?)))
            .collect();
        let found = named.iter().filter(|(.., called)| called == name);
        let processes: BTreeMap<_, _> =
            found.map(|&(_, process, _)| (process, (0, Nanos::ZERO))).collect();
        if processes.is_empty() {
            named.sort_by_key(|(count, ..)| Reverse(*count));
            let names: Vec<&str> =
                named.iter().take(NAMES_SHOWN).map(|(.., name)| name.as_str()).collect();
            let names = match names.as_slice() {
                [] => "the trace has no names of processes".into(),
                names => format!("expected such as {}", names.join(", ")),
            };
            return Err(format!("no process with requests is called `{name}`; {names}"));
        }
        Ok(Watched { processes, total: Nanos::ZERO })
    }

    pub(super) fn issue(&mut self, request: &Request, now: Nanos) {
        let Some((under_way, since)) = self.processes.get_mut(&request.process) else { return };
        if request.is_sync() {
            if *under_way == 0 {
                *since = now;
            }
            *under_way += 1;
        }
    }

    pub(super) fn complete(&mut self, request: &Request, at: Nanos) {
        let Some((under_way, since)) = self.processes.get_mut(&request.process) else { return };
        if request.is_sync() {
            *under_way -= 1;
            if *under_way == 0 {
                self.total = self.total.saturating_add(at.since(*since));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::{Lba, Op};

    fn called(process: u32) -> Option<String> {
        Some(if process < 3 { "reader".into() } else { format!("other-{process}") })
    }

    #[test]
    fn a_process_waits_once_for_what_is_under_way_at_once() {
        let mut watched = Watched::find("reader", [1, 2, 7].into_iter(), called).unwrap();
        let of = |process, op| Request { process, ..Request::new(op, Lba(0), 8) };
        let (read, other) = (of(1, Op::Read), of(2, Op::Read));
        watched.issue(&read, Nanos(10));
        watched.issue(&read, Nanos(15));
        watched.complete(&read, Nanos(20));
        // Nobody waits for a plain write, and nobody watches process 7.
        for ignored in [of(1, Op::Write), of(7, Op::Read)] {
            watched.issue(&ignored, Nanos(18));
            watched.complete(&ignored, Nanos(90));
        }
        watched.complete(&read, Nanos(30));
        assert_eq!(watched.total, Nanos(20));
        // Two processes of the name wait each for itself.
        watched.issue(&read, Nanos(100));
        watched.issue(&other, Nanos(100));
        watched.complete(&read, Nanos(107));
        watched.complete(&other, Nanos(107));
        assert_eq!(watched.total, Nanos(34));
    }

    #[test]
    fn an_unknown_name_is_told_with_those_that_ask_most() {
        let all = [7, 7, 9].into_iter();
        let Err(message) = Watched::find("x", all, called) else { panic!("nobody is called x") };
        assert_eq!(
            message,
            "no process with requests is called `x`; expected such as other-7, other-9"
        );
        let Err(message) = Watched::find("x", [7].into_iter(), |_| None) else { panic!() };
        assert!(message.ends_with("the trace has no names of processes"), "{message}");
    }
}
