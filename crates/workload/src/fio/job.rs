//! One running job.

use sim::{AHEAD, Lba, Nanos, Op, Priority, Request, Rng, SECTOR_BYTES};

use super::gate::{Gate, Instead};
use super::options::{BlockSize, READ, TRIM, WRITE};
use super::pace::Rates;
use super::plan::Resolved;
use super::stride::{Stride, Window};
use crate::distribution::{Distribution, Picker};

const OPS: [Op; 3] = [Op::Read, Op::Write, Op::Discard];

/// What a job answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Poll {
    /// This request, now.
    Issue(Request),
    /// Nothing before this moment.
    At(Nanos),
    /// Nothing before one of its requests completes.
    Blocked,
    /// All is issued and complete.
    Finished,
}

/// Block sizes of one direction, in sectors.
#[derive(Clone, Debug)]
enum Sizes {
    Fixed(u64),
    /// From the first to the second, in multiples of the third.
    Range(u64, u64, u64),
    /// (size, cumulative percent).
    Split(Vec<(u64, f64)>),
}

#[derive(Clone, Debug)]
pub(super) struct Job {
    plan: Resolved,
    // Hot: read for every request.
    in_flight: u64,
    depth: u64,
    issued_sectors: u64,
    issued: u64,
    number_ios: u64,
    stop_at: Nanos,
    /// A trim is in flight that the engine waits for.
    trimming: bool,
    /// The job waits for its writes.
    waits: bool,
    priority: Priority,
    rates: Option<Rates>,
    gate: Option<Gate>,
    /// Where its requests lie, and which zone comes next.
    window: Window,
    stride: Option<Stride>,
    sizes: [Sizes; 3],
    align: [u64; 3],
    pickers: Vec<Picker>,
    picker_of: [usize; 3],
    /// The alignment of requests of which each goes to the next draw of `places`.
    drawn_align: Option<u64>,
    places: Rng,
    mix: Rng,
    lengths: Rng,
    wrote: bool,
    /// Start and end of the last request of each direction, in sectors of the region.
    last: [Option<(u64, u64)>; 3],
    until_fresh: u64,
    trimmed: bool,
    start: Nanos,
    /// Drawn, but still waiting for its turn at the rate.
    direction: Option<usize>,
    /// What is left of the wait for its rate when its queue has drained.
    drains: Option<Nanos>,
    sleeps_until: Nanos,
    flushed_at_end: bool,
}

impl Job {
    pub(super) fn new(plan: &Resolved) -> Job {
        let o = &plan.options;
        let sizes = [READ, WRITE, TRIM].map(|d| sizes(&o.bs[d], o.bs_unaligned));
        let align = [READ, WRITE, TRIM].map(|d| o.ba[d].unwrap_or(o.bs[d].min()) / SECTOR_BYTES);
        let whole = Window { first: 0, sectors: plan.sectors };
        let (stride, window) = Stride::new(o, plan.sectors)
            .map_or((None, whole), |(stride, zone)| (Some(stride), zone));
        let (pickers, picker_of) = pickers(plan, window.sectors, &align);
        let mut used = [READ, WRITE, TRIM].into_iter().filter(|&d| o.rw.does[d]);
        let drawn = o.rw.random && o.rw.every == 1 && !o.rw.trim_write();
        let drawn = drawn && stride.is_none();
        let drawn = drawn && used.clone().all(|d| o.percentage_random[d] == 100);
        let drawn_align = used.next().filter(|_| drawn).map(|d| align[d]);
        let sides = 1 + u64::from(o.rw.trim_write());
        let number_ios = match o.number_ios {
            0 => u64::MAX,
            _ if o.time_based => u64::MAX,
            n => n.saturating_mul(sides).saturating_mul(o.loops),
        };
        Job {
            in_flight: 0,
            depth: o.iodepth,
            issued_sectors: 0,
            issued: 0,
            number_ios,
            stop_at: Nanos::MAX,
            trimming: false,
            waits: o.direct || o.fua,
            priority: o.priority(),
            rates: Rates::new(plan),
            gate: Gate::new(o),
            window,
            stride,
            sizes,
            align,
            pickers,
            picker_of,
            drawn_align,
            places: plan.rng.split("places"),
            mix: plan.rng.split("mix"),
            lengths: plan.rng.split("lengths"),
            wrote: false,
            last: [None; 3],
            until_fresh: 1,
            trimmed: false,
            start: Nanos::ZERO,
            direction: None,
            drains: None,
            sleeps_until: Nanos::ZERO,
            flushed_at_end: false,
            plan: plan.clone(),
        }
    }

    pub(super) fn group(&self) -> u32 {
        self.plan.group
    }

    pub(super) fn name(&self) -> &str {
        &self.plan.name
    }

    /// What it was behind its rate, where that is worth a word.
    pub(super) fn behind(&self) -> Option<Nanos> {
        self.rates.as_ref()?.fell_behind()
    }

    /// When its clock started.
    pub(super) fn start(&self) -> Nanos {
        self.start
    }

    /// Start the job's clock in a run that began at `began`; returns when it wants to be asked
    /// first.
    pub(super) fn begin(&mut self, now: Nanos, began: Nanos) -> Nanos {
        let o = &self.plan.options;
        self.start = now.max(began.saturating_add(o.startdelay));
        if let Some(rates) = &mut self.rates {
            rates.begin(self.start);
        }
        if o.runtime > Nanos::ZERO {
            self.stop_at = self.start.saturating_add(o.ramp_time).saturating_add(o.runtime);
        }
        self.start
    }

    #[inline]
    pub(super) fn complete(&mut self, op: Op) {
        self.in_flight -= 1;
        if op == Op::Discard {
            self.trimming = false;
        }
        if let Some(gate) = &mut self.gate {
            if op == Op::Flush { gate.flushed() } else { gate.complete() }
        }
    }

    #[inline]
    pub(super) fn poll(&mut self, now: Nanos) -> Poll {
        if self.in_flight >= self.depth || self.trimming {
            return Poll::Blocked;
        }
        if self.issued_sectors >= self.plan.total
            || self.issued >= self.number_ios
            || now >= self.stop_at
        {
            return self.finish();
        }
        if self.gate.is_some()
            && let Some(answer) = self.instead(now)
        {
            return answer;
        }
        let direction = if self.rates.is_some() {
            match self.paced_direction(now) {
                Ok(direction) => direction,
                Err(answer) => return answer,
            }
        } else {
            self.next_direction()
        };
        let (start, length) = self.range(direction);
        self.last[direction] = Some((start, start + length));
        self.wrote |= direction == WRITE;
        self.in_flight += 1;
        self.issued += 1;
        self.issued_sectors += length;
        if let Some(rates) = &mut self.rates {
            rates.book(now, direction, length);
        }
        self.trimming = direction == TRIM && self.plan.options.trims_wait;
        if let Some(gate) = &mut self.gate {
            gate.issue(direction, self.trimming);
        }
        let lba = Lba(self.plan.first + start);
        let mut request = Request::new(OPS[direction], lba, length as u32);
        request.process = self.plan.process;
        request.stream = (self.plan.process - 1) as u16;
        request.fua = self.plan.options.fua && direction == WRITE;
        request.sync = self.waits && direction == WRITE;
        request.priority = self.priority;
        Poll::Issue(request)
    }

    fn flush(&mut self) -> Poll {
        self.in_flight += 1;
        let mut request = Request::flush();
        request.process = self.plan.process;
        request.priority = self.priority;
        Poll::Issue(request)
    }

    fn finish(&mut self) -> Poll {
        if self.in_flight > 0 {
            return Poll::Blocked;
        }
        if self.plan.options.end_fsync && !self.flushed_at_end && self.wrote {
            self.flushed_at_end = true;
            return self.flush();
        }
        Poll::Finished
    }

    /// Flushes and pauses: `None` when the next request may go.
    fn instead(&mut self, now: Nanos) -> Option<Poll> {
        let answer = self.gate.as_mut()?.next(now, self.in_flight)?;
        Some(match answer {
            Instead::Drain => Poll::Blocked,
            Instead::Flush => self.flush(),
            Instead::Pause { until, begins } => {
                let o = &self.plan.options;
                if let Some(rates) = &mut self.rates
                    && begins
                    && o.rate_ignore_thinktime
                {
                    rates.stall(o.thinktime);
                }
                Poll::At(until.min(self.stop_at))
            }
        })
    }

    #[inline]
    fn next_direction(&mut self) -> usize {
        let rw = &self.plan.options.rw;
        match rw.does {
            [true, false, false] => READ,
            [false, true, false] => WRITE,
            [false, false, true] => TRIM,
            [true, ..] => usize::from(self.mix.below(100) >= self.plan.options.rwmixread) * WRITE,
            _ => {
                self.trimmed = !self.trimmed;
                if self.trimmed { TRIM } else { WRITE }
            }
        }
    }

    /// The direction whose turn it is at its rate, or what comes before one has its turn. A job of
    /// a file that is ahead of its rate waits for what it has in flight and sleeps then as long as
    /// was left before, as fio does.
    fn paced_direction(&mut self, now: Nanos) -> Result<usize, Poll> {
        if let Some(left) = self.drains {
            if self.in_flight > 0 {
                return Err(Poll::Blocked);
            }
            (self.drains, self.sleeps_until) = (None, now.saturating_add(left));
        }
        let due = if now < self.sleeps_until {
            self.sleeps_until
        } else {
            let direction = self.earlier_direction(now);
            let due = self.due(direction);
            if due <= now {
                self.direction = None;
                return Ok(direction);
            }
            self.direction = Some(direction);
            due
        };
        if let Some(gate) = &mut self.gate {
            gate.drained();
        }
        if self.plan.options.inline && self.in_flight > 0 {
            self.drains = Some(due.since(now));
            return Err(Poll::Blocked);
        }
        Err(Poll::At(due.min(self.stop_at)))
    }

    /// The direction drawn, or the other if that is behind its rate: as in fio, it goes first.
    fn earlier_direction(&mut self, now: Nanos) -> usize {
        let direction = match self.direction {
            Some(direction) => direction,
            None => self.next_direction(),
        };
        let other = READ + WRITE - direction.min(WRITE);
        let does = &self.plan.options.rw.does;
        let mixes = does[READ] && does[WRITE] && self.share(other) > 0;
        let (due, other_due) = (self.due(direction), self.due(other));
        if due > now && mixes && other_due < due { other } else { direction }
    }

    fn due(&self, direction: usize) -> Nanos {
        self.rates.as_ref().map_or(Nanos::ZERO, |rates| rates.due(direction))
    }

    fn share(&self, direction: usize) -> u64 {
        let reads = self.plan.options.rwmixread;
        if direction == READ { reads } else { 100 - reads }
    }

    /// Where the request goes that comes [`AHEAD`] requests after the latest, if that is known.
    #[inline]
    pub(super) fn ahead(&self) -> Option<Lba> {
        let [picker] = &self.pickers[..] else { return None };
        let block = picker.ahead(&self.places, AHEAD as u64 - 1)?;
        Some(Lba(self.plan.first + block * self.drawn_align?))
    }

    /// Start and length of the next request, in sectors of the region.
    #[inline]
    fn range(&mut self, direction: usize) -> (u64, u64) {
        let o = &self.plan.options;
        if o.rw.trim_write()
            && direction == WRITE
            && let Some((start, end)) = self.last[TRIM]
        {
            return (start, end - start);
        }
        if self.stride.is_some() {
            self.turn();
        }
        let start = if self.plan.options.rw.random {
            self.random_start(direction)
        } else {
            self.sequential_start(direction).unwrap_or(self.window.first)
        };
        let length = self.length(direction, self.window.end() - start);
        if let Some(stride) = &mut self.stride {
            stride.book(length);
        }
        (start, length)
    }

    /// Go on in the next zone, when all is done in this one.
    fn turn(&mut self) {
        let next = self.stride.as_mut().and_then(|stride| stride.turn(self.window));
        if let Some(zone) = next {
            self.window = zone;
            self.last = [None; 3];
            self.until_fresh = 1;
            self.pickers.iter_mut().for_each(Picker::restart);
        }
    }

    #[inline]
    fn random_start(&mut self, direction: usize) -> u64 {
        let o = &self.plan.options;
        self.until_fresh -= 1;
        let fresh = self.until_fresh == 0;
        if fresh {
            self.until_fresh = o.rw.every;
        }
        let random = o.percentage_random[direction];
        if fresh && (random == 100 || self.places.below(100) < random) {
            return self.fresh_start(direction);
        }
        if !fresh && o.identical {
            return self.last[direction].map_or(self.window.first, |(start, _)| start);
        }
        self.sequential_start(direction).unwrap_or_else(|| self.fresh_start(direction))
    }

    #[inline]
    fn fresh_start(&mut self, direction: usize) -> u64 {
        let picker = &mut self.pickers[self.picker_of[direction]];
        self.window.first + picker.draw(&mut self.places) * self.align[direction]
    }

    /// Behind the last request; `None` at the end of the region.
    fn sequential_start(&self, direction: usize) -> Option<u64> {
        let (window, skip) = (self.window, self.plan.options.rw.skip / SECTOR_BYTES as i64);
        let min = self.sizes[direction].min();
        let fits = |start: u64| {
            (start >= window.first && start.checked_add(min)? <= window.end()).then_some(start)
        };
        let from_top = || fits(window.end().checked_add_signed(skip)?);
        match self.last[direction] {
            None if skip < 0 => from_top(),
            None => Some(window.first),
            Some((_, end)) if skip < 0 => {
                end.checked_add_signed(skip).and_then(fits).or_else(from_top)
            }
            Some((_, end)) => fits(end.checked_add_signed(skip)?),
        }
    }

    /// A block size that fits into `room` sectors, which hold at least the smallest one.
    #[inline]
    fn length(&mut self, direction: usize, room: u64) -> u64 {
        let drawn = match &self.sizes[direction] {
            Sizes::Fixed(size) => return *size,
            Sizes::Range(low, high, step) => {
                let size = low + self.lengths.below(*high);
                (size / step * step).min(*high)
            }
            Sizes::Split(sizes) => {
                let u = self.lengths.unit() * 100.0;
                sizes.iter().find(|s| u < s.1).or(sizes.last()).map_or(1, |s| s.0)
            }
        };
        if drawn <= room { drawn } else { self.sizes[direction].min() }
    }
}

impl Sizes {
    fn min(&self) -> u64 {
        match self {
            Sizes::Fixed(size) | Sizes::Range(size, ..) => *size,
            Sizes::Split(sizes) => sizes.iter().map(|s| s.0).min().unwrap_or(1),
        }
    }
}

fn sizes(size: &BlockSize, unaligned: bool) -> Sizes {
    match size {
        BlockSize::Fixed(size) => Sizes::Fixed(size / SECTOR_BYTES),
        BlockSize::Range(low, high) => {
            let (low, high) = (low / SECTOR_BYTES, high / SECTOR_BYTES);
            Sizes::Range(low, high, if unaligned { 1 } else { low.max(1) })
        }
        BlockSize::Split(sizes) => {
            let mut sum = 0.0;
            let cumulative = |&(size, percent): &(u64, f64)| {
                sum += percent;
                (size / SECTOR_BYTES, sum)
            };
            Sizes::Split(sizes.iter().map(cumulative).collect())
        }
    }
}

/// The pickers of so many sectors, shared by directions that count the same blocks.
fn pickers(plan: &Resolved, sectors: u64, align: &[u64; 3]) -> (Vec<Picker>, [usize; 3]) {
    let o = &plan.options;
    let mut blocks_of: Vec<u64> = Vec::new();
    let mut pickers = Vec::new();
    let mut picker_of = [0; 3];
    for direction in [READ, WRITE, TRIM].into_iter().filter(|&d| o.rw.random && o.rw.does[d]) {
        let (min, align) = (o.bs[direction].min() / SECTOR_BYTES, align[direction]);
        let blocks = sectors.saturating_sub(min.saturating_sub(align)) / align;
        let known = blocks_of.iter().position(|&b| b == blocks);
        picker_of[direction] = known.unwrap_or_else(|| {
            let law = relative(&o.distribution, o.zoned_abs, sectors);
            // The same key for all, so that hot blocks coincide.
            let mut rng = plan.rng.split("hot");
            blocks_of.push(blocks);
            pickers.push(Picker::new(&law, blocks.max(1), plan.random_map, &mut rng));
            pickers.len() - 1
        });
    }
    (pickers, picker_of)
}

/// Absolute zones as shares of the region.
fn relative(law: &Distribution, absolute: bool, sectors: u64) -> Distribution {
    match law {
        Distribution::Zoned(zones) if absolute => {
            let percent = 100.0 / (sectors * SECTOR_BYTES) as f64;
            Distribution::Zoned(zones.iter().map(|z| (z.0, z.1 * percent)).collect())
        }
        law => law.clone(),
    }
}
