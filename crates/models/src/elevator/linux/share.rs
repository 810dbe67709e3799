//! What each process got of the device.

use sim::{Counters, Nanos, snapshot_fields};

/// One process.
#[derive(Clone, Copy, Default, Debug)]
struct Share {
    process: u32,
    requests: u64,
    sectors: u64,
    service: Nanos,
}

snapshot_fields!(Share { process, requests, sectors, service });

/// The processes that asked first, and all others together. Counters have a fixed order, so there
/// is room for a fixed number of them.
#[derive(Clone, Debug)]
pub(crate) struct Shares {
    told_apart: usize,
    shares: Vec<Share>,
    others: Share,
    /// Where the last one was found.
    last: usize,
}

snapshot_fields!(Shares { shares, others, last });

impl Shares {
    /// Room for so many processes.
    pub(crate) fn new(told_apart: u32) -> Shares {
        let told_apart = told_apart as usize;
        Shares { told_apart, shares: Vec::new(), others: Share::default(), last: 0 }
    }

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
            None if self.shares.len() < self.told_apart => {
                self.shares.push(Share { process, ..Share::default() });
                self.shares.len() - 1
            }
            None => return None,
        };
        Some(self.last)
    }

    pub(crate) fn counters(&self, out: &mut Counters) {
        let mut add = |name: &str, share: &Share| {
            out.add(format!("share.{name}.requests"), share.requests);
            out.add(format!("share.{name}.sectors"), share.sectors);
            out.add(format!("share.{name}.service_ns"), share.service.0);
        };
        for nth in 0..self.told_apart {
            let share = self.shares.get(nth).copied().unwrap_or_default();
            add(&(nth + 1).to_string(), &share);
        }
        add("others", &self.others);
        for nth in 0..self.told_apart {
            let process = self.shares.get(nth).map_or(0, |share| share.process);
            out.level(format!("share.{}.process", nth + 1), u64::from(process));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_told_apart_up_to_a_bound() {
        let read = |shares: &Shares| {
            let mut counters = Counters::default();
            shares.counters(&mut counters);
            counters
        };
        let mut shares = Shares::new(4);
        let empty = read(&shares);
        for process in [7, 7, 8] {
            shares.served(process, 8, Nanos(10));
        }
        (100..200).for_each(|process| shares.served(process, 1, Nanos(1)));
        let counters = read(&shares);
        assert_eq!(counters.get("share.1.sectors"), 16);
        assert_eq!(counters.get("share.1.service_ns"), 20);
        assert_eq!(counters.get("share.2.requests"), 1);
        assert_eq!(counters.get("share.others.requests"), 98);
        assert_eq!(
            counters.levels[..2],
            [("share.1.process".into(), 7), ("share.2.process".into(), 8)]
        );
        // A series of readings has columns, so no reading may have more than another.
        let names =
            |c: &Counters| c.counts.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&empty), names(&counters));
        assert_eq!(empty.levels.len(), counters.levels.len());
    }
}
