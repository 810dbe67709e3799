//! What the counters of a model mean, and the metrics that follow from them: tables that stand
//! beside the model that counts.

/// One counter, or one family of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counter {
    /// Its name in [`crate::Counters`]; a part of the name that varies is `*`, as in
    /// `flash_programs.*`.
    pub name: &'static str,
    /// What it counts: `pages`, `bytes`, `ns`.
    pub unit: &'static str,
    /// In one line.
    pub meaning: &'static str,
}

impl Counter {
    /// Of these three.
    pub const fn new(name: &'static str, unit: &'static str, meaning: &'static str) -> Counter {
        Counter { name, unit, meaning }
    }
}

/// One number that follows from counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Metric {
    /// Its name in results.
    pub name: &'static str,
    /// What the number is in, such as `us` or `pages`; `1` for a plain ratio, `share` for one from
    /// 0 to 1.
    pub unit: &'static str,
    /// In one line.
    pub meaning: &'static str,
    /// How it follows.
    pub formula: Formula,
}

impl Metric {
    /// A count while measuring, by its own name or another.
    pub const fn count(
        name: &'static str,
        unit: &'static str,
        meaning: &'static str,
        of: &'static str,
    ) -> Metric {
        Metric { name, unit, meaning, formula: Formula::Count(of) }
    }
}

/// How a metric follows from counters, and how it adds up over the parts of a device that does not
/// count it itself. A name that ends in `.*` stands for the sum of all counts that begin so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Formula {
    /// The rise of a count while measuring. Parts: the sum.
    Count(&'static str),
    /// The rise of a count divided by a constant. Parts: the sum.
    Scaled(&'static str, u64),
    /// The rise of the first, divided by the sum of the others; undefined where that is 0. Parts:
    /// the quotient of the sums.
    Ratio(&'static str, &'static [&'static str]),
    /// A level's mean over the measured time, divided by a constant. Parts: the sum.
    Mean(&'static str, u64),
    /// A level's highest reading while measuring, divided by a constant. Parts: the highest sum.
    Highest(&'static str, u64),
    /// A level at the end, divided by a constant. Parts: the largest.
    Last(&'static str, u64),
    /// The same, after the power was cut at the end of the run; undefined where it was not.
    AfterPowerCut(&'static str, u64),
}

impl Formula {
    /// The names of the counters it reads.
    pub fn reads(&self) -> Vec<&'static str> {
        match *self {
            Formula::Ratio(of, per) => [of].iter().chain(per).copied().collect(),
            Formula::Count(name)
            | Formula::Scaled(name, _)
            | Formula::Mean(name, _)
            | Formula::Highest(name, _)
            | Formula::Last(name, _)
            | Formula::AfterPowerCut(name, _) => vec![name],
        }
    }
}

/// What one part of a model declares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counted {
    /// Counts and levels.
    pub counters: &'static [Counter],
    /// What follows from them.
    pub metrics: &'static [Metric],
}

/// What a model declares. One that counts something says so beside its parameters,
/// `impl Params { pub const COUNTED: Declarations = &[&MERGES]; }`; the registry finds it there.
pub type Declarations = &'static [&'static Counted];

/// The declarations of a model that has none of its own: an inherent constant of the same name is
/// found before this one.
pub trait CountsNothing {
    /// Nothing.
    const COUNTED: Declarations = &[];
}

impl<T> CountsNothing for T {}

/// Is `name` one of those that `declared` stands for?
pub fn stands_for(declared: &str, name: &str) -> bool {
    match declared.split_once('*') {
        None => declared == name,
        Some((before, after)) => name
            .strip_prefix(before)
            .and_then(|rest| rest.strip_suffix(after))
            .is_some_and(|varying| !varying.is_empty() && !varying.contains('.')),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_told_by_its_varying_part() {
        assert!(stands_for("flash_reads", "flash_reads"));
        assert!(stands_for("flash_programs.*", "flash_programs.gc"));
        assert!(stands_for("share.*.requests", "share.12.requests"));
        for other in ["flash_programs", "flash_programs.", "flash_programs.gc.x", "programs.gc"] {
            assert!(!stands_for("flash_programs.*", other), "{other}");
        }
        assert!(!stands_for("share.*.requests", "share.12.sectors"));
    }

    #[test]
    fn a_models_own_declarations_come_before_none() {
        struct Plain;
        struct Counting;
        static TABLE: Counted = Counted { counters: &[], metrics: &[] };
        impl Counting {
            const COUNTED: Declarations = &[&TABLE];
        }
        assert!(Plain::COUNTED.is_empty());
        assert_eq!(Counting::COUNTED, [&TABLE]);
    }
}
