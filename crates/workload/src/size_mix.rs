//! Request sizes whose mean is exactly the one that was measured.

use sim::{Rng, SECTOR_BYTES};

use config::{ConfigError, Size};

/// Strata per deck.
const DECK: usize = 64;

/// Uniform draws in `[0, 1)` that are even over every 64 of them and in the long run, in random
/// order. Plain independent draws would miss the mean size of a short trace by about a percent.
#[derive(Clone, Debug)]
pub(crate) struct Deck {
    rng: Rng,
    order: [u8; DECK],
    next: usize,
    /// Where in its stratum every draw of this deck lies; moves by the golden ratio per deck.
    offset: f64,
}

impl Deck {
    pub(crate) fn new(rng: Rng) -> Deck {
        let mut deck = Deck { rng, order: std::array::from_fn(|i| i as u8), next: 0, offset: 0.0 };
        deck.offset = deck.rng.unit();
        deck.shuffle();
        deck
    }

    fn shuffle(&mut self) {
        for last in (1..DECK).rev() {
            self.order.swap(last, self.rng.below(last as u64 + 1) as usize);
        }
        self.offset = (self.offset + 0.618_033_988_749_894_9) % 1.0;
        self.next = 0;
    }

    pub(crate) fn unit(&mut self) -> f64 {
        if self.next == DECK {
            self.shuffle();
        }
        let stratum = f64::from(self.order[self.next]);
        self.next += 1;
        (stratum + self.offset) / DECK as f64
    }

    pub(crate) fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }
}

/// Sizes with their shares of the requests.
#[derive(Clone, Debug)]
pub(crate) struct SizeMix {
    /// (sectors, cumulative share).
    classes: Vec<(u32, f64)>,
    deck: Deck,
}

impl SizeMix {
    /// Sizes with these shares, which sum to 1.
    pub(crate) fn new(shares: &[(Size, f64)], rng: Rng) -> SizeMix {
        let mut sum = 0.0;
        let cumulative = |&(size, share): &(Size, f64)| {
            sum += share;
            ((size.0.0 / SECTOR_BYTES) as u32, sum)
        };
        let classes = shares.iter().map(cumulative).collect();
        SizeMix { classes, deck: Deck::new(rng) }
    }

    /// The next size, in sectors.
    pub(crate) fn draw(&mut self) -> u32 {
        let u = self.deck.unit();
        let class = self.classes.iter().find(|class| u < class.1).or(self.classes.last());
        class.map_or(1, |class| class.0)
    }
}

/// Change the shares of the smallest (first) and largest (last) size so that all sum to 1 and the
/// mean is `mean` bytes.
///
/// # Errors
/// When no shares do that, or a size is not a whole number of sectors.
pub(crate) fn solve(sizes: &[(Size, f64)], mean: f64) -> Result<Vec<(Size, f64)>, ConfigError> {
    let bytes = |size: Size| size.0.0 as f64;
    let [(low, _), middle @ .., (high, _)] = sizes else {
        return Err(ConfigError::new("sizes", "expected at least two sizes with their shares"));
    };
    if let Some((size, _)) =
        sizes.iter().find(|(s, _)| s.0.0 == 0 || s.0.0 % SECTOR_BYTES != 0 || s.0.0 > 1 << 30)
    {
        let message = format!("expected whole sectors of 512 bytes up to 1 GiB, got \"{size}\"");
        return Err(ConfigError::new("sizes", message));
    }
    if low.0 >= high.0 {
        let message = format!(
            "expected sizes from the smallest to the largest, got \"{low}\" first and \"{high}\" \
             last"
        );
        return Err(ConfigError::new("sizes", message));
    }
    let share = 1.0 - middle.iter().map(|s| s.1).sum::<f64>();
    let rest = mean - middle.iter().map(|s| bytes(s.0) * s.1).sum::<f64>();
    let last = (rest - share * bytes(*low)) / (bytes(*high) - bytes(*low));
    let mut solved = sizes.to_vec();
    solved[0].1 = share - last;
    solved[sizes.len() - 1].1 = last;
    if solved.iter().all(|s| (0.0..=1.0).contains(&s.1)) {
        Ok(solved)
    } else {
        Err(ConfigError::new(
            "mean_size",
            format!("no mix of the sizes has a mean of {mean:.0} bytes: change the other shares"),
        ))
    }
}

/// The shares of two sizes, the keys `small` and `large`.
///
/// # Errors
/// As [`solve`].
pub(crate) fn solve_two(
    small: Size,
    large: Size,
    mean: f64,
) -> Result<Vec<(Size, f64)>, ConfigError> {
    if small.0 >= large.0 {
        let message = format!("expected more than `small`, which is \"{small}\", got \"{large}\"");
        return Err(ConfigError::new("large", message));
    }
    solve(&[(small, 0.0), (large, 0.0)], mean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Bytes;

    fn kib(n: u64) -> Size {
        Size(Bytes::from_kib(n))
    }

    #[test]
    fn solving_gives_the_published_shares() {
        let two = solve(&[(kib(4), 0.0), (kib(64), 0.0)], 33.06 * 1024.0).unwrap();
        assert!((two[0].1 - 0.5157).abs() < 5e-5, "{two:?}");
        let five =
            [(kib(4), 0.0), (kib(8), 0.16), (kib(16), 0.14), (kib(32), 0.09), (kib(64), 0.0)];
        let ie = solve(&five, 14.21 * 1024.0).unwrap();
        assert!((ie[0].1 - 0.5205).abs() < 5e-5 && (ie[4].1 - 0.0895).abs() < 5e-5, "{ie:?}");
        assert!(solve(&five, 80.0 * 1024.0).is_err());
        assert!(solve(&five[..1], 4096.0).is_err());
        let backwards = solve(&[(kib(64), 0.0), (kib(4), 0.0)], 33.06 * 1024.0).unwrap_err();
        assert!(backwards.to_string().starts_with("sizes: expected sizes from the smallest"));
    }

    #[test]
    fn the_mean_of_a_short_trace_is_within_a_fifth_of_a_percent() {
        for seed in 0..20 {
            let shares = solve(&[(kib(4), 0.0), (kib(64), 0.0)], 33.06 * 1024.0).unwrap();
            let mut mix = SizeMix::new(&shares, Rng::new(seed, "sizes"));
            let sum: u64 = (0..5_000).map(|_| u64::from(mix.draw())).sum();
            let mean = sum as f64 * 512.0 / 5_000.0 / 1024.0;
            assert!((mean / 33.06 - 1.0).abs() < 2e-3, "seed {seed}: {mean}");
        }
    }

    #[test]
    fn draws_are_even_but_not_regular() {
        let mut deck = Deck::new(Rng::new(1, "deck"));
        let draws: Vec<f64> = (0..100_000).map(|_| deck.unit()).collect();
        let mean = draws.iter().sum::<f64>() / 1e5;
        let covariance =
            draws.windows(2).map(|w| (w[0] - 0.5) * (w[1] - 0.5)).sum::<f64>() / 99_999.0;
        assert!((mean - 0.5).abs() < 1e-3, "{mean}");
        // Independent draws have variance 1/12; neighbours in a deck are nearly uncorrelated.
        assert!(covariance.abs() * 12.0 < 0.02, "{covariance}");
    }
}
