//! One running job.

use sim::{AHEAD, Lba, Nanos, Op, Priority, Request, Rng, SECTOR_BYTES};

use super::options::{BlockSize, READ, TRIM, WRITE};
use super::plan::Resolved;
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

/// When the next request of one direction may start.
#[derive(Clone, Copy, Debug)]
enum Pace {
    Free,
    /// Bytes per second, measured from the start.
    Linear(u64),
    /// Mean gap in nanoseconds.
    Poisson(f64),
}

/// Why a job waits although it may have requests in flight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hold {
    None,
    /// For its queue to drain, then a flush.
    Flush,
    /// For that flush.
    Flushing,
    /// For its queue to drain, then a pause.
    Think,
    /// For the end of the pause.
    Until(Nanos),
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
    /// The job waits for its writes.
    waits: bool,
    priority: Priority,
    paced: bool,
    gated: bool,
    sizes: [Sizes; 3],
    align: [u64; 3],
    pickers: Vec<Picker>,
    picker_of: [usize; 3],
    /// The alignment of requests of which each goes to the next draw of `places`.
    drawn_align: Option<u64>,
    places: Rng,
    mix: Rng,
    lengths: Rng,
    gaps: [Rng; 3],
    /// Start and end of the last request of each direction, in sectors of the region.
    last: [Option<(u64, u64)>; 3],
    until_fresh: u64,
    trimmed: bool,
    start: Nanos,
    /// Drawn, but still waiting for its turn at the rate.
    direction: Option<usize>,
    pace: [Pace; 3],
    due: [Nanos; 3],
    issued_by: [u64; 3],
    stalled: Nanos,
    hold: Hold,
    writes_since_flush: u64,
    counted: u64,
    flushed_at_end: bool,
}

impl Job {
    pub(super) fn new(plan: &Resolved) -> Job {
        let o = &plan.options;
        let sizes = [READ, WRITE, TRIM].map(|d| sizes(&o.bs[d], o.bs_unaligned));
        let align = [READ, WRITE, TRIM].map(|d| o.ba[d].unwrap_or(o.bs[d].min()) / SECTOR_BYTES);
        let (pickers, picker_of) = pickers(plan, &align);
        let mut used = [READ, WRITE, TRIM].into_iter().filter(|&d| o.rw.does[d]);
        let drawn = o.rw.random && o.rw.every == 1 && !o.rw.trim_write();
        let drawn = drawn && used.clone().all(|d| o.percentage_random[d] == 100);
        let drawn_align = used.next().filter(|_| drawn).map(|d| align[d]);
        let sides = 1 + u64::from(o.rw.trim_write());
        let number_ios = match o.number_ios {
            0 => u64::MAX,
            n => n.saturating_mul(sides),
        };
        let pace = [READ, WRITE, TRIM].map(|d| pace(plan, d));
        Job {
            in_flight: 0,
            depth: o.iodepth,
            issued_sectors: 0,
            issued: 0,
            number_ios,
            stop_at: Nanos::MAX,
            waits: o.direct || o.fua,
            priority: o.priority(),
            paced: pace.iter().any(|p| !matches!(p, Pace::Free)),
            gated: o.fsync > 0 || o.thinktime > Nanos::ZERO,
            sizes,
            align,
            pickers,
            picker_of,
            drawn_align,
            places: plan.rng.split("places"),
            mix: plan.rng.split("mix"),
            lengths: plan.rng.split("lengths"),
            gaps: ["read", "write", "trim"].map(|name| plan.rng.split("gaps").split(name)),
            last: [None; 3],
            until_fresh: 1,
            trimmed: false,
            start: Nanos::ZERO,
            direction: None,
            pace,
            due: [Nanos::ZERO; 3],
            issued_by: [0; 3],
            stalled: Nanos::ZERO,
            hold: Hold::None,
            writes_since_flush: 0,
            counted: 0,
            flushed_at_end: false,
            plan: plan.clone(),
        }
    }

    pub(super) fn group(&self) -> u32 {
        self.plan.group
    }

    /// When its clock started.
    pub(super) fn start(&self) -> Nanos {
        self.start
    }

    /// Start the job's clock; returns when it wants to be asked first.
    pub(super) fn begin(&mut self, now: Nanos) -> Nanos {
        let o = &self.plan.options;
        self.start = now.saturating_add(o.startdelay);
        self.due = [self.start; 3];
        if o.runtime > Nanos::ZERO {
            self.stop_at = self.start.saturating_add(o.ramp_time).saturating_add(o.runtime);
        }
        self.start
    }

    #[inline]
    pub(super) fn complete(&mut self, op: Op) {
        self.in_flight -= 1;
        let counts = !self.plan.options.thinktime_at_issue && op != Op::Flush;
        self.counted += u64::from(counts);
    }

    #[inline]
    pub(super) fn poll(&mut self, now: Nanos) -> Poll {
        if self.in_flight >= self.depth {
            return Poll::Blocked;
        }
        if self.issued_sectors >= self.plan.total
            || self.issued >= self.number_ios
            || now >= self.stop_at
        {
            return self.finish();
        }
        if self.gated
            && let Some(answer) = self.gate(now)
        {
            return answer;
        }
        let direction = if self.paced {
            match self.paced_direction(now) {
                Ok(direction) => direction,
                Err(due) => return Poll::At(due.min(self.stop_at)),
            }
        } else {
            self.next_direction()
        };
        let (start, length) = self.range(direction);
        self.last[direction] = Some((start, start + length));
        self.in_flight += 1;
        self.issued += 1;
        self.issued_sectors += length;
        if self.paced {
            self.book_pace(direction, length);
        }
        if self.gated {
            self.book_gate(direction);
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
        if self.plan.options.end_fsync && !self.flushed_at_end && self.last[WRITE].is_some() {
            self.flushed_at_end = true;
            return self.flush();
        }
        Poll::Finished
    }

    /// Flushes and pauses: `None` when the next request may go.
    fn gate(&mut self, now: Nanos) -> Option<Poll> {
        let o = &self.plan.options;
        if self.hold == Hold::None
            && o.thinktime > Nanos::ZERO
            && self.counted >= o.thinktime_blocks
        {
            self.hold = Hold::Think;
        }
        match self.hold {
            Hold::None => None,
            Hold::Until(end) if now < end => Some(Poll::At(end.min(self.stop_at))),
            Hold::Flush | Hold::Flushing | Hold::Think if self.in_flight > 0 => Some(Poll::Blocked),
            Hold::Flush => {
                self.hold = Hold::Flushing;
                Some(self.flush())
            }
            Hold::Think => {
                let end = now.saturating_add(o.thinktime);
                if o.rate_ignore_thinktime {
                    self.stalled = self.stalled.saturating_add(o.thinktime);
                    self.due = self.due.map(|due| due.saturating_add(o.thinktime));
                }
                self.counted = 0;
                self.hold = Hold::Until(end);
                Some(Poll::At(end.min(self.stop_at)))
            }
            Hold::Flushing | Hold::Until(_) => {
                self.hold = Hold::None;
                None
            }
        }
    }

    fn book_gate(&mut self, direction: usize) {
        let o = &self.plan.options;
        self.counted += u64::from(o.thinktime_at_issue);
        if direction == WRITE && o.fsync > 0 {
            self.writes_since_flush += 1;
            if self.writes_since_flush == o.fsync {
                self.writes_since_flush = 0;
                self.hold = Hold::Flush;
            }
        }
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

    /// The direction whose turn it is at its rate, or when one will be.
    fn paced_direction(&mut self, now: Nanos) -> Result<usize, Nanos> {
        let mut direction = match self.direction {
            Some(direction) => direction,
            None => self.next_direction(),
        };
        if self.due[direction] > now {
            let other = READ + WRITE - direction.min(WRITE);
            let mixes = self.plan.options.rw.does[READ] && self.plan.options.rw.does[WRITE];
            // As in fio, the direction that is behind its rate goes first.
            if mixes && self.due[other] < self.due[direction] && self.share(other) > 0 {
                direction = other;
            }
        }
        if self.due[direction] > now {
            self.direction = Some(direction);
            return Err(self.due[direction]);
        }
        self.direction = None;
        Ok(direction)
    }

    fn share(&self, direction: usize) -> u64 {
        let reads = self.plan.options.rwmixread;
        if direction == READ { reads } else { 100 - reads }
    }

    fn book_pace(&mut self, direction: usize, sectors: u64) {
        self.issued_by[direction] += sectors * SECTOR_BYTES;
        self.due[direction] = match self.pace[direction] {
            Pace::Free => self.due[direction],
            Pace::Linear(rate) => {
                let span = u128::from(self.issued_by[direction]) * 1_000_000_000 / u128::from(rate);
                let span = Nanos(span.min(u128::from(u64::MAX)) as u64);
                self.start.saturating_add(self.stalled).saturating_add(span)
            }
            Pace::Poisson(mean) => {
                let gap = -libm::log(1.0 - self.gaps[direction].unit()) * mean;
                self.due[direction].saturating_add(Nanos(gap as u64))
            }
        };
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
        let start = if o.rw.random {
            self.random_start(direction)
        } else {
            self.sequential_start(direction).unwrap_or(0)
        };
        let length = self.length(direction, self.plan.sectors - start);
        (start, length)
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
            return self.last[direction].map_or(0, |(start, _)| start);
        }
        self.sequential_start(direction).unwrap_or_else(|| self.fresh_start(direction))
    }

    #[inline]
    fn fresh_start(&mut self, direction: usize) -> u64 {
        let picker = &mut self.pickers[self.picker_of[direction]];
        picker.draw(&mut self.places) * self.align[direction]
    }

    /// Behind the last request; `None` at the end of the region.
    fn sequential_start(&self, direction: usize) -> Option<u64> {
        let (region, skip) = (self.plan.sectors, self.plan.options.rw.skip / SECTOR_BYTES as i64);
        let min = self.sizes[direction].min();
        let fits = |start: u64| (start.checked_add(min)? <= region).then_some(start);
        let from_top = || fits(region.checked_add_signed(skip)?);
        match self.last[direction] {
            None if skip < 0 => from_top(),
            None => Some(0),
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

/// The pickers, shared by directions that count the same blocks.
fn pickers(plan: &Resolved, align: &[u64; 3]) -> (Vec<Picker>, [usize; 3]) {
    let o = &plan.options;
    let mut blocks_of: Vec<u64> = Vec::new();
    let mut pickers = Vec::new();
    let mut picker_of = [0; 3];
    for direction in [READ, WRITE, TRIM].into_iter().filter(|&d| o.rw.random && o.rw.does[d]) {
        let (min, align) = (o.bs[direction].min() / SECTOR_BYTES, align[direction]);
        let blocks = plan.sectors.saturating_sub(min.saturating_sub(align)) / align;
        let known = blocks_of.iter().position(|&b| b == blocks);
        picker_of[direction] = known.unwrap_or_else(|| {
            let law = relative(&o.distribution, o.zoned_abs, plan.sectors);
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

fn pace(plan: &Resolved, direction: usize) -> Pace {
    let o = &plan.options;
    let block = o.bs[direction].min();
    let rate = match (o.rate[direction], o.rate_iops[direction]) {
        (0, 0) => return Pace::Free,
        (0, iops) => iops.saturating_mul(block),
        (rate, _) => rate,
    };
    if o.poisson { Pace::Poisson(1e9 * block as f64 / rate as f64) } else { Pace::Linear(rate) }
}
