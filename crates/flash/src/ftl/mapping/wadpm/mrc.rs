//! A window sized by a miss-ratio curve instead of by trial.
//!
//! A few map pages are watched (spatial sampling, as in SHARDS): the number of *watched* pages
//! used since the last use of one, divided by the sampling rate, estimates its LRU stack distance
//! over all pages. The distances of recent accesses give the hits of every window size at once, so
//! the controller jumps to the smallest size that is good enough, and does not grow for misses
//! that no size would avoid. Waldspurger, Park, Garthwaite, Ahmad, FAST 2015.

use config::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::snapshot_fields;

use super::share::{percent, up_to_max};

/// What the controller wants, and how closely it looks.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MrcParams {
    /// Size at power-on, in percent of a complete page table.
    pub start: f64,
    /// Smallest size, in percent.
    pub min: f64,
    /// Largest size, in percent.
    pub max: f64,
    /// The share of hits that is good enough, in percent.
    pub hit_ratio: f64,
    /// Of the hits that the largest window would have, the share that is good enough even when
    /// `hit_ratio` cannot be reached, in percent.
    pub reachable: f64,
    /// Map pages watched, about.
    pub samples: u32,
    /// Page accesses between two looks. Older accesses count half at each look.
    pub period: u32,
}

impl Default for MrcParams {
    fn default() -> MrcParams {
        MrcParams {
            start: 1.0,
            min: 1.0,
            max: 50.0,
            hit_ratio: 97.0,
            reachable: 98.0,
            samples: 512,
            period: 1024,
        }
    }
}

impl MrcParams {
    /// Check the values. `table` is the size of a complete page table and `chunk` of a map page,
    /// in bytes; `chunks` map pages make the table.
    pub(super) fn build(&self, table: u64, chunk: u64, chunks: u32) -> Result<Curve, ConfigError> {
        for (key, value) in
            [("max", self.max), ("hit_ratio", self.hit_ratio), ("reachable", self.reachable)]
        {
            percent(key, value)?;
        }
        up_to_max("min", self.min, self.max)?;
        up_to_max("start", self.start, self.max)?;
        if self.samples < 16 || self.period == 0 {
            let message = "expected samples of at least 16 and a period of at least 1";
            return Err(ConfigError::new("samples", message));
        }
        let bytes = |percent: f64| (table as f64 * percent / 100.0) as u64;
        let watched = self.samples.min(chunks);
        Ok(Curve {
            chunk,
            min: bytes(self.min),
            max: bytes(self.max),
            hit_ratio: self.hit_ratio / 100.0,
            reachable: self.reachable / 100.0,
            period: self.period,
            limit: (u64::from(watched) << 32) / u64::from(chunks),
            stack: Vec::with_capacity(watched as usize),
            distances: Vec::new(),
            total: 0,
            accesses: 0,
        })
    }
}

/// The estimated curve.
#[derive(Clone, Debug)]
pub(super) struct Curve {
    chunk: u64,
    min: u64,
    max: u64,
    hit_ratio: f64,
    reachable: f64,
    period: u32,
    /// A chunk is watched when its hash lies below this share of 2^32.
    limit: u64,
    /// Watched chunks, the most recently used last.
    stack: Vec<u32>,
    /// Accesses to watched chunks by stack distance among them.
    distances: Vec<u32>,
    /// All of them, also those that were the first of their chunk.
    total: u64,
    accesses: u32,
}

snapshot_fields!(Curve { stack, distances, total, accesses });

impl Curve {
    #[inline]
    pub(super) fn accessed(&mut self, bytes: &mut u64, chunk: u32) {
        // Fibonacci hashing: neighbours go far apart.
        let hash = chunk.wrapping_mul(0x9E37_79B9);
        if u64::from(hash) < self.limit {
            self.watch(chunk);
        }
        self.accesses += 1;
        if self.accesses == self.period {
            self.accesses = 0;
            self.evaluate(bytes);
        }
    }

    fn watch(&mut self, chunk: u32) {
        self.total += 1;
        match self.stack.iter().rposition(|&other| other == chunk) {
            Some(place) => {
                let distance = self.stack.len() - 1 - place;
                self.stack[place..].rotate_left(1);
                if self.distances.len() <= distance {
                    self.distances.resize(distance + 1, 0);
                }
                self.distances[distance] += 1;
            }
            None => self.stack.push(chunk),
        }
    }

    /// Go to the smallest size that is good enough: up at once, down by a quarter of the way, for
    /// what was thrown out must be read again if the estimate was wrong.
    fn evaluate(&mut self, bytes: &mut u64) {
        let hits: u64 = self.distances.iter().map(|&count| u64::from(count)).sum();
        if hits == 0 {
            return;
        }
        let wanted = (self.hit_ratio * self.total as f64).min(self.reachable * hits as f64);
        let mut sum = 0.0;
        let enough = self.distances.iter().position(|&count| {
            sum += f64::from(count);
            sum >= wanted
        });
        // Nothing watched in between tells of few others, not of as many as are not watched.
        let watched = match enough.unwrap_or(self.distances.len()) as u64 {
            0 => 0,
            distance => distance + 1,
        };
        // One chunk more: the one being loaded.
        let chunks = (watched << 32).div_ceil(self.limit) + 1;
        let target = (chunks * self.chunk).clamp(self.min, self.max);
        *bytes = if target >= *bytes { target } else { *bytes - (*bytes - target).div_ceil(4) };
        self.distances.iter_mut().for_each(|count| *count /= 2);
        self.total /= 2;
    }

    /// Two bytes per watched chunk for its number, and two per counter.
    pub(super) fn ram(&self) -> u64 {
        2 * (self.stack.capacity().max(self.stack.len()) + self.distances.len()) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A loop over `chunks` of 1,000 chunks, then what the window has become, in chunks.
    fn window_after_loop_over(chunks: u32) -> u64 {
        let params = MrcParams { max: 100.0, ..MrcParams::default() };
        let mut curve = params.build(1_000_000, 1000, 1000).unwrap();
        let mut bytes = 10_000;
        (0..200_000).for_each(|i| curve.accessed(&mut bytes, i % chunks));
        bytes / 1000
    }

    #[test]
    fn a_loop_gets_a_window_of_its_length() {
        for length in [50, 200, 700] {
            let window = window_after_loop_over(length);
            let wanted = u64::from(length);
            assert!((wanted * 9 / 10..wanted * 12 / 10).contains(&window), "{length}: {window}");
        }
    }

    #[test]
    fn misses_that_no_window_avoids_do_not_make_it_grow() {
        let mut curve = MrcParams::default().build(1_000_000, 1000, 1_000_000).unwrap();
        let mut bytes = 20_000;
        // Each chunk is used twice in a row, and then never again.
        (0..200_000).for_each(|i| curve.accessed(&mut bytes, i / 2));
        assert!(bytes <= 20_000, "{bytes}");
    }
}
