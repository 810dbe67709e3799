//! Reads: cache hits, the stream the head is on, and the medium.

use sim::Nanos;

use super::{Hdd, Stream, Waiting};
use crate::mechanics::{Arm, Run};
use crate::params::ReadAheadStop;

impl Hdd {
    pub(super) fn read(&mut self, now: Nanos, id: u64, lba: u64, sectors: u32) {
        let end = lba + u64::from(sectors);
        let hit_ready = now + self.overhead(false, true);
        let miss_ready = now + self.overhead(false, false);
        self.last_was_write = false;
        self.counts.reads += 1;
        let reuse = self.fixed.params.cache.read_hits_on_written;
        if reuse && self.writes.holds(lba, end) {
            return self.finish_hit(id, hit_ready, sectors);
        }
        // What lies before the stream's first sector is there once the head has come to that.
        if self.is_in_stream(lba) && hit_ready >= self.stream.start {
            let reached = self.reached(hit_ready);
            self.segments.extend(self.stream.segment, reached);
        }
        let mut first = lba;
        if let Some(index) = self.segments.find(lba) {
            let segment = self.segments.get(index);
            self.segments.touch(index);
            if segment.end >= end {
                self.finish_hit(id, hit_ready, sectors);
                return self.read_on(now, index, lba, end);
            }
            first = segment.end;
        }
        if self.join_stream(id, hit_ready, lba, end) {
            return;
        }
        let place = self.fixed.mechanics.geometry.place(first);
        let sectors = (end - first) as u32;
        let ready = if first > lba { hit_ready } else { miss_ready };
        let waiting = Waiting { id, lba: first, sectors, write: false, ready, place };
        self.serve_or_queue(now, waiting);
    }

    fn finish_hit(&mut self, id: u64, ready: Nanos, sectors: u32) {
        self.counts.read_hits += 1;
        let (_, end) = self.reserve_interface(ready, sectors.into());
        self.complete(id, end + self.fixed.params.overhead.read_completion.0);
    }

    /// After a hit in segment `index` the idle arm may read on behind it.
    fn read_on(&mut self, now: Nanos, index: usize, lba: u64, end: u64) {
        let limit = self.ahead_limit(self.segments.get(index).start, lba, end);
        let here = self.stream.active && self.stream.segment == index;
        // Where a stream stopped depends on its limit, so ask before that is raised.
        if here && self.reached(now) < self.stream.limit {
            self.stream.limit = self.stream.limit.max(limit);
            return;
        }
        let from = self.segments.get(index).end;
        // One that stopped because its segment was full has to come round.
        let goes_on = here || self.fixed.params.cache.read_ahead_on_hit;
        if !goes_on || from >= limit || !self.is_idle(now) {
            return;
        }
        let now = now.max(self.arrives);
        self.stop_stream(now);
        let mechanics = &self.fixed.mechanics;
        let place = mechanics.geometry.place(from);
        let way = mechanics.position(self.arm, now, &place, false);
        let start = now + Nanos(way.seek + way.wait);
        self.arrives = now + Nanos(way.seek);
        self.stream = Stream { active: true, segment: index, lba: from, place, start, limit };
    }

    /// Serve a read by the stream the head is on; false when that is not possible.
    fn join_stream(&mut self, id: u64, ready: Nanos, lba: u64, end: u64) -> bool {
        let stream = self.stream;
        let geometry = &self.fixed.mechanics.geometry;
        if !self.is_in_stream(lba)
            || !self.queue.is_empty()
            || !self.writes.is_clean()
            || end <= stream.lba
            || end > geometry.zone_end(&stream.place)
        {
            return false;
        }
        let reached = self.reached(ready);
        if lba > reached || reached >= stream.limit {
            return false;
        }
        let last = geometry.end_clock(&stream.place, end - 1) - stream.place.clock;
        let off_medium = stream.start + Nanos(last);
        let from = self.segments.get(stream.segment).start;
        self.stream.limit = stream.limit.max(self.ahead_limit(from, lba, end));
        let begin = self.busy_until.max(ready.min(off_medium));
        self.record([begin, begin, begin, off_medium.max(begin)], false);
        self.busy_until = self.busy_until.max(off_medium);
        self.counts.read_hits += 1;
        let all = ready.max(self.interface_free) + Nanos(self.interface_ns(end - lba));
        let done = all.max(off_medium + Nanos(self.interface_ns(1)));
        self.complete(id, done + self.fixed.params.overhead.read_completion.0);
        true
    }

    /// True when sector `lba` is one that the stream's segment holds or will hold. The segment may
    /// begin before the stream: with sectors that passed before the wanted ones, with an earlier
    /// zone's part of the read, or with what the arm reads on behind.
    #[inline]
    fn is_in_stream(&self, lba: u64) -> bool {
        let stream = &self.stream;
        stream.active && (self.segments.get(stream.segment).start..stream.limit).contains(&lba)
    }

    /// First sector the stream has not read by `at`.
    #[inline]
    fn reached(&self, at: Nanos) -> u64 {
        let Stream { place, lba, limit, start, .. } = self.stream;
        self.fixed.mechanics.geometry.reached(&place, lba, at.since(start).0, limit)
    }

    /// Where read-ahead after a read from `lba` to `end` stops, when its segment starts at `from`.
    #[inline]
    fn ahead_limit(&self, from: u64, lba: u64, end: u64) -> u64 {
        let fixed = &*self.fixed;
        let cache = &fixed.params.cache;
        let geometry = &fixed.mechanics.geometry;
        let limit = match cache.read_ahead_stop {
            ReadAheadStop::Segment if cache.read_ahead_over_requested => end + fixed.read_ahead,
            ReadAheadStop::Segment => (end + fixed.read_ahead).min((lba + fixed.segment).max(end)),
            ReadAheadStop::Track if fixed.read_ahead == 0 => end,
            ReadAheadStop::Track => {
                let last = geometry.place(end - 1);
                let spt = u64::from(geometry.sectors_per_track(&last));
                let sector = u64::from(last.sector);
                let crossed = from + sector < end - 1;
                end + spt - sector - 1 + if crossed { spt } else { 0 }
            }
        };
        limit.min(geometry.sectors())
    }

    /// Leave the stream at `at` or when its command is done: its segment and the arm stay there.
    #[inline]
    pub(super) fn stop_stream(&mut self, at: Nanos) {
        if !self.stream.active {
            return;
        }
        let reached = self.reached(at.max(self.busy_until));
        let Stream { segment, lba, place, .. } = self.stream;
        self.segments.extend(segment, reached);
        let last = reached.max(lba + 1) - 1;
        let geometry = &self.fixed.mechanics.geometry;
        let same_track = last - lba < u64::from(geometry.sectors_per_track(&place) - place.sector);
        self.arm = if same_track {
            Arm { cylinder: place.cylinder, head: place.head }
        } else {
            self.fixed.mechanics.arm_at(last)
        };
        self.stream.active = false;
    }

    /// Read from the medium for a command; the arm sets out at `from`.
    #[inline]
    pub(super) fn serve_read(&mut self, from: Nanos, w: &Waiting) {
        let sectors = u64::from(w.sectors);
        let way = self.fixed.mechanics.position(self.arm, from, &w.place, false);
        let start = from + Nanos(way.seek + way.wait);
        let run = self.fixed.mechanics.transfer(start, w.lba, sectors, &w.place, false);
        self.record([from, from + Nanos(way.seek), start, run.end], false);
        self.busy_until = run.end;
        let done = self.read_done(w, start, &run);
        self.complete(w.id, done + self.fixed.params.overhead.read_completion.0);
        let end = w.lba + sectors;
        let Run { lba, place, start, .. } = run;
        if self.segments.is_off() {
            self.arm = self.fixed.mechanics.arm_at(end - 1);
            return;
        }
        let before = if self.fixed.params.cache.read_before {
            let spt = u64::from(self.fixed.mechanics.geometry.sectors_per_track(&w.place));
            let passed = way.wait * spt / self.fixed.mechanics.period();
            passed.min(w.place.sector.into()).min(w.lba).min(self.fixed.segment / 2)
        } else {
            0
        };
        let segment = self.segments.claim(w.lba - before);
        let limit = self.ahead_limit(w.lba - before, w.lba, end);
        self.stream = Stream { active: true, segment, lba, place, start, limit };
    }

    /// When the interface has delivered a read whose first sector began at `start`: each track's
    /// share follows the medium.
    fn read_done(&self, w: &Waiting, start: Nanos, run: &Run) -> Nanos {
        let geometry = &self.fixed.mechanics.geometry;
        let spt = u64::from(geometry.sectors_per_track(&w.place));
        let sector = self.fixed.mechanics.period() / spt;
        let one = self.interface_ns(1);
        let done = run.end + Nanos(one);
        if one <= sector {
            return done;
        }
        // A slow interface: it is late by what remains when a track's first sector arrives.
        let end = w.lba + u64::from(w.sectors);
        let mut done = done.max(start + Nanos(sector + self.interface_ns(w.sectors.into())));
        let mut lba = w.lba + spt - u64::from(w.place.sector);
        while lba < end && w.lba == run.lba {
            let arrived = run.start + Nanos(geometry.end_clock(&run.place, lba) - run.place.clock);
            done = done.max(arrived + Nanos(self.interface_ns(end - lba)));
            lba += spt;
        }
        done
    }
}
