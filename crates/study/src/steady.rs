//! The steady-state rule of the SNIA Solid State Storage Performance Test Specification.

use crate::document::UntilSteady;
use crate::metrics::{Metrics, of_device};

/// A drive that is written has room as long as it erases this share of the blocks it begins.
const ERASED_MIN: f64 = 0.9;
/// Writes count for something from this share of reads and writes on.
const WRITES_MIN: f64 = 0.1;

/// Blocks of flash, over some time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Blocks {
    pub(crate) opened: f64,
    pub(crate) erased: f64,
}

impl Blocks {
    /// Of each drive of a device, where the host writes: that with the least erased for its opened
    /// ones.
    pub(crate) fn of(rounds: &[Metrics]) -> Option<Blocks> {
        let sum = |name: &str| rounds.iter().filter_map(|round| round.get(name)?.as_ref()).sum();
        let (reads, writes): (f64, f64) = (sum("read_iops"), sum("write_iops"));
        if writes < WRITES_MIN * (reads + writes) {
            return None;
        }
        let names = rounds.last()?.keys().filter(|name| of_device(name) == OPENED);
        let each = names.map(|opened| {
            let erased = opened.replace(OPENED, "flash_erases");
            Blocks { opened: sum(opened), erased: sum(&erased) }
        });
        let share = |blocks: &Blocks| blocks.erased / blocks.opened.max(1.0);
        let used = each.filter(|blocks| blocks.opened > 0.0);
        used.min_by(|a, b| share(a).total_cmp(&share(b)))
    }

    /// Free blocks went that no collection brought back, as they do only for a while.
    pub(crate) fn is_living_on_free_ones(&self) -> bool {
        self.erased < ERASED_MIN * self.opened
    }
}

const OPENED: &str = "flash_blocks_opened";

/// Bounds on the last rounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    window: usize,
    range: f64,
    slope: f64,
}

impl Rule {
    pub(crate) fn of(step: &UntilSteady) -> Rule {
        Rule {
            window: step.window as usize,
            range: step.range_percent / 100.0,
            slope: step.slope_percent / 100.0,
        }
    }

    /// Is the drive, in the last `window` rounds, as it will be? See [`Blocks`].
    pub(crate) fn keeps_up(&self, rounds: &[Metrics]) -> bool {
        let from = rounds.len().saturating_sub(self.window);
        Blocks::of(&rounds[from..]).is_none_or(|blocks| !blocks.is_living_on_free_ones())
    }

    /// True when the last `window` values are steady: their range, and the excursion of their
    /// least-squares line over the window, stay within the bounds as shares of their mean.
    pub(crate) fn holds(&self, values: &[f64]) -> bool {
        let Some(window) = values.len().checked_sub(self.window).map(|from| &values[from..]) else {
            return false;
        };
        let n = window.len() as f64;
        let mean = window.iter().sum::<f64>() / n;
        let max = window.iter().copied().fold(f64::MIN, f64::max);
        let min = window.iter().copied().fold(f64::MAX, f64::min);
        let middle = (n - 1.0) / 2.0;
        let offsets = window.iter().enumerate().map(|(x, y)| (x as f64 - middle, y - mean));
        let (products, squares) =
            offsets.fold((0.0, 0.0), |(p, s), (dx, dy)| (p + dx * dy, s + dx * dx));
        let excursion = (products / squares * (n - 1.0)).abs();
        max - min <= self.range * mean.abs() && excursion <= self.slope * mean.abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SNIA: Rule = Rule { window: 5, range: 0.2, slope: 0.1 };

    #[test]
    fn too_few_rounds_are_never_steady() {
        assert!(!SNIA.holds(&[100.0; 4]));
        assert!(SNIA.holds(&[100.0; 5]));
    }

    fn round(writes: f64, opened: f64, erased: f64) -> Metrics {
        [
            ("read_iops", 100.0 - writes),
            ("write_iops", writes),
            ("fast.flash_blocks_opened", opened),
            ("fast.flash_erases", erased),
            ("slow.flash_blocks_opened", 0.0),
            ("slow.flash_erases", 0.0),
        ]
        .map(|(name, value)| (name.to_string(), Some(value)))
        .into_iter()
        .collect()
    }

    /// A drive that has free blocks left writes as fast as it will not for long.
    #[test]
    fn who_lives_on_free_blocks_is_not_steady() {
        for (rounds, steady) in [
            (vec![round(100.0, 20.0, 0.0); 5], false),
            (vec![round(100.0, 20.0, 15.0); 5], false),
            (vec![round(100.0, 20.0, 19.0); 5], true),
            // Nothing is begun, or hardly anything is written.
            (vec![round(100.0, 0.0, 0.0); 5], true),
            (vec![round(5.0, 20.0, 0.0); 5], true),
        ] {
            assert_eq!(SNIA.keeps_up(&rounds), steady, "{:?}", rounds[0]);
        }
        let mut settled = vec![round(100.0, 20.0, 0.0); 9];
        settled.extend(vec![round(100.0, 20.0, 20.0); 5]);
        assert!(SNIA.keeps_up(&settled), "only the window counts");
    }

    #[test]
    fn only_the_window_counts() {
        assert!(SNIA.holds(&[900.0, 100.0, 100.0, 101.0, 99.0, 100.0]));
    }

    #[test]
    fn range_and_slope_bound_separately() {
        // Range 22 %, no slope.
        assert!(!SNIA.holds(&[100.0, 111.0, 89.0, 111.0, 100.0]));
        // Range 12 %, but it climbs by 12 % of the mean over the window.
        assert!(!SNIA.holds(&[94.0, 97.0, 100.0, 103.0, 106.0]));
        assert!(SNIA.holds(&[98.0, 99.0, 100.0, 101.0, 102.0]));
    }
}
