//! Where every sector lies: zones, tracks, skew, and the time coordinate that follows from them.
//!
//! Inside a zone every sector has a *position* `u`: the number of sector times that pass on its
//! track layout between the zone's first sector and it, counting the skew gaps at each track and
//! cylinder boundary. `clock(u) = floor(u * T / sectors_per_track)` then gives two things exactly:
//! its angle, `(origin + clock(u)) mod T`, and the time a transfer needs from one sector to
//! another, `clock(b) - clock(a)`. Both come from the same integer, so a transfer that continues
//! where the last one ended never misses its sector by a rounding error.

use config::ConfigError;
use sim::Nanos;

use crate::divisor::Divisor;

/// A zone as configured; see [`crate::params::ZoneParams`] for the meaning of each field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ZoneLayout {
    /// First cylinder.
    pub first_cylinder: u32,
    /// Number of cylinders.
    pub cylinders: u32,
    /// Sectors per track.
    pub sectors_per_track: u32,
    /// Sector times between the last sector of a track and the first of the next, same cylinder.
    pub track_skew: u32,
    /// The same from the last track of a cylinder to the first of the next.
    pub cylinder_skew: u32,
    /// Sectors at the zone's front that hold no data.
    pub reserved: u64,
    /// Cylinders per band: the unit spares are reserved in.
    pub band_cylinders: u32,
    /// Spare sectors at the end of each band.
    pub band_spares: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Zone {
    layout: ZoneLayout,
    first_lba: u64,
    end_lba: u64,
    /// Sectors that hold data in one band.
    band_sectors: u64,
    /// Gaps in sector times: the skew, plus whole revolutions where the switch takes longer.
    track_gap: u64,
    cylinder_gap: u64,
    /// Angle of position 0, in ns of rotation.
    origin: u64,
    spt: Divisor,
    band: Divisor,
}

/// Where a sector lies.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SectorPosition {
    /// Number of the zone.
    pub zone: u32,
    /// Cylinder, 0 is the outermost.
    pub cylinder: u32,
    /// Surface.
    pub head: u32,
    /// Sector within the track, from the track's first one.
    pub sector: u32,
    /// Angle of its beginning, in ns of rotation since angle 0.
    pub angle: u32,
    /// Time coordinate of its beginning within the zone, in ns.
    pub clock: u64,
}

/// The layout of a whole disk.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Geometry {
    zones: Vec<Zone>,
    /// First zone to look at for each `lba >> hint_shift`.
    hints: Vec<u32>,
    hint_shift: u32,
    heads: Divisor,
    period: Divisor,
    sectors: u64,
    cylinders: u32,
}

/// Ranges of sectors that know where the search for their zone begins.
const HINTS: u32 = 8;

impl Geometry {
    /// Lay out `sectors` sectors over these zones, or as many as fit when `None`.
    ///
    /// # Errors
    /// When the zones cannot hold that many sectors, overlap, or a zone holds nothing.
    pub fn new(
        heads: u32,
        period: Nanos,
        switches: Switches,
        zones: &[ZoneLayout],
        sectors: Option<u64>,
    ) -> Result<Geometry, ConfigError> {
        let mut geometry = Geometry {
            zones: Vec::new(),
            hints: vec![0],
            hint_shift: 63,
            heads: Divisor::new(heads.into()),
            period: Divisor::new(period.0),
            sectors: 0,
            cylinders: 0,
        };
        for (index, layout) in zones.iter().enumerate() {
            geometry
                .add(*layout, switches)
                .map_err(|message| ConfigError::new(format!("geometry.zone[{index}]"), message))?;
        }
        if let Some(wanted) = sectors {
            geometry.truncate(wanted)?;
        }
        geometry.hint_shift = (64 - geometry.sectors.leading_zeros()).saturating_sub(HINTS);
        geometry.hints = (0..=geometry.sectors >> geometry.hint_shift)
            .map(|n| {
                let before = |zone: &Zone| zone.end_lba <= n << geometry.hint_shift;
                geometry.zones.partition_point(before) as u32
            })
            .collect();
        Ok(geometry)
    }

    fn add(&mut self, layout: ZoneLayout, switches: Switches) -> Result<(), String> {
        if layout.first_cylinder < self.cylinders {
            return Err(format!(
                "first_cylinder = {} lies inside the zone before it; expected {} or more",
                layout.first_cylinder, self.cylinders
            ));
        }
        let spt = u64::from(layout.sectors_per_track);
        let period = self.period.value();
        let per_cylinder = spt * self.heads.value();
        let band = per_cylinder * u64::from(layout.band_cylinders);
        if layout.band_spares >= band {
            return Err(format!("{} spares leave nothing of {band} sectors", layout.band_spares));
        }
        let physical = per_cylinder * u64::from(layout.cylinders);
        if layout.reserved >= physical {
            return Err(format!("reserved = {} leaves nothing of {physical}", layout.reserved));
        }
        let usable = physical - layout.reserved;
        let band_sectors = band - layout.band_spares;
        let rest = (usable % band).min(band_sectors);
        let gap = |skew: u32, switch: Nanos| {
            let skew_ns = u64::from(skew) * period / spt;
            let late = switch.0.saturating_sub(skew_ns);
            u64::from(skew) + late.div_ceil(period) * spt
        };
        let (track_gap, cylinder_gap) =
            (gap(layout.track_skew, switches.track), gap(layout.cylinder_skew, switches.cylinder));
        let mut zone = Zone {
            layout,
            first_lba: self.sectors,
            end_lba: self.sectors + usable / band * band_sectors + rest,
            band_sectors,
            track_gap,
            cylinder_gap,
            origin: 0,
            spt: Divisor::new(spt),
            band: Divisor::new(band_sectors),
        };
        // The first track continues the skew of the zone before it.
        if self.sectors > 0 {
            let last = self.place(self.sectors - 1);
            let before = &self.zones[last.zone as usize];
            let end = u64::from(last.angle) + period / before.spt.value();
            let skew = u64::from(layout.cylinder_skew) * period / spt;
            let first = self.clock(&zone, layout.reserved) % period;
            zone.origin = (end + skew + period - first) % period;
        }
        self.sectors = zone.end_lba;
        self.cylinders = layout.first_cylinder + layout.cylinders;
        self.zones.push(zone);
        Ok(())
    }

    fn truncate(&mut self, wanted: u64) -> Result<(), ConfigError> {
        if wanted == 0 || wanted > self.sectors {
            return Err(ConfigError::new(
                "geometry.sectors",
                format!(
                    "expected 1 to {} (what {} zones on {} surfaces hold), got {wanted}",
                    self.sectors,
                    self.zones.len(),
                    self.heads.value()
                ),
            ));
        }
        while self.zones.last().is_some_and(|zone| zone.first_lba >= wanted) {
            self.zones.pop();
        }
        if let Some(last) = self.zones.last_mut() {
            last.end_lba = wanted;
        }
        self.sectors = wanted;
        Ok(())
    }

    /// Size in sectors.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Cylinders spanned, gaps between zones included.
    pub fn cylinders(&self) -> u32 {
        self.cylinders
    }

    /// Time of one rotation, in ns.
    pub fn period(&self) -> Divisor {
        self.period
    }

    /// First sector past the zone of `place`.
    pub fn zone_end(&self, place: &SectorPosition) -> u64 {
        self.zones[place.zone as usize].end_lba
    }

    /// Sectors per track where `place` lies.
    pub fn sectors_per_track(&self, place: &SectorPosition) -> u32 {
        self.zones[place.zone as usize].layout.sectors_per_track
    }

    /// Where sector `lba` lies.
    ///
    /// # Panics
    /// When the disk has no such sector.
    #[inline]
    pub fn place(&self, lba: u64) -> SectorPosition {
        debug_assert!(lba < self.sectors, "sector {lba} of {}", self.sectors);
        let mut index = self.hints[(lba >> self.hint_shift) as usize] as usize;
        while self.zones[index].end_lba <= lba {
            index += 1;
        }
        let zone = &self.zones[index];
        let physical = zone.physical(lba);
        let (track, sector) = zone.spt.divide(physical);
        let (cylinder, head) = self.heads.divide(track);
        let clock = self.time(zone, zone.position(physical, track, cylinder));
        SectorPosition {
            zone: index as u32,
            cylinder: zone.layout.first_cylinder + cylinder as u32,
            head: head as u32,
            sector: sector as u32,
            angle: self.period.rest(zone.origin + clock) as u32,
            clock,
        }
    }

    /// `floor(u T / spt)`.
    #[inline]
    fn time(&self, zone: &Zone, position: u64) -> u64 {
        zone.spt.quotient(position * self.period.value())
    }

    #[inline]
    fn position(&self, zone: &Zone, physical: u64) -> u64 {
        let track = zone.spt.quotient(physical);
        zone.position(physical, track, self.heads.quotient(track))
    }

    fn clock(&self, zone: &Zone, physical: u64) -> u64 {
        self.time(zone, self.position(zone, physical))
    }

    /// Time coordinate of the end of sector `lba` in the zone of `place`, which holds it.
    #[inline]
    pub fn end_clock(&self, place: &SectorPosition, lba: u64) -> u64 {
        let zone = &self.zones[place.zone as usize];
        self.time(zone, self.position(zone, zone.physical(lba)) + 1)
    }

    /// The first sector at or after `lba` that has not fully passed `elapsed` ns after the head
    /// stood at the beginning of `lba`, which lies at `place`; at most `limit`.
    #[inline]
    pub fn reached(&self, place: &SectorPosition, lba: u64, elapsed: u64, limit: u64) -> u64 {
        let zone = &self.zones[place.zone as usize];
        let limit = limit.min(zone.end_lba);
        let until = place.clock + elapsed;
        if lba >= limit || self.end_clock(place, limit - 1) <= until {
            return limit.max(lba);
        }
        // The last position that has passed: floor(u T / spt) <= until.
        let spt = zone.spt.value();
        let passed = self.period.quotient((until + 1) * spt - 1);
        let mut physical = zone.physical(lba);
        let mut track = zone.spt.quotient(physical);
        loop {
            let cylinder = self.heads.quotient(track);
            let position = zone.position(physical, track, cylinder);
            if passed <= position {
                break;
            }
            let left = (track + 1) * spt - physical;
            physical += left.min(passed - position);
            if passed - position < left {
                break;
            }
            track += 1;
        }
        zone.data_from(physical).clamp(lba, limit)
    }
}

/// Shortest times to move to the next track, which a skew must cover.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Switches {
    /// To another head of the same cylinder.
    pub track: Nanos,
    /// To the next cylinder.
    pub cylinder: Nanos,
}

impl Zone {
    /// Number of the sector on the medium, spares and reserved sectors counted.
    #[inline]
    fn physical(&self, lba: u64) -> u64 {
        let data = lba - self.first_lba;
        let spares = match self.layout.band_spares {
            0 => 0,
            spares => self.band.quotient(data) * spares,
        };
        data + spares + self.layout.reserved
    }

    /// The first sector that holds data at or after this place on the medium.
    #[inline]
    fn data_from(&self, physical: u64) -> u64 {
        let data = physical - self.layout.reserved;
        let data = match self.layout.band_spares {
            0 => data,
            spares => {
                let band = self.band_sectors + spares;
                data / band * self.band_sectors + (data % band).min(self.band_sectors)
            }
        };
        self.first_lba + data
    }

    #[inline]
    fn position(&self, physical: u64, track: u64, cylinder: u64) -> u64 {
        physical + (track - cylinder) * self.track_gap + cylinder * self.cylinder_gap
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: u64 = 1_000_000;

    fn zone(first_cylinder: u32, cylinders: u32, spt: u32) -> ZoneLayout {
        ZoneLayout {
            first_cylinder,
            cylinders,
            sectors_per_track: spt,
            track_skew: 3,
            cylinder_skew: 5,
            reserved: 0,
            band_cylinders: 1,
            band_spares: 0,
        }
    }

    fn small(zones: &[ZoneLayout]) -> Geometry {
        let switches = Switches { track: Nanos(T / 50), cylinder: Nanos(T / 40) };
        Geometry::new(2, Nanos(T), switches, zones, None).unwrap()
    }

    #[test]
    fn every_sector_has_its_own_place() {
        let disk = small(&[zone(0, 3, 100), zone(4, 2, 50)]);
        assert_eq!(disk.sectors(), 600 + 200);
        let mut seen = std::collections::BTreeSet::new();
        for lba in 0..disk.sectors() {
            let p = disk.place(lba);
            assert!(seen.insert((p.cylinder, p.head, p.sector)), "{lba}");
            assert!(p.sector < disk.sectors_per_track(&p) && p.head < 2);
        }
        let p = disk.place(600);
        assert_eq!((p.zone, p.cylinder, p.head, p.sector), (1, 4, 0, 0));
    }

    #[test]
    fn angle_is_the_clock_and_skew_separates_tracks() {
        let disk = small(&[zone(0, 3, 100)]);
        let (last, first) = (disk.place(99), disk.place(100));
        let end = disk.end_clock(&last, 99);
        assert_eq!(first.clock - end, 3 * T / 100);
        let (last, first) = (disk.place(199), disk.place(200));
        assert_eq!(first.clock - disk.end_clock(&last, 199), 5 * T / 100);
        assert_eq!(u64::from(first.angle), first.clock % T);
    }

    #[test]
    fn a_skew_shorter_than_the_switch_costs_whole_revolutions() {
        let switches = Switches { track: Nanos(2 * T), cylinder: Nanos(T / 40) };
        let disk = Geometry::new(2, Nanos(T), switches, &[zone(0, 3, 100)], None).unwrap();
        let (last, first) = (disk.place(99), disk.place(100));
        assert_eq!(first.clock - disk.end_clock(&last, 99), 2 * T + 3 * T / 100);
    }

    #[test]
    fn a_new_zone_continues_the_skew() {
        let disk = small(&[zone(0, 3, 100), zone(3, 2, 50)]);
        let (last, first) = (disk.place(599), disk.place(600));
        let gap = (u64::from(first.angle) + T - u64::from(last.angle) - T / 100) % T;
        assert_eq!(gap, 5 * T / 50);
    }

    #[test]
    fn reached_inverts_the_clock() {
        let disk = small(&[ZoneLayout { band_spares: 7, ..zone(0, 30, 97) }]);
        let start = disk.place(41);
        for lba in 41..700 {
            let elapsed = disk.end_clock(&start, lba) - start.clock;
            assert_eq!(disk.reached(&start, 41, elapsed, 5_000), lba + 1);
            assert_eq!(disk.reached(&start, 41, elapsed - 1, 5_000), lba);
        }
        assert_eq!(disk.reached(&start, 41, u64::MAX / 4, 60), 60);
    }

    #[test]
    fn spares_and_reserved_sectors_hold_no_data() {
        let odd = ZoneLayout { reserved: 40, band_cylinders: 2, band_spares: 9, ..zone(0, 5, 20) };
        let disk = small(&[odd]);
        // 200 sectors less 40 reserved: two bands of 80 less 9 each.
        assert_eq!(disk.sectors(), 2 * 71);
        assert_eq!(disk.place(0).cylinder, 1);
        assert_eq!(disk.place(71).cylinder, 3);
    }

    #[test]
    fn what_does_not_fit_is_explained() {
        let switches = Switches { track: Nanos(1), cylinder: Nanos(1) };
        let overlap = [zone(0, 3, 100), zone(2, 3, 100)];
        let error = Geometry::new(2, Nanos(T), switches, &overlap, None).unwrap_err();
        assert_eq!(error.key, "geometry.zone[1]");
        assert!(error.message.contains("expected 3 or more"), "{error}");
        let error = Geometry::new(2, Nanos(T), switches, &[zone(0, 3, 9)], Some(99)).unwrap_err();
        assert!(error.message.contains("expected 1 to 54"), "{error}");
    }
}
