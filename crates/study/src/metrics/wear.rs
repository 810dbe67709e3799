//! How often the blocks of flash were erased, as numbers of a run.

use sim::Wear;

use super::Metrics;

/// (name, unit, meaning). What was erased before the run counts: wear is of the drive's life.
pub(super) const METRICS: [(&str, &str, &str); 3] = [
    (
        "erases_per_block_max",
        "erases",
        "erases of the most worn block of flash at the end of the run, since the drive was new",
    ),
    (
        "erases_per_block_mean",
        "erases",
        "mean erases of a block of flash at the end of the run, since the drive was new",
    ),
    (
        "erases_per_block_deviation",
        "erases",
        "standard deviation of the erases of all blocks of flash at the end of the run, which wear \
         levelling keeps small",
    ),
];

pub(super) fn is_metric(own: &str) -> bool {
    METRICS.iter().any(|(name, ..)| *name == own)
}

/// A device without flash has no wear.
pub(super) fn undefined(metrics: &mut Metrics) {
    metrics.extend(METRICS.map(|(name, ..)| (name.to_string(), None)));
}

/// Add those of all units together, and of the units of each part under its name.
pub(crate) fn add(metrics: &mut Metrics, all: &[Wear], parts: &[String]) {
    let mut put = |before: &str, wear: &[&Wear]| {
        let values = values(wear).into_iter().flatten();
        let names = METRICS.iter().map(|(name, ..)| format!("{before}{name}"));
        metrics.extend(names.zip(values.map(Some)));
    };
    put("", &all.iter().collect::<Vec<_>>());
    for part in parts {
        let before = format!("{part}.");
        let of_part = all.iter().filter(|wear| wear.unit.starts_with(&before));
        put(&before, &of_part.collect::<Vec<_>>());
    }
}

/// Maximum, mean and standard deviation; nothing where there is no block.
fn values(wear: &[&Wear]) -> Option<[f64; 3]> {
    let counts = || wear.iter().flat_map(|unit| &unit.blocks);
    let blocks: f64 = counts().map(|&(_, blocks)| f64::from(blocks)).sum();
    let max = counts().map(|&(erases, _)| erases).max()?;
    let mean_of = |of: &dyn Fn(f64) -> f64| {
        let sum: f64 =
            counts().map(|&(erases, blocks)| of(f64::from(erases)) * f64::from(blocks)).sum();
        sum / blocks
    };
    let mean = mean_of(&|erases| erases);
    let variance = mean_of(&|erases| (erases - mean).powi(2));
    Some([f64::from(max), mean, variance.sqrt()])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wear_is_that_of_all_blocks_and_of_each_part() {
        let of =
            |unit: &str, blocks: &[(u32, u32)]| Wear { unit: unit.into(), blocks: blocks.to_vec() };
        let all = [of("fast.plane0", &[(2, 1), (4, 1)]), of("slow.plane0", &[(0, 1), (6, 1)])];
        let mut metrics = Metrics::new();
        undefined(&mut metrics);
        add(&mut metrics, &all, &["fast".into(), "slow".into(), "disk".into()]);
        let told = |part: &str| {
            METRICS.map(|(name, ..)| metrics.get(&format!("{part}{name}")).copied().flatten())
        };
        assert_eq!(told(""), [Some(6.0), Some(3.0), Some(5.0_f64.sqrt())]);
        assert_eq!(told("fast."), [Some(4.0), Some(3.0), Some(1.0)]);
        assert_eq!(told("slow."), [Some(6.0), Some(3.0), Some(3.0)]);
        assert!(metrics.keys().all(|name| !name.starts_with("disk.")));
        undefined(&mut metrics);
        add(&mut metrics, &[], &[]);
        assert_eq!(metrics["erases_per_block_max"], None);
    }
}
