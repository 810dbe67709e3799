//! How long a request should take: a running 95th percentile per kind, size and depth.

use sim::Nanos;

/// Where an estimate starts before anything was seen.
const START_NS: u64 = 1_000_000;
/// An estimate moves by this share of itself: a step up for a late answer, a nineteenth of one
/// down for an early one, so that it settles where one in twenty is late.
const STEP_SHARE: u64 = 8;

const KINDS: usize = 3;
const SIZES: usize = 3;
const DEPTHS: usize = 3;

/// What is asked of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Read.
    Read = 0,
    /// Write, zero, or a metadata write.
    Write = 1,
    /// Flush.
    Flush = 2,
}

/// A request's class: device, kind, size and depth decide what is normal for it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Class(u8);

sim::snapshot_fields!(Class { 0 });

impl Class {
    /// The class of a request of `blocks` blocks that joins `depth` others.
    pub fn new(work: Work, blocks: u32, depth: u32) -> Class {
        let size = usize::from(blocks > 1) + usize::from(blocks > 16);
        let deep = usize::from(depth > 0) + usize::from(depth > 7);
        Class(((work as usize * SIZES + size) * DEPTHS + deep) as u8)
    }
}

/// The estimates of one device.
#[derive(Clone, Debug)]
pub struct Expected([u64; KINDS * SIZES * DEPTHS]);

sim::snapshot_fields!(Expected { 0 });

impl Default for Expected {
    fn default() -> Expected {
        Expected([START_NS; KINDS * SIZES * DEPTHS])
    }
}

impl Expected {
    /// Learn that a request of `class` took `time`.
    pub fn learn(&mut self, class: Class, time: Nanos) {
        let estimate = &mut self.0[usize::from(class.0)];
        let step = *estimate / STEP_SHARE + 1;
        *estimate = match time.0 > *estimate {
            true => estimate.saturating_add(step),
            false => estimate.saturating_sub(step / 19).max(1),
        };
    }

    /// The 95th percentile for `class`.
    pub fn p95(&self, class: Class) -> Nanos {
        Nanos(self.0[usize::from(class.0)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Rng;

    #[test]
    fn it_settles_at_the_95th_percentile() {
        let (mut expected, mut rng) = (Expected::default(), Rng::new(1, "expect"));
        let class = Class::new(Work::Write, 1, 0);
        let mut late = 0;
        for n in 0..20_000 {
            let time = Nanos(1_000 + rng.below(1_000_000));
            if n >= 10_000 && time > expected.p95(class) {
                late += 1;
            }
            expected.learn(class, time);
        }
        assert!((300..800).contains(&late), "{late} of 10,000 were late, expected about 500");
        assert_eq!(expected.p95(Class::new(Work::Read, 1, 0)), Nanos(START_NS));
    }
}
