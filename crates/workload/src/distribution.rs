//! Laws of where random requests go: fio's distributions, and its map without repeats.

use sim::Rng;

/// The golden-ratio multiplier of fio's (and Linux's) `hash_64`.
const GOLDEN_RATIO: u64 = 0x61c8_8646_80b5_83eb;

/// `random_distribution` as it is written.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Distribution {
    /// Every block alike.
    Uniform,
    /// Zipf's law with exponent theta, and the share of the region where rank 1 lies; spread by
    /// hashing when no place is given.
    Zipf(f64, Option<f64>),
    /// fio's Pareto: a share `1 - h` of the requests goes to a share `h` of the blocks.
    Pareto(f64, Option<f64>),
    /// fio's bell: deviation in percent of the region.
    Normal(f64, Option<f64>),
    /// (share of the requests, share of the region), both in percent.
    Zoned(Vec<(f64, f64)>),
}

/// Draws block numbers below a bound in O(1) time and memory.
#[derive(Clone, Debug)]
pub(crate) enum Picker {
    Uniform { blocks: u64 },
    Once(Once),
    Zipf(Zipf),
    Pareto { blocks: u64, power: f64, place: RankOrder },
    Normal { blocks: u64, width: u64, place: RankOrder },
    Zoned { blocks: u64, zones: Vec<(f64, u64, u64)> },
}

impl Picker {
    pub(crate) fn new(
        distribution: &Distribution,
        blocks: u64,
        without_repeats: bool,
        rng: &mut Rng,
    ) -> Picker {
        match distribution {
            Distribution::Uniform if without_repeats => Picker::Once(Once::new(blocks, rng)),
            Distribution::Uniform => Picker::Uniform { blocks },
            &Distribution::Zipf(theta, center) => {
                Picker::Zipf(Zipf::new(blocks, theta, RankOrder::new(center, blocks, rng)))
            }
            &Distribution::Pareto(h, center) => Picker::Pareto {
                blocks,
                power: libm::log(h) / libm::log(1.0 - h),
                place: RankOrder::new(center, blocks, rng),
            },
            &Distribution::Normal(percent, center) => Picker::Normal {
                blocks,
                width: (libm::ceil(blocks as f64 * percent / 100.0) as u64).min(blocks / 2),
                place: match center {
                    // fio's bell stands in the middle by itself; a place moves it from there.
                    Some(c) => RankOrder::Shift((c * blocks as f64) as u64 + blocks - blocks / 2),
                    None => RankOrder::Hash(0),
                },
            },
            Distribution::Zoned(zones) => {
                Picker::Zoned { blocks, zones: zone_table(zones, blocks) }
            }
        }
    }

    #[inline]
    pub(crate) fn draw(&mut self, rng: &mut Rng) -> u64 {
        match self {
            Picker::Uniform { blocks } => rng.below(*blocks),
            Picker::Once(once) => once.draw(rng),
            Picker::Zipf(zipf) => zipf.draw(rng),
            Picker::Pareto { blocks, power, place } => {
                let rank = (*blocks - 1) as f64 * libm::pow(rng.unit(), *power);
                place.of(rank as u64, *blocks)
            }
            Picker::Normal { blocks, width, place } => normal(*blocks, *width, *place, rng),
            Picker::Zoned { blocks, zones } => {
                let u = rng.unit() * 100.0;
                let zone = zones.iter().find(|zone| u < zone.0).or(zones.last());
                let &(_, first, count) = zone.unwrap_or(&(100.0, 0, *blocks));
                first + rng.below(count)
            }
        }
    }

    /// Begin a new pass with the next draw, where blocks come once per pass.
    pub(crate) fn restart(&mut self) {
        if let Picker::Once(once) = self {
            once.next = once.blocks;
        }
    }

    /// What the draw after `draws` more gives, where that is told at once.
    #[inline]
    pub(crate) fn ahead(&self, rng: &Rng, draws: u64) -> Option<u64> {
        match self {
            Picker::Uniform { blocks } => Some(rng.ahead(draws).below(*blocks)),
            Picker::Once(once) if once.next + draws < once.blocks => {
                Some(once.at(once.next + draws))
            }
            _ => None,
        }
    }
}

/// (cumulative share of requests in percent, first block, blocks), none of them empty.
fn zone_table(zones: &[(f64, f64)], blocks: u64) -> Vec<(f64, u64, u64)> {
    let (mut requests, mut space) = (0.0, 0.0);
    let mut table = Vec::with_capacity(zones.len());
    for &(share, size) in zones {
        let first = (blocks as f64 * space / 100.0) as u64;
        (requests, space) = (requests + share, space + size);
        let end = (blocks as f64 * space / 100.0) as u64;
        let first = first.min(blocks - 1);
        table.push((requests, first, end.saturating_sub(first).clamp(1, blocks - first)));
    }
    table
}

/// From a rank to a block.
#[derive(Clone, Copy, Debug)]
pub(crate) enum RankOrder {
    /// fio's default: multiply by the golden ratio, add a random offset, take the remainder. As
    /// in fio this is one-to-one only when the number of blocks is a power of two; otherwise some
    /// ranks share a block and some blocks are never drawn.
    Hash(u64),
    /// Rank 0 at this block, the others behind it.
    Shift(u64),
}

impl RankOrder {
    fn new(center: Option<f64>, blocks: u64, rng: &mut Rng) -> RankOrder {
        match center {
            None => RankOrder::Hash(rng.next_u64() >> 32),
            Some(center) => RankOrder::Shift((center * blocks as f64) as u64),
        }
    }

    #[inline]
    fn of(self, rank: u64, blocks: u64) -> u64 {
        match self {
            RankOrder::Hash(offset) => {
                rank.wrapping_mul(GOLDEN_RATIO).wrapping_add(offset) % blocks
            }
            RankOrder::Shift(first) => (rank + first) % blocks,
        }
    }
}

/// The mean of twelve uniform draws over the region (standard deviation 1/12 of it), moved by one
/// more uniform draw of the given width.
fn normal(blocks: u64, width: u64, place: RankOrder, rng: &mut Rng) -> u64 {
    let sum: u64 = (0..12).map(|_| rng.below(blocks + 1)).sum();
    let mut block = sum.div_ceil(12) as i64;
    if width > 0 {
        let mut move_by = rng.below(width) as i64 - (width / 2) as i64;
        while !(0..blocks as i64).contains(&(block + move_by)) && move_by != 0 {
            move_by /= 2;
        }
        block += move_by;
    }
    place.of(block.max(0) as u64, blocks)
}

/// Zipf's law by the quantile approximation of Gray et al. (SIGMOD 1994), as in fio: ranks 1 and
/// 2 are exact, the others follow the continuous law.
#[derive(Clone, Debug)]
pub(crate) struct Zipf {
    blocks: u64,
    zeta: f64,
    second: f64,
    alpha: f64,
    eta: f64,
    place: RankOrder,
}

impl Zipf {
    pub(crate) fn new(blocks: u64, theta: f64, place: RankOrder) -> Zipf {
        let zeta = zeta(blocks, theta);
        let second = 1.0 + libm::pow(0.5, theta);
        let eta = if blocks > 2 {
            (1.0 - libm::pow(2.0 / blocks as f64, 1.0 - theta)) / (1.0 - second / zeta)
        } else {
            0.0
        };
        Zipf { blocks, zeta, second, alpha: 1.0 / (1.0 - theta), eta, place }
    }

    #[inline]
    fn rank(&self, u: f64) -> u64 {
        let scaled = u * self.zeta;
        if scaled < 1.0 {
            return 0;
        }
        if scaled < self.second {
            return 1.min(self.blocks - 1);
        }
        let quantile = libm::pow(self.eta * u - self.eta + 1.0, self.alpha);
        ((self.blocks as f64 * quantile) as u64).min(self.blocks - 1)
    }

    #[inline]
    pub(crate) fn draw(&self, rng: &mut Rng) -> u64 {
        self.place.of(self.rank(rng.unit()), self.blocks)
    }
}

/// Sum of `1 / i^theta` for i = 1 to n: 256 terms, then the Euler-Maclaurin formula, whose next
/// term is below 1e-16. fio sums up to ten million terms and leaves out the rest.
fn zeta(n: u64, theta: f64) -> f64 {
    let head = n.min(256);
    let sum: f64 = (1..=head).rev().map(|i| libm::pow(i as f64, -theta)).sum();
    if n == head {
        return sum;
    }
    let (a, b) = (head as f64, n as f64);
    let f = |x: f64| libm::pow(x, -theta);
    let integral = (b * f(b) - a * f(a)) / (1.0 - theta);
    let slope = theta * (f(a) / a - f(b) / b);
    let third = theta * (theta + 1.0) * (theta + 2.0) * (f(a) / (a * a * a) - f(b) / (b * b * b));
    sum + integral + (f(b) - f(a)) / 2.0 + slope / 12.0 - third / 720.0
}

/// Every block once per pass, in an order that looks random.
///
/// fio keeps a bitmap of what it touched. This is a keyed one-to-one map of the numbers below the
/// next power of two onto themselves, applied again until the result is below the number of
/// blocks (fewer than two rounds on average): the same promise without memory.
#[derive(Clone, Debug)]
pub(crate) struct Once {
    blocks: u64,
    mask: u64,
    shift: u32,
    keys: [u64; 4],
    next: u64,
}

/// One odd multiplier per round: multiplication modulo a power of two is then one-to-one. Three
/// rounds leave the steps between blocks measurably uneven (chi-square 140 instead of 63); four do
/// not.
const MULTIPLIERS: [u64; 4] =
    [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53, 0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9];

impl Once {
    pub(crate) fn new(blocks: u64, rng: &mut Rng) -> Once {
        let bits = (64 - (blocks - 1).leading_zeros()).max(1);
        let mask = u64::MAX >> (64 - bits);
        let keys = [(); 4].map(|()| rng.next_u64());
        Once { blocks, mask, shift: bits.div_ceil(2), keys, next: 0 }
    }

    #[inline]
    fn draw(&mut self, rng: &mut Rng) -> u64 {
        if self.next == self.blocks {
            *self = Once::new(self.blocks, rng);
        }
        let block = self.at(self.next);
        self.next += 1;
        block
    }

    #[inline]
    pub(crate) fn at(&self, index: u64) -> u64 {
        let mut x = index;
        loop {
            for (key, multiplier) in self.keys.iter().zip(MULTIPLIERS) {
                x = (x ^ key).wrapping_mul(multiplier) & self.mask;
                x ^= x >> self.shift;
            }
            if x < self.blocks {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rng() -> Rng {
        Rng::new(7, "distribution")
    }

    #[test]
    fn every_block_comes_once_per_pass() {
        for blocks in [1, 2, 3, 5, 64, 1000, 4097] {
            let mut rng = rng();
            let mut once = Once::new(blocks, &mut rng);
            let mut passes = Vec::new();
            for _ in 0..2 {
                let pass: Vec<u64> = (0..blocks).map(|_| once.draw(&mut rng)).collect();
                let mut sorted = pass.clone();
                sorted.sort_unstable();
                assert!(sorted.iter().copied().eq(0..blocks), "{blocks} blocks");
                passes.push(pass);
            }
            assert!(blocks < 64 || passes[0] != passes[1], "each pass has its own order");
        }
    }

    /// Successive steps of a random order are spread evenly: chi-square over 64 classes.
    #[test]
    fn the_order_without_repeats_looks_random() {
        for blocks in [1 << 16, 100_003] {
            let mut rng = rng();
            let mut once = Once::new(blocks, &mut rng);
            let mut counts = [0u32; 64];
            let mut last = once.draw(&mut rng);
            let draws = blocks - 1;
            for _ in 0..draws {
                let block = once.draw(&mut rng);
                counts[((block + blocks - last) % blocks * 64 / blocks) as usize] += 1;
                last = block;
            }
            let expected = draws as f64 / 64.0;
            let chi: f64 = counts.iter().map(|&c| (f64::from(c) - expected).powi(2)).sum();
            // 63 degrees of freedom: 99.99 % lie below 115.
            assert!(chi / expected < 115.0, "{blocks} blocks: chi-square {}", chi / expected);
        }
    }

    #[test]
    fn zeta_agrees_with_the_plain_sum() {
        for theta in [0.2, 0.9, 1.2, 2.5] {
            for n in [1u64, 256, 257, 100_000] {
                let plain: f64 = (1..=n).rev().map(|i| (i as f64).powf(-theta)).sum();
                let fast = zeta(n, theta);
                assert!((fast / plain - 1.0).abs() < 1e-12, "{theta} {n}: {fast} {plain}");
            }
        }
    }

    /// Ranks 1 and 2 exactly, the top tenth and hundredth within the error of Gray's formula.
    #[test]
    fn zipf_shares_follow_the_law() {
        for theta in [0.5, 0.9, 1.2] {
            let (blocks, draws) = (10_000u64, 400_000u32);
            let zipf = Zipf::new(blocks, theta, RankOrder::Shift(0));
            let mut rng = rng();
            let mut counts = vec![0u32; blocks as usize];
            (0..draws).for_each(|_| counts[zipf.draw(&mut rng) as usize] += 1);
            let share = |top: usize| f64::from(counts[..top].iter().sum::<u32>()) / 4e5;
            let law = |top| zeta(top, theta) / zeta(blocks, theta);
            for top in [1u64, 2] {
                let p = law(top);
                let sigma = (p * (1.0 - p) / 4e5).sqrt();
                assert!((share(top as usize) - p).abs() < 4.0 * sigma, "{theta} {top}");
            }
            for top in [100u64, 1000] {
                let error = share(top as usize) - law(top);
                assert!(error.abs() < 0.015, "theta {theta}, top {top}: off by {error}");
            }
        }
    }

    #[test]
    fn pareto_puts_h_of_the_requests_on_the_rest_of_the_blocks() {
        let mut rng = rng();
        for h in [0.2, 0.4] {
            let mut picker =
                Picker::new(&Distribution::Pareto(h, Some(0.0)), 1000, false, &mut rng);
            let hot = (0..100_000).filter(|_| picker.draw(&mut rng) < (h * 1000.0) as u64).count();
            let share = hot as f64 / 1e5;
            assert!((share - (1.0 - h)).abs() < 0.01, "h {h}: {share}");
        }
    }

    #[test]
    fn the_bell_has_fios_mean_and_deviation() {
        let mut rng = rng();
        let blocks = 12_000u64;
        for percent in [0.0, 20.0] {
            let bell = Distribution::Normal(percent, Some(0.5));
            let mut picker = Picker::new(&bell, blocks, false, &mut rng);
            let draws: Vec<f64> = (0..50_000).map(|_| picker.draw(&mut rng) as f64).collect();
            let mean = draws.iter().sum::<f64>() / 5e4;
            let variance = draws.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / 5e4;
            let width = percent / 100.0 * 12_000.0;
            let expected = 1000.0f64.powi(2) + width * width / 12.0;
            assert!((mean - 6000.0).abs() < 25.0, "{percent}: mean {mean}");
            assert!((variance / expected - 1.0).abs() < 0.03, "{percent}: {variance}");
        }
    }

    #[test]
    fn zones_get_their_shares() {
        let mut rng = rng();
        let zones = vec![(60.0, 10.0), (30.0, 20.0), (8.0, 30.0), (2.0, 40.0)];
        let mut picker = Picker::new(&Distribution::Zoned(zones), 1000, false, &mut rng);
        let mut counts = [0u32; 4];
        for _ in 0..100_000 {
            let block = picker.draw(&mut rng);
            counts[[100, 300, 600].iter().filter(|&&edge| block >= edge).count()] += 1;
        }
        for (count, share) in counts.into_iter().zip([60_000.0f64, 30_000.0, 8_000.0, 2_000.0]) {
            let sigma = (share * (1.0 - share / 1e5)).sqrt();
            assert!((f64::from(count) - share).abs() < 4.0 * sigma, "{counts:?}");
        }
    }
}
