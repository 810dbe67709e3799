//! Trouble with blocks, in few lines: neighbours share one, nothing is said again and again, and
//! what is too much is counted.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use mirror::{Slot, Span};
use sim::Nanos;

use super::NAMES;

/// A range waits so long for more of its neighbours.
const GATHER: Nanos = Nanos::from_secs(1);
/// The same range is not told again for so long.
const SILENT: Nanos = Nanos::from_secs(600);
/// So many lines of a kind in one minute; the rest is counted.
const LINES: u32 = 10;
const MINUTE: Nanos = Nanos::from_secs(60);
/// Ranges that are remembered as told, of each kind.
const TOLD: usize = 64;
/// Sectors, which are what the kernel counts in, per block.
const SECTORS: u64 = 8;

/// What is wrong with some blocks.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum About {
    /// A request to a device failed, for this reason.
    Failed(Slot, String),
    /// The same, of one that is for no blocks, or that nobody waits for any more.
    Request(Slot, String),
    /// A copy is wrong, or cannot be read.
    Wrong(Slot),
    /// No leg can be read.
    Lost,
    /// The host was told of an error.
    Unreadable,
    /// The legs differ.
    Differ,
}

impl About {
    fn line(&self, what: &str) -> String {
        match self {
            About::Failed(slot, why) => format!("{}: {what}: {why}", NAMES[*slot]),
            About::Request(slot, why) => format!("{}: {what}{why}", NAMES[*slot]),
            About::Wrong(slot) => {
                let (name, other) = (NAMES[*slot], NAMES[mirror::other(*slot)]);
                format!("{name}: {what} wrong or unreadable, to be repaired from {other}")
            }
            About::Lost => {
                format!("lost: {what} can be read from no leg; an error until written")
            }
            About::Unreadable => format!("{what} could not be read: the host was told of an error"),
            About::Differ => format!("{what}: the legs differ"),
        }
    }
}

/// Some blocks, in blocks of 4 KiB and in sectors of 512 bytes.
pub(super) struct Blocks(pub(super) Span);

impl fmt::Display for Blocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, last) = (self.0.start, self.0.end() - 1);
        let sectors = format!("sectors {} to {}", start * SECTORS, (last + 1) * SECTORS - 1);
        if start == last {
            write!(f, "block {start} ({sectors})")
        } else {
            write!(f, "blocks {start} to {last} ({sectors})")
        }
    }
}

#[derive(Default)]
struct Kind {
    gathered: Option<(Span, Nanos)>,
    told: VecDeque<(Span, Nanos)>,
    minute: Option<Nanos>,
    lines: u32,
    left_out: u64,
}

impl Kind {
    /// One more line in this minute?
    fn may_tell(&mut self, now: Nanos) -> bool {
        if self.minute.is_none_or(|since| now.since(since) >= MINUTE) {
            (self.minute, self.lines) = (Some(now), 0);
        }
        self.lines += 1;
        self.lines <= LINES
    }
}

/// What is to be told, and what was.
#[derive(Default)]
pub(super) struct Troubles {
    kinds: BTreeMap<About, Kind>,
    lines: Vec<String>,
}

impl Troubles {
    /// Something is wrong with these blocks.
    pub(super) fn note(&mut self, now: Nanos, about: About, span: Span) {
        let kind = self.kinds.entry(about.clone()).or_default();
        if let Some((gathered, _)) = &mut kind.gathered {
            if span.start <= gathered.end() && gathered.start <= span.end() {
                let end = gathered.end().max(span.end());
                gathered.start = gathered.start.min(span.start);
                gathered.blocks = (end - gathered.start) as u32;
                return;
            }
            let (range, _) = kind.gathered.take().expect("it was there");
            self.tell(now, &about, range);
        }
        let kind = self.kinds.entry(about).or_default();
        kind.told.retain(|&(_, at)| now.since(at) < SILENT);
        let within = |told: &Span| told.start <= span.start && span.end() <= told.end();
        if !kind.told.iter().any(|(told, _)| within(told)) {
            kind.gathered = Some((span, now));
        }
    }

    /// A request failed that is for no blocks: the line to be told now, if it is one more of a few.
    pub(super) fn request(&mut self, now: Nanos, slot: Slot, why: String) -> Option<String> {
        let about = About::Request(slot, why);
        let kind = self.kinds.entry(about.clone()).or_default();
        if kind.may_tell(now) {
            return Some(about.line(""));
        }
        kind.left_out += 1;
        None
    }

    fn tell(&mut self, now: Nanos, about: &About, range: Span) {
        let Some(kind) = self.kinds.get_mut(about) else { return };
        if kind.told.len() == TOLD {
            kind.told.pop_front();
        }
        kind.told.push_back((range, now));
        if kind.may_tell(now) {
            self.lines.push(about.line(&Blocks(range).to_string()))
        } else {
            kind.left_out += u64::from(range.blocks)
        }
    }

    /// The lines that are ripe; with `all`, whatever there is.
    pub(super) fn lines(&mut self, now: Nanos, all: bool) -> Vec<String> {
        let ripe = |since: Nanos, after: Nanos| all || now.since(since) >= after;
        let abouts: Vec<About> = self.kinds.keys().cloned().collect();
        for about in abouts {
            let Some(kind) = self.kinds.get_mut(&about) else { continue };
            if let Some((range, _)) = kind.gathered.take_if(|(_, since)| ripe(*since, GATHER)) {
                self.tell(now, &about, range);
            }
            let Some(kind) = self.kinds.get_mut(&about) else { continue };
            if kind.left_out > 0 && kind.minute.is_some_and(|since| ripe(since, MINUTE)) {
                let count = std::mem::take(&mut kind.left_out);
                let what = match about {
                    About::Request(..) => format!("{count} more requests: "),
                    _ => format!("{count} more blocks"),
                };
                self.lines.push(about.line(&what));
            }
        }
        std::mem::take(&mut self.lines)
    }

    /// When there is something to tell.
    pub(super) fn due(&self) -> Option<Nanos> {
        let kinds = self.kinds.values();
        let due = kinds.flat_map(|kind| {
            let gathered = kind.gathered.map(|(_, since)| since + GATHER);
            let rest = kind.minute.filter(|_| kind.left_out > 0).map(|since| since + MINUTE);
            [gathered, rest]
        });
        due.flatten().min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Nanos {
        Nanos::from_secs(seconds)
    }

    #[test]
    fn neighbours_share_a_line_and_nothing_is_said_twice() {
        let mut troubles = Troubles::default();
        [3, 4, 5, 4].into_iter().for_each(|b| troubles.note(s(1), About::Lost, Span::new(b, 1)));
        assert_eq!(troubles.lines(s(1), false), Vec::<String>::new());
        assert_eq!(troubles.due(), Some(s(2)));
        let line = "lost: blocks 3 to 5 (sectors 24 to 47) can be read from no leg; an error until \
                    written";
        assert_eq!(troubles.lines(s(2), false), [line]);
        for at in 3..600 {
            troubles.note(s(at), About::Lost, Span::new(4, 1));
            assert_eq!(troubles.lines(s(at + 2), false), Vec::<String>::new());
        }
        troubles.note(s(603), About::Lost, Span::new(4, 1));
        assert_eq!(troubles.lines(s(603), true).len(), 1);
        assert_eq!(troubles.due(), None);
    }

    #[test]
    fn what_is_too_much_is_counted() {
        let mut troubles = Troubles::default();
        let failed = || About::Failed(1, "it is broken".into());
        (0..1000).for_each(|nth| troubles.note(s(1), failed(), Span::new(10 * nth, 2)));
        let lines = troubles.lines(s(2), false);
        assert_eq!(lines.len(), LINES as usize);
        assert_eq!(lines[0], "slow: blocks 0 to 1 (sectors 0 to 15): it is broken");
        assert_eq!(troubles.due(), Some(s(61)));
        assert_eq!(troubles.lines(s(61), false), ["slow: 1980 more blocks: it is broken"]);
        let mut request = |at| troubles.request(s(at), 1, "it is broken".into());
        let lines: Vec<String> = (0..1000).filter_map(|_| request(100)).collect();
        assert_eq!(lines, ["slow: it is broken"; LINES as usize]);
        assert_eq!(troubles.due(), Some(s(160)));
        assert_eq!(troubles.lines(s(160), false), ["slow: 990 more requests: it is broken"]);
    }
}
