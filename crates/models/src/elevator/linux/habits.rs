//! How a process behaves: how long it thinks and how far it goes between requests.

use sim::{Nanos, snapshot_fields};

/// Fixed point: a whole sample.
const ONE: u64 = 256;

/// A mean in which the last value weighs an eighth.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Fading {
    /// How much is known: from 0 up to nearly [`ONE`].
    pub(crate) samples: u64,
    total: u64,
    pub(crate) mean: u64,
}

snapshot_fields!(Fading { samples, total, mean });

impl Fading {
    pub(crate) fn add(&mut self, value: u64) {
        self.samples = (7 * self.samples + ONE) / 8;
        self.total = (7 * self.total + ONE * value) / 8;
        self.mean = (self.total + self.samples / 2) / self.samples;
    }

    /// Enough is known: three samples or so.
    pub(crate) fn is_valid(&self) -> bool {
        self.samples > 80
    }
}

/// Distances after which a seek is not taken for more, so that an odd one does not count much:
/// 2 Mi sectors for the first few, 128 Ki then, above four times the mean.
const ODD_EARLY: u64 = 2 << 20;
const ODD_LATE: u64 = 128 << 10;

/// What an elevator knows of one process.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Habits {
    /// Nanoseconds from an answer to the next request.
    pub(crate) think: Fading,
    /// Sectors between requests.
    pub(crate) seek: Fading,
    /// Where its last request ended.
    pub(crate) position: u64,
    /// When it last got an answer.
    pub(crate) answered: Nanos,
}

snapshot_fields!(Habits { think, seek, position, answered });

impl Habits {
    /// It asks for something at `start`: how far it went.
    pub(crate) fn seek_to(&mut self, start: u64) -> u64 {
        let distance = start.abs_diff(self.position);
        let odd = if self.seek.samples <= 60 { ODD_EARLY } else { ODD_LATE };
        self.seek.add(distance.min(self.seek.mean * 4 + odd));
        distance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_follows_slowly() {
        let mut mean = Fading::default();
        mean.add(800);
        assert_eq!((mean.samples, mean.mean), (32, 800));
        (0..3).for_each(|_| mean.add(800));
        assert!(mean.is_valid());
        (0..40).for_each(|_| mean.add(800));
        mean.add(1600);
        // Samples saturate a little below one, so that the last value weighs a little more.
        assert!((900..=930).contains(&mean.mean), "an eighth of the way: {}", mean.mean);
    }

    #[test]
    fn an_odd_seek_is_not_taken_at_its_length() {
        let mut habits = Habits::default();
        for n in 0..20 {
            habits.position = n * 8;
            habits.seek_to(n * 8);
        }
        assert_eq!(habits.seek.mean, 0);
        habits.seek_to(1 << 30);
        assert!(habits.seek.mean <= ODD_LATE / 7, "{}", habits.seek.mean);
    }
}
