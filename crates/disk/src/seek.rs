//! How long the arm takes to move: a formula or a measured table, as integers.

use serde::{Deserialize, Serialize};

use schemars::JsonSchema;

use config::{ConfigError, Duration};

/// The seek time as a formula of the distance `d` in cylinders (Ruemmler and Wilkes 1994):
/// `a + b sqrt(d)` up to `knee`, `c + e d` beyond it, in milliseconds. The default is that of a
/// 250 GB 7200 rpm drive of 2008.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Formula {
    /// Constant of the short seeks, ms.
    pub a: f64,
    /// Factor of the square root of the distance, ms.
    pub b: f64,
    /// Distance in cylinders from which the seek time is linear.
    pub knee: u32,
    /// Constant of the long seeks, ms.
    pub c: f64,
    /// Time per cylinder of the long seeks, ms.
    pub e: f64,
}

impl Default for Formula {
    fn default() -> Formula {
        Formula { a: 0.8682, b: 0.031766, knee: 64_836, c: 4.9125, e: 6.238e-5 }
    }
}

/// One measured seek time.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Distance in cylinders.
    pub cylinders: u32,
    /// Time from the start of the movement until the head has settled for reading.
    pub time: Duration,
}

/// Distances below this have an entry of their own; longer ones are interpolated between
/// multiples of [`STEP`], where a line is within 100 ns of the square-root curve of a real arm.
const EXACT_FORMULA: u32 = 1 << 11;
/// Measured points have corners, so more of them are kept.
const EXACT_POINTS: u32 = 1 << 14;
const STEP_BITS: u32 = 6;
const STEP: u32 = 1 << STEP_BITS;

/// Seek times in ns by distance. Small enough for the first-level caches, whatever the disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SeekTable {
    exact: Vec<u32>,
    coarse: Vec<u32>,
}

impl SeekTable {
    /// The table of a formula for distances below `cylinders`.
    ///
    /// # Errors
    /// When a time is negative, not a number, or beyond 4 s.
    pub fn from_formula(f: &Formula, cylinders: u32) -> Result<SeekTable, ConfigError> {
        SeekTable::build(cylinders, EXACT_FORMULA, |d| {
            if d <= f.knee {
                (f.a + f.b * libm::sqrt(f64::from(d))) * 1e6
            } else {
                (f.c + f.e * f64::from(d)) * 1e6
            }
        })
    }

    /// The table through measured points, with straight lines between them; the last line is
    /// continued to the longest distance.
    ///
    /// # Errors
    /// When there are fewer than two points or their distances do not rise from 1 or more.
    pub fn from_points(points: &[Point], cylinders: u32) -> Result<SeekTable, ConfigError> {
        let key = "seek.points";
        if points.len() < 2 || points[0].cylinders == 0 {
            let got = points.len();
            let message = format!("expected 2 or more points from 1 cylinder on, got {got}");
            return Err(ConfigError::new(key, message));
        }
        if let Some(w) = points.windows(2).find(|w| w[0].cylinders >= w[1].cylinders) {
            let message = format!(
                "expected rising distances, got {} after {}",
                w[1].cylinders, w[0].cylinders
            );
            return Err(ConfigError::new(key, message));
        }
        let mut index = 0;
        SeekTable::build(cylinders, EXACT_POINTS, |d| {
            while index + 2 < points.len() && points[index + 1].cylinders < d {
                index += 1;
            }
            let (from, to) = (points[index], points[index + 1]);
            if d <= from.cylinders {
                return from.time.0.0 as f64;
            }
            let share = f64::from(d - from.cylinders) / f64::from(to.cylinders - from.cylinders);
            let (start, end) = (from.time.0.0 as f64, to.time.0.0 as f64);
            start + (end - start) * share
        })
    }

    fn build(
        cylinders: u32,
        exact: u32,
        mut ns: impl FnMut(u32) -> f64,
    ) -> Result<SeekTable, ConfigError> {
        let mut bad = None;
        let mut entry = |d: u32| match ns(d).round() {
            t if (0.0..4e9).contains(&t) => t as u32,
            t => {
                bad.get_or_insert((d, t));
                0
            }
        };
        let first = exact >> STEP_BITS;
        let mut exact = vec![0; exact.min(cylinders.max(2)) as usize];
        (1..exact.len()).for_each(|d| exact[d] = entry(d as u32));
        let steps = cylinders.div_ceil(STEP) + 1;
        let coarse: Vec<u32> = (0..=steps)
            .map(|step| if step < first { 0 } else { entry(step.saturating_mul(STEP)) })
            .collect();
        match bad {
            None => Ok(SeekTable { exact, coarse }),
            Some((d, t)) => Err(ConfigError::new(
                "seek",
                format!("a seek over {d} cylinders takes {} ms; expected 0 to 4000 ms", t / 1e6),
            )),
        }
    }

    /// Seek time in ns over `distance` cylinders; 0 for no distance.
    #[inline]
    pub fn ns(&self, distance: u32) -> u32 {
        if let Some(&ns) = self.exact.get(distance as usize) {
            return ns;
        }
        let step = (distance >> STEP_BITS) as usize;
        let (low, high) = (self.coarse[step], self.coarse[step + 1]);
        let part = u64::from(distance % STEP);
        let rise = i64::from(high) - i64::from(low);
        (i64::from(low) + ((rise * part as i64) >> STEP_BITS)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Nanos;

    const WD80: Formula = Formula { a: 1.7403, b: 0.059685, knee: 24_048, c: 6.3681, e: 1.924e-4 };

    #[test]
    fn the_table_is_the_formula() {
        let table = SeekTable::from_formula(&WD80, 80_160).unwrap();
        assert_eq!(table.ns(0), 0);
        assert_eq!(table.ns(1), 1_799_985);
        for d in [2u32, 100, 2_047, 2_048, 2_080, 16_384, 20_001, 24_000, 24_049, 50_000, 80_159] {
            let exact = if d <= WD80.knee {
                WD80.a + WD80.b * f64::from(d).sqrt()
            } else {
                WD80.c + WD80.e * f64::from(d)
            };
            let error = (f64::from(table.ns(d)) - exact * 1e6).abs();
            // Around the knee one step joins both shapes, whose rounded constants differ by 1 us.
            let bound = if d.abs_diff(WD80.knee) < STEP { 1000.0 } else { 100.0 };
            assert!(error < bound, "{d}: {error} ns off");
        }
        assert!((0..80_159).all(|d| table.ns(d) <= table.ns(d + 1)), "it must rise");
    }

    fn point(cylinders: u32, us: u64) -> Point {
        Point { cylinders, time: Duration(Nanos::from_micros(us)) }
    }

    #[test]
    fn points_are_joined_by_lines() {
        let points = [point(1, 1_000), point(11, 2_000), point(100, 5_000)];
        let table = SeekTable::from_points(&points, 200).unwrap();
        assert_eq!(table.ns(1), 1_000_000);
        assert_eq!(table.ns(6), 1_500_000);
        assert_eq!(table.ns(11), 2_000_000);
        assert!(table.ns(150) > 5_000_000);
    }

    #[test]
    fn nonsense_is_refused() {
        let falling = [point(5, 1), point(5, 2)];
        assert!(SeekTable::from_points(&falling, 9).unwrap_err().message.contains("5 after 5"));
        assert!(SeekTable::from_points(&falling[..1], 9).is_err());
        let negative = Formula { a: -9.0, ..WD80 };
        let error = SeekTable::from_formula(&negative, 80_160).unwrap_err();
        assert!(error.message.contains("over 1 cylinders takes -8.9"), "{error}");
    }
}
