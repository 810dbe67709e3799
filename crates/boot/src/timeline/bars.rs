//! What each process did when, as far as the looks at it tell.

use std::collections::BTreeSet;

use super::record::{Process, Record};

/// What a process does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doing {
    /// It has the processor.
    Runs,
    /// It waits for the processor.
    Queues,
    /// It waits for storage.
    WaitsForStorage,
}

impl Doing {
    /// In the order of a slice's values.
    pub const ALL: [Doing; 3] = [Doing::Runs, Doing::Queues, Doing::WaitsForStorage];

    /// For a legend.
    pub fn name(self) -> &'static str {
        match self {
            Doing::Runs => "runs",
            Doing::Queues => "waits for the processor",
            Doing::WaitsForStorage => "waits for storage",
        }
    }
}

/// A part of a process's time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// From here.
    pub from_ns: u64,
    /// To here.
    pub to_ns: u64,
    /// What it does.
    pub doing: Doing,
}

/// A process on the axis of time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Bar<'a> {
    /// The process.
    pub process: &'a Process,
    /// From its start, or the window's.
    pub from_ns: u64,
    /// To its end, or the window's.
    pub to_ns: u64,
    /// In order. Where in a slice it did what is not known: it is drawn as running first, then
    /// waiting.
    pub pieces: Vec<Piece>,
}

/// The boot's processes in order of their start; of the kernel's threads those that did anything.
pub fn bars(record: &Record) -> Vec<Bar<'_>> {
    let (start, end) = record.window_ns();
    let did = |process: &&Process| {
        !process.is_kernel() || [process.cpu_ns, process.queue_ns, process.io_ns] != [0; 3]
    };
    // The recorder is in each of its looks, so none is without a line.
    let looks: BTreeSet<u64> = record.slices.iter().map(|slice| slice.at_ns).collect();
    let mut all: Vec<Bar> = record
        .of_boot()
        .filter(did)
        .map(|process| {
            let from_ns = process.start_ns.clamp(start, end);
            let to_ns = process.end_ns.unwrap_or(end).clamp(from_ns, end);
            Bar {
                process,
                from_ns,
                to_ns,
                pieces: pieces(record, &looks, process, (from_ns, to_ns)),
            }
        })
        .collect();
    // The kernel's threads come last: they were there before.
    all.sort_by_key(|bar| (bar.process.is_kernel(), bar.from_ns, bar.process.pid));
    all
}

fn pieces(
    record: &Record,
    looks: &BTreeSet<u64>,
    process: &Process,
    (from, to): (u64, u64),
) -> Vec<Piece> {
    let mut all = Vec::new();
    let mut left = [process.cpu_ns, process.queue_ns, process.io_ns];
    let mut at = from;
    let interval = record.looks.map_or(0, |looks| looks.slice_interval_ns);
    for slice in record.slices.iter().filter(|slice| slice.pid == process.pid) {
        // A number that was another's before, or will be.
        if slice.at_ns <= from || slice.at_ns > to {
            continue;
        }
        let before = looks.range(..slice.at_ns).next_back().copied();
        let begin = before.unwrap_or(slice.at_ns.saturating_sub(interval)).max(at);
        stretch(&mut all, (begin, slice.at_ns), slice.used_ns);
        left = [0, 1, 2].map(|index| left[index].saturating_sub(slice.used_ns[index]));
        at = slice.at_ns;
    }
    stretch(&mut all, (at, to), left);
    all
}

/// Lay what was used into a stretch of time: to scale, or to fill it where threads used more.
fn stretch(pieces: &mut Vec<Piece>, (from, to): (u64, u64), used_ns: [u64; 3]) {
    let sum: u128 = used_ns.iter().map(|&ns| u128::from(ns)).sum();
    let room = u128::from(to.saturating_sub(from));
    let scale = sum.max(room);
    if scale == 0 {
        return;
    }
    let mut at = from;
    for (doing, ns) in Doing::ALL.into_iter().zip(used_ns) {
        let length = (u128::from(ns) * room / scale) as u64;
        if length > 0 {
            pieces.push(Piece { from_ns: at, to_ns: at + length, doing });
            at += length;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::SMALL;
    use super::*;

    #[test]
    fn what_a_process_did_lies_in_its_life() {
        let record = Record::parse(SMALL).unwrap();
        let all = bars(&record);
        let names: Vec<&str> = all.iter().map(|bar| bar.process.name.as_str()).collect();
        assert_eq!(names, ["systemd", "a <b>", "jbd2/vda-8"]);
        let ab = &all[1];
        let told: Vec<_> =
            ab.pieces.iter().map(|piece| (piece.from_ns, piece.to_ns, piece.doing)).collect();
        use Doing::{Queues, Runs, WaitsForStorage};
        // Of 500 ns of waiting, 200 were seen by the first look; then 390 are to be laid into 300.
        let expected = [
            (1200, 1210, Runs),
            (1210, 1410, WaitsForStorage),
            (1500, 1530, Runs),
            (1530, 1568, Queues),
            (1568, 1798, WaitsForStorage),
        ];
        let rounded = told.iter().zip(expected).all(|(one, other)| {
            one.0.abs_diff(other.0) <= 6 && one.1.abs_diff(other.1) <= 6 && one.2 == other.2
        });
        assert!(rounded && told.len() == expected.len(), "{told:?}");
        for bar in &all {
            let ordered = bar.pieces.windows(2).all(|two| two[0].to_ns <= two[1].from_ns);
            let inside =
                bar.pieces.iter().all(|one| one.from_ns >= bar.from_ns && one.to_ns <= bar.to_ns);
            assert!(ordered && inside, "{bar:?}");
        }
    }
}
