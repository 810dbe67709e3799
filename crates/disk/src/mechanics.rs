//! The arm and the platters: how long until the head can start on a sector.

use sim::{Nanos, snapshot_fields};

use crate::divisor::Divisor;
use crate::geometry::{Geometry, SectorPosition};
use crate::seek::SeekTable;

/// Everything about the mechanism that does not change during a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mechanics {
    /// Where the sectors lie.
    pub geometry: Geometry,
    seek: SeekTable,
    head_switch: u32,
    write_settle: u32,
    period: Divisor,
}

/// Where the arm stands.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Arm {
    /// Cylinder.
    pub cylinder: u32,
    /// Selected head.
    pub head: u32,
}

snapshot_fields!(Arm { cylinder, head });

/// The way to a sector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Positioning {
    /// Seek, head switch and settling, in ns.
    pub seek: u64,
    /// Rotational wait after it, in ns.
    pub wait: u64,
}

impl Mechanics {
    /// Put the parts together. A period is at most 1 s, so it fits 32 bits.
    pub fn new(
        geometry: Geometry,
        seek: SeekTable,
        head_switch: Nanos,
        write_settle: Nanos,
    ) -> Mechanics {
        let period = geometry.period();
        Mechanics {
            geometry,
            seek,
            head_switch: head_switch.0 as u32,
            write_settle: write_settle.0 as u32,
            period,
        }
    }

    /// Time of one rotation in ns.
    #[inline]
    pub fn period(&self) -> u64 {
        self.period.value()
    }

    /// Angle of the platters at `now`, in ns of rotation.
    #[inline]
    pub fn phase(&self, now: Nanos) -> u64 {
        self.period.rest(now.0)
    }

    /// Time in ns until the arm at `arm` has settled over a track.
    #[inline]
    pub fn seek_ns(&self, arm: Arm, cylinder: u32, head: u32, write: bool) -> u32 {
        let seek = self.seek.ns(arm.cylinder.abs_diff(cylinder));
        // As arithmetic: the head is a coin toss to a branch predictor.
        let other_head = u32::from(arm.head != head);
        let moves = other_head | u32::from(arm.cylinder != cylinder);
        seek.max(other_head * self.head_switch) + (moves & u32::from(write)) * self.write_settle
    }

    /// Rotational wait in ns until `angle`, `later` ns after the platters were at `phase`.
    #[inline]
    pub fn wait_ns(&self, phase: u64, later: u64, angle: u32) -> u64 {
        // Enough whole turns to keep the difference positive.
        let turns = self.period.value() << 16;
        let later =
            if later < turns - self.period.value() { later } else { self.period.rest(later) };
        self.period.rest(u64::from(angle) + turns - phase - later)
    }

    /// The way of the arm at `arm` to `place` when it sets out at `from`.
    #[inline]
    pub fn position(
        &self,
        arm: Arm,
        from: Nanos,
        place: &SectorPosition,
        write: bool,
    ) -> Positioning {
        let seek = u64::from(self.seek_ns(arm, place.cylinder, place.head, write));
        let wait = self.wait_ns(self.phase(from), seek, place.angle);
        Positioning { seek, wait }
    }

    /// When a transfer of `sectors` sectors from `lba` ends that starts at `start` with the head
    /// at the beginning of `lba`, which lies at `place`; and the place where its last zone begins
    /// with the moment of that. Zone boundaries cost a seek and a rotational wait.
    #[inline]
    pub fn transfer(
        &self,
        start: Nanos,
        lba: u64,
        sectors: u64,
        place: &SectorPosition,
        write: bool,
    ) -> Run {
        let mut run = Run { lba, place: *place, start, end: start };
        let end = lba + sectors;
        loop {
            let zone_end = self.geometry.zone_end(&run.place);
            let last = end.min(zone_end) - 1;
            run.end =
                run.start + Nanos(self.geometry.end_clock(&run.place, last) - run.place.clock);
            if end <= zone_end {
                return run;
            }
            let arm = self.arm_at(last);
            let place = self.geometry.place(zone_end);
            let way = self.position(arm, run.end, &place, write);
            run = Run {
                lba: zone_end,
                place,
                start: run.end + Nanos(way.seek + way.wait),
                end: run.end,
            };
        }
    }

    /// The arm over sector `lba`.
    pub fn arm_at(&self, lba: u64) -> Arm {
        let place = self.geometry.place(lba);
        Arm { cylinder: place.cylinder, head: place.head }
    }
}

/// A transfer inside one zone: the last piece of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// First sector.
    pub lba: u64,
    /// Where it lies.
    pub place: SectorPosition,
    /// When the head stands at its beginning.
    pub start: Nanos,
    /// When the last sector has passed.
    pub end: Nanos,
}
