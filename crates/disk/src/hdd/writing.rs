//! Writes: into the write cache, and to the medium.

use sim::{Nanos, Request};

use super::{Hdd, Waiting};
use crate::geometry::SectorPosition;
use crate::writeback::Dirty;

impl Hdd {
    pub(super) fn write(&mut self, now: Nanos, request: &Request) {
        let (lba, sectors) = (request.lba.0, request.sectors);
        let cached = self.fixed.params.write_cache.enabled
            && !request.fua
            && !self.writes.is_too_large(sectors);
        let at_once = cached && self.stalled.is_empty() && self.writes.has_room(lba, sectors);
        let ready = now + self.overhead(true, at_once);
        self.last_was_write = true;
        self.counts.writes += 1;
        let end = request.end().0;
        // What the stream's segment held before the write is no longer there: were it prolonged, it
        // would seem to be.
        if self.stream.active
            && lba < self.stream.limit
            && end > self.segments.get(self.stream.segment).start
        {
            self.stop_stream(now);
        }
        self.segments.forget(lba, end);
        let place = self.fixed.mechanics.geometry.place(lba);
        let waiting = Waiting { id: request.id.0, lba, sectors, write: true, ready, place };
        if !cached {
            self.serve_or_queue(now, waiting);
        } else if at_once {
            let idle = self.is_idle(now);
            self.admit(&waiting);
            if idle {
                self.start(now);
            }
        } else {
            self.stalled.push_back(waiting);
        }
    }

    /// Take a write into the write cache.
    pub(super) fn admit(&mut self, w: &Waiting) {
        let (started, acknowledged) = self.reserve_interface(w.ready, w.sectors.into());
        let Waiting { id, lba, sectors, place, .. } = *w;
        let dirty = Dirty { id, lba, sectors, started, acknowledged, place, ..Dirty::default() };
        self.writes.insert(dirty);
        self.complete(id, acknowledged + self.fixed.params.overhead.write_completion.0);
    }

    pub(super) fn flush(&mut self, now: Nanos, id: u64) {
        if self.writes.is_clean() {
            self.complete(id, now + self.fixed.params.overhead.command.0);
        } else {
            self.flushes.push_back((id, self.writes.next_sequence()));
        }
    }

    /// Write to the medium for a command; the arm sets out at `from`.
    pub(super) fn serve_write(&mut self, from: Nanos, w: &Waiting) {
        let sectors = u64::from(w.sectors);
        let first = self.interface_ns(1).max(self.lead_ns(&w.place, sectors));
        let end = self.write_medium(from, w.ready + Nanos(first), w.lba, sectors, &w.place, false);
        self.complete(w.id, end + self.fixed.params.overhead.write_completion.0);
    }

    /// How much earlier than the medium the interface must start so that it never runs dry.
    fn lead_ns(&self, place: &SectorPosition, sectors: u64) -> u64 {
        let spt = u64::from(self.fixed.mechanics.geometry.sectors_per_track(place));
        let medium = (sectors - 1) * self.fixed.mechanics.period() / spt;
        self.interface_ns(sectors).saturating_sub(medium)
    }

    /// Write to the medium: the arm sets out at `from`, the data is there at `data`. Returns when
    /// it is done.
    pub(super) fn write_medium(
        &mut self,
        from: Nanos,
        data: Nanos,
        lba: u64,
        sectors: u64,
        place: &SectorPosition,
        destage: bool,
    ) -> Nanos {
        let mechanics = &self.fixed.mechanics;
        let way = mechanics.position(self.arm, from, place, true);
        let early = from + Nanos(way.seek + way.wait);
        let late = data.since(early).0.div_ceil(mechanics.period()) * mechanics.period();
        let start = early + Nanos(late);
        let run = mechanics.transfer(start, lba, sectors, place, true);
        self.arm = mechanics.arm_at(lba + sectors - 1);
        self.busy_until = run.end;
        self.counts.media_writes += 1;
        self.record([from, from + Nanos(way.seek), start, run.end], destage);
        run.end
    }
}
