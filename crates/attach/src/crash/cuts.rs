//! When the power is cut.

use config::Duration;
use sim::Nanos;
use study::Failure;

use crate::clock::Wall;
use crate::order::Command;

use super::replay::Replay;
use super::{Media, Progress, Recorded};

/// Which moments of a run are looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cuts {
    /// So many, evenly spread over the moments after which a cut may leave something else than
    /// before, or after other promises.
    Number(usize),
    /// One in each such stretch of virtual time.
    Every(Nanos),
    /// When a flush came, and a nanosecond before and at its completion by the device.
    AtFlush,
    /// This one.
    At(Nanos),
}

impl Cuts {
    /// The moments, in their order; `replay` does the run once more.
    pub(super) fn moments<'a>(
        self,
        recorded: &Recorded,
        replay: impl FnOnce() -> Result<Replay<'a>, Failure>,
        progress: &Progress<'_>,
    ) -> Result<Vec<Nanos>, Failure> {
        let [begin, _, end] = recorded.moments;
        let steps = recorded.log.steps();
        let inside = |at: &Nanos| (begin..=end).contains(at);
        let moments: Vec<Nanos> = match self {
            Cuts::At(at) if inside(&at) => vec![at],
            Cuts::At(at) => {
                return Err(Failure::input(format!("--at {}: nothing runs then", Duration(at)))
                    .expected(format!(
                        "a moment from {} to {}: the command's run",
                        Duration(begin),
                        Duration(end)
                    )));
            }
            Cuts::Every(step) => {
                (begin.0..=end.0).step_by(step.0.max(1) as usize).map(Nanos).collect()
            }
            Cuts::Number(number) => {
                let all = steps.iter().map(|step| Nanos(step.at().0)).filter(inside);
                let ends = [all.clone().min(), all.max()].into_iter().flatten();
                let promises = recorded.acks.iter().map(|ack| ack.at);
                let changes = changes(replay()?, progress)?.into_iter().chain(promises);
                spread(distinct(changes.filter(inside).chain(ends)), number)
            }
            Cuts::AtFlush => distinct(at_flushes(replay()?, progress)?.into_iter().filter(inside)),
        };
        if !moments.is_empty() {
            return Ok(moments);
        }
        // Only flushes may be missing where something was asked.
        let asked = steps.iter().any(|step| inside(&Nanos(step.at().0)));
        Err(if asked {
            Failure::input("the drive was sent no flush while the command ran")
                .expected("a command that syncs, before a drive that announces a volatile cache")
                .help("--cuts NUMBER, which needs no flush")
        } else {
            Failure::input("the device was asked nothing while the command ran")
                .expected("a command that writes to /mnt, or to /dev/vda without --mkfs")
        })
    }
}

/// When the data changed, and while some of it may be lost all that the device did, down to what
/// made it safe: what is on the way moves. Reads, flushes of nothing, and zeros over zeros (a new
/// ext4 writes 200 MB of them in the background) leave everything as it was.
fn changes(mut replay: Replay<'_>, progress: &Progress<'_>) -> Result<Vec<Nanos>, Failure> {
    // The death of the kernel lets the drive do what it was asked.
    let loses = replay.media() != Media::Panicked;
    replay.keep_contract();
    let (mut before, mut was_at_risk, mut all) = (replay.content()?, false, Vec::new());
    while let Some(step) = replay.upcoming(Wall::NEVER) {
        progress.check()?;
        replay.step()?;
        let (content, at_risk) = (replay.content()?, loses && replay.has_at_risk());
        if content != before || at_risk || was_at_risk {
            all.push(Nanos(step.at().0));
        }
        (before, was_at_risk) = (content, at_risk);
    }
    Ok(all)
}

/// Each once, in order.
fn distinct(moments: impl Iterator<Item = Nanos>) -> Vec<Nanos> {
    let mut all: Vec<Nanos> = moments.collect();
    all.sort_unstable();
    all.dedup();
    all
}

/// At most `number` of them, the first and the last among them.
fn spread(all: Vec<Nanos>, number: usize) -> Vec<Nanos> {
    if number >= all.len() {
        return all;
    }
    let gaps = number.saturating_sub(1).max(1);
    (0..number).map(|index| all[index * (all.len() - 1) / gaps]).collect()
}

/// When flushes came, and when they were done, with the nanosecond before.
fn at_flushes(mut replay: Replay<'_>, progress: &Progress<'_>) -> Result<Vec<Nanos>, Failure> {
    let mut all = Vec::new();
    while let Some(step) = replay.upcoming(Wall::NEVER) {
        progress.check()?;
        let (submitted, replies) = replay.step()?;
        if submitted.is_some_and(|it| it.order.command == Command::Flush) {
            all.push(Nanos(step.at().0));
        }
        for reply in replies.iter().filter(|reply| reply.order.command == Command::Flush) {
            let done = reply.timing.due.0;
            all.extend([done.saturating_sub(1), done].map(Nanos));
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::{Order, Ticket};
    use crate::request_log::RequestLog;
    use crate::store::Store;
    use crate::travel::Disk;
    use sim::Bytes;
    use sim::testing::FixedDelay;

    #[test]
    fn cuts_are_spread_from_the_first_to_the_last() {
        let all: Vec<Nanos> = (0..100).map(Nanos).collect();
        let found = |number| spread(all.clone(), number).iter().map(|at| at.0).collect::<Vec<_>>();
        assert_eq!(found(4), [0, 33, 66, 99]);
        assert_eq!((found(1), found(1000).len()), (vec![0], 100));
    }

    #[test]
    fn a_flush_is_cut_before_and_when_it_is_done() {
        let device = Box::new(FixedDelay::new(Nanos(100), 8));
        let store = Store::memory(Bytes::from_gib(1)).unwrap();
        let mut log = RequestLog::new(Bytes::from_mib(1)).unwrap();
        let mut asks = |at, command, bytes| {
            let order = Order::new(Ticket { tag: at, ..Ticket::default() }, command, 0, bytes);
            log.submitted(Wall(at), order, None);
        };
        asks(10, Command::Read, 512);
        asks(50, Command::Flush, 0);
        // What the device does meanwhile is not the end of the flush.
        log.advanced(Wall(110));
        log.advanced(Wall(150));
        let disk = Disk { device, store, at: Nanos(0), next_id: 0 };
        let replay = Replay::new(&disk, &log, Bytes::from_mib(1), (Media::Modelled, 512)).unwrap();
        let found = at_flushes(replay, &Progress::default()).unwrap();
        assert_eq!(found, [50, 149, 150].map(Nanos));
    }
}
