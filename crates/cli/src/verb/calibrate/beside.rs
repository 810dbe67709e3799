//! What a drive writes to its flash beside the data: parity, above all.

/// Pages of data for one of what is written beside them.
pub(super) const PARITY: &str = "ssd.nand.parity_every";
/// Nobody writes more than so many times the data when nothing has to be collected,
pub(super) const SHARE_MAX: f64 = 1.2;
/// less than this beside them is not told from nothing,
pub(super) const SHARE_MIN: f64 = 1.002;
/// and nobody writes less than the data, but for what readings of two counters miss.
const NOTHING_MIN: f64 = 0.99;
/// A setting of nothing, where a base has something.
const NONE_EVERY: &str = "1000000";

/// What sequential fills say of it, by their median.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Beside {
    /// There are none, or the command line says it.
    Unsaid,
    Nothing,
    /// Bytes that are written for a byte of data.
    Share(f64),
    /// The same, and no drive's.
    Impossible(f64),
}

impl Beside {
    /// `asked`: whether the command line says it.
    pub(super) fn of(sequential: &[f64], asked: bool) -> Beside {
        let mut waf = sequential.to_vec();
        waf.sort_by(f64::total_cmp);
        match waf.get(waf.len() / 2) {
            None => Beside::Unsaid,
            Some(_) if asked => Beside::Unsaid,
            Some(share) if (NOTHING_MIN..SHARE_MIN).contains(share) => Beside::Nothing,
            Some(share) if (SHARE_MIN..=SHARE_MAX).contains(share) => Beside::Share(*share),
            Some(share) => Beside::Impossible(*share),
        }
    }

    /// A setting of it, over a base that has something.
    pub(super) fn set(self, stated: bool) -> Option<String> {
        match self {
            Beside::Share(share) => Some(parity_set(share)),
            Beside::Nothing if stated => Some(format!("{PARITY}={NONE_EVERY}")),
            _ => None,
        }
    }

    /// What is to be said of so many lines.
    pub(super) fn note(self, lines: usize) -> Option<String> {
        let what = match self {
            Beside::Unsaid => return None,
            Beside::Nothing => "that nothing is written beside the data".to_string(),
            Beside::Share(share) => parity_set(share),
            Beside::Impossible(share) => format!(
                "{share}, and are left out: of a drive that is empty {NOTHING_MIN} to {SHARE_MAX} \
                 bytes are written for a byte"
            ),
        };
        Some(format!("{lines} lines of sequential writes say {what}"))
    }
}

/// A setting of what is written beside the data, by what is written for a byte in all.
pub(super) fn parity_set(share: f64) -> String {
    format!("{PARITY}={:.0}", (1.0 / (share - 1.0)).max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_sequential_fills_say_is_heard() {
        let of = |sequential: &[f64]| Beside::of(sequential, false);
        assert_eq!(of(&[]), Beside::Unsaid);
        assert_eq!(of(&[1.04, 1.03, 1.037]), Beside::Share(1.037));
        for none in [0.995, 1.0, 1.0015] {
            assert_eq!(of(&[none]), Beside::Nothing);
        }
        for wrong in [0.8, 1.5] {
            assert_eq!(of(&[wrong]), Beside::Impossible(wrong));
            assert!(of(&[wrong]).note(1).is_some_and(|said| said.contains("are left out")));
        }
        assert_eq!(Beside::of(&[1.037], true), Beside::Unsaid);
        assert_eq!(Beside::Nothing.set(false), None);
        assert_eq!(Beside::Nothing.set(true).unwrap(), "ssd.nand.parity_every=1000000");
        assert_eq!(Beside::Share(1.04).set(true).unwrap(), "ssd.nand.parity_every=25");
    }
}
