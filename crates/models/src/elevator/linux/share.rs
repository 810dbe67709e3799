//! What each process got of the device.

use sim::{Counters, Nanos, snapshot_fields};

/// Processes that are told apart; those that come later are counted together.
const PROCESSES_MAX: usize = 64;

/// One process.
#[derive(Clone, Copy, Default, Debug)]
struct Share {
    process: u32,
    requests: u64,
    sectors: u64,
    service: Nanos,
}

snapshot_fields!(Share { process, requests, sectors, service });

/// All processes, in the order of their first request.
#[derive(Clone, Default, Debug)]
pub(crate) struct Shares {
    shares: Vec<Share>,
    others: Share,
    /// Where the last one was found.
    last: usize,
}

snapshot_fields!(Shares { shares, others, last });

impl Shares {
    /// A request of the device is complete that a process asked for.
    pub(crate) fn served(&mut self, process: u32, sectors: u32, service: Nanos) {
        let share = match self.find(process) {
            Some(index) => &mut self.shares[index],
            None => &mut self.others,
        };
        share.requests += 1;
        share.sectors += u64::from(sectors);
        share.service += service;
    }

    fn find(&mut self, process: u32) -> Option<usize> {
        if self.shares.get(self.last).is_some_and(|share| share.process == process) {
            return Some(self.last);
        }
        let known = self.shares.iter().position(|share| share.process == process);
        self.last = match known {
            Some(index) => index,
            None if self.shares.len() < PROCESSES_MAX => {
                self.shares.push(Share { process, ..Share::default() });
                self.shares.len() - 1
            }
            None => return None,
        };
        Some(self.last)
    }

    pub(crate) fn counters(&self, out: &mut Counters) {
        let mut add = |name: &str, share: &Share| {
            out.add(format!("process.{name}.requests"), share.requests);
            out.add(format!("process.{name}.sectors"), share.sectors);
            out.add(format!("process.{name}.service_ns"), share.service.0);
        };
        self.shares.iter().for_each(|share| add(&share.process.to_string(), share));
        if self.others.requests > 0 {
            add("others", &self.others);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_told_apart_up_to_a_bound() {
        let mut shares = Shares::default();
        for process in [7, 7, 8] {
            shares.served(process, 8, Nanos(10));
        }
        (100..200).for_each(|process| shares.served(process, 1, Nanos(1)));
        let mut counters = Counters::default();
        shares.counters(&mut counters);
        assert_eq!(counters.get("process.7.sectors"), 16);
        assert_eq!(counters.get("process.7.service_ns"), 20);
        assert_eq!(counters.get("process.8.requests"), 1);
        assert_eq!(counters.get("process.others.requests"), 38);
        assert_eq!(counters.counts.len(), 3 * (PROCESSES_MAX + 1));
    }
}
