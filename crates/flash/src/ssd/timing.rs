//! NAND timing as a part table gives it.

use config::{ConfigError, Duration, Rate, Size};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{Nanos, SECTOR_BYTES};

use super::ageing::ReadRetry;
use super::geometry::Geometry;
use super::plan::{FlashOp, Kind, Rebuilt};

/// When operations on several planes of a die may run as one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MultiPlane {
    /// Never: a die does one operation at a time.
    #[default]
    Off,
    /// Same kind, same page number in the block.
    SamePage,
    /// Same kind, any page.
    AnyPage,
}

/// NAND timing and abilities.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NandParams {
    /// tR per page type; page `i` of a block has type `i mod n`.
    pub read: Vec<Duration>,
    /// tPROG per page type. One-shot programming is written as zeros followed by the whole time:
    /// the last page of the word line triggers it.
    pub program: Vec<Duration>,
    /// tBERS.
    pub erase: Duration,
    /// Transfer rate of a channel.
    pub bus: Rate,
    /// Command and address cycles on the channel before every operation.
    pub command: Duration,
    /// A read of less transfers so much, a codeword of the ECC, which is corrected as a whole; at
    /// most a page. Absent: as many sectors as were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transfer_least: Option<Size>,
    /// Transfer the spare area too: 64 bytes for every 2 KiB of data (16 per sector).
    pub spare_on_bus: bool,
    /// Copy-back is allowed (within a plane).
    pub copy_back: bool,
    /// Multi-plane operations.
    pub multi_plane: MultiPlane,
    /// Time to suspend a program for a read; absent: programs are not suspended.
    pub program_suspend: Option<Duration>,
    /// Time to suspend an erase for a read; absent: erases are not suspended.
    pub erase_suspend: Option<Duration>,
    /// A program or an erase runs for so long, at first and after each read it let pass, before it
    /// can be suspended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suspend_after: Option<Duration>,
    /// What blocks used as pSLC are like; absent: there are none. Their erase takes as long.
    pub pslc: Option<PslcParams>,
    /// Pages of the FTL that a page of the flash holds: more than 1 is a map unit below the
    /// flash's page. Page types count pages of the flash, the last unit programs all of them, and
    /// each unit is read by itself.
    pub units_per_page: u32,
    /// Planes of the flash that a plane of the geometry stands for: they program and erase
    /// together, a page of the flash lies over all of them, and units on different ones are
    /// read at once; so are units of one page of the flash that the host wants. A drive whose
    /// superblocks span the planes of a die.
    pub planes_as_one: u32,
    /// Reads of a small part of a page, if they take another time; a spare area that a rebuild of
    /// the mapping reads is one, a copy-back is not.
    pub read_small: Option<SmallReads>,
    /// A die reads on while data it has read go out, from a cache register (of one read for each
    /// plane): a read and a transfer of the same die overlap. Programs and erases wait for both.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cache_read: bool,
    /// Pages of data for each page of parity over them; absent: none is written. Parity takes its
    /// share of bus and tPROG from every program, evenly, and no room: sizes are those of the
    /// flash that is left for data.
    pub parity_every: Option<u32>,
    /// Reads that are repeated, the more often the more a block was read; absent: none are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry: Option<ReadRetry>,
}

/// The most of the flash's planes that are one.
pub const PLANES_AS_ONE_MAX: u32 = 4;

/// Reads that sense a part of a page.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SmallReads {
    /// Reads of so much of a page or less.
    pub up_to: Size,
    /// Their tR per page type, as `read`.
    pub read: Vec<Duration>,
}

/// Cells of several bits used as if they had one.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PslcParams {
    /// tR.
    pub read: Duration,
    /// tPROG.
    pub program: Duration,
    /// Bits the cells hold otherwise: a block in pSLC mode has that many times fewer pages.
    pub bits_per_cell: u32,
}

impl Default for NandParams {
    /// The SLC NAND of Ha, Cho and Eom (2010), table 2.
    fn default() -> NandParams {
        NandParams {
            read: vec![Duration(Nanos::from_micros(25))],
            program: vec![Duration(Nanos::from_micros(200))],
            erase: Duration(Nanos::from_millis(2)),
            bus: Rate(40_000_000),
            command: Duration(Nanos::ZERO),
            transfer_least: None,
            spare_on_bus: false,
            copy_back: true,
            multi_plane: MultiPlane::Off,
            program_suspend: None,
            erase_suspend: None,
            suspend_after: None,
            pslc: None,
            units_per_page: 1,
            planes_as_one: 1,
            read_small: None,
            cache_read: false,
            parity_every: None,
            retry: None,
        }
    }
}

/// Checked timing, in integers.
#[derive(Clone, PartialEq, Debug)]
pub struct Timing {
    read_ns: Vec<u64>,
    /// tR of reads of at most so many sectors.
    small: Option<(u32, Vec<u64>)>,
    units: u32,
    /// Planes of the flash in one of the geometry.
    pub planes_as_one: u32,
    /// A die reads on while data go out.
    pub cache_read: bool,
    /// Parts per million that parity adds to what a program takes.
    parity_ppm: u64,
    /// Pages of data for one of parity.
    pub parity_every: Option<u32>,
    /// Reads that are repeated.
    pub retry: Option<ReadRetry>,
    program_ns: Vec<u64>,
    erase_ns: u64,
    command_ns: u64,
    /// Sectors that a read transfers at least.
    transfer_least: u32,
    /// Bus time of one sector, in picoseconds.
    sector_ps: u64,
    /// tR and tPROG in pSLC mode.
    pslc_ns: (u64, u64),
    /// Array time by [`FlashOp::mode`], where all pages are of one type.
    array_ns: Option<[u64; FlashOp::MODES]>,
    /// Multi-plane rule.
    pub multi_plane: MultiPlane,
    /// Time to suspend a program, if that is possible.
    pub program_suspend: Option<Nanos>,
    /// Time to suspend an erase, if that is possible.
    pub erase_suspend: Option<Nanos>,
    /// How long they run before they can be.
    pub suspend_after: Nanos,
}

/// The times of one operation: on the bus before, in the array, on the bus after.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Phases {
    /// Command, address and data in.
    pub bus_in: u64,
    /// tR, tPROG or tBERS.
    pub array: u64,
    /// Data out.
    pub bus_out: u64,
}

impl NandParams {
    /// Check the values.
    ///
    /// # Errors
    /// Names the key that cannot be used.
    pub fn check(&self) -> Result<Timing, ConfigError> {
        if self.bus.0 == 0 {
            return Err(ConfigError::new("bus", "expected a rate above 0, got 0B/s"));
        }
        let sector_bytes = SECTOR_BYTES + if self.spare_on_bus { 16 } else { 0 };
        let parity_ppm = match self.parity_every {
            Some(0) => return Err(ConfigError::new("parity_every", "expected 1 or more, got 0")),
            every => every.map_or(0, |every| 1_000_000 / u64::from(every)),
        };
        let with_parity = |time: u64| time + parity_share(time, parity_ppm);
        let read_ns = types("read", &self.read)?;
        let program_ns: Vec<u64> =
            types("program", &self.program)?.into_iter().map(with_parity).collect();
        let erase_ns = self.erase.0.0;
        let pslc_ns = match &self.pslc {
            Some(pslc) if !(2..=5).contains(&pslc.bits_per_cell) => {
                let message = format!("expected 2 to 5, got {}", pslc.bits_per_cell);
                return Err(ConfigError::new("pslc.bits_per_cell", message));
            }
            Some(pslc) => (pslc.read.0.0, with_parity(pslc.program.0.0)),
            None => (0, 0),
        };
        if let Some(retry) = &self.retry {
            retry.check()?;
        }
        if self.suspend_after.is_some() && self.program_suspend.or(self.erase_suspend).is_none() {
            let message = "nothing is suspended: set program_suspend or erase_suspend";
            return Err(ConfigError::new("suspend_after", message));
        }
        let (units, as_one) = self.checked_units()?;
        let small = self.checked_small_reads()?;
        let array_ns = match (&read_ns[..], &program_ns[..]) {
            (&[read], &[program]) if units == 1 && small.is_none() => {
                Some(std::array::from_fn(|mode| {
                    let (read_from, _) = if mode & 8 != 0 { pslc_ns } else { (read, program) };
                    let (read, program) = if mode & 4 != 0 { pslc_ns } else { (read, program) };
                    [read, program, read_from + program, erase_ns][mode & 3]
                }))
            }
            _ => None,
        };
        Ok(Timing {
            pslc_ns,
            read_ns,
            small,
            units,
            planes_as_one: as_one,
            cache_read: self.cache_read,
            parity_ppm,
            parity_every: self.parity_every,
            retry: self.retry,
            program_ns,
            erase_ns,
            array_ns,
            command_ns: self.command.0.0,
            transfer_least: self.transfer_least.map_or(0, |size| (size.0.0 / SECTOR_BYTES) as u32),
            sector_ps: (u128::from(sector_bytes) * 1_000_000_000_000 / u128::from(self.bus.0))
                as u64,
            multi_plane: self.multi_plane,
            program_suspend: self.program_suspend.map(|d| d.0),
            erase_suspend: self.erase_suspend.map(|d| d.0),
            suspend_after: self.suspend_after.map_or(Nanos::ZERO, |d| d.0),
        })
    }
}

impl NandParams {
    /// Units of a page, and the planes it lies over.
    fn checked_units(&self) -> Result<(u32, u32), ConfigError> {
        let (units, as_one) = (self.units_per_page, self.planes_as_one);
        if !(1..=64).contains(&units) {
            let message = format!("expected 1 to 64, got {units}");
            return Err(ConfigError::new("units_per_page", message));
        }
        if as_one > PLANES_AS_ONE_MAX || as_one == 0 || !units.is_multiple_of(as_one) {
            let message = format!(
                "expected a divisor of units_per_page ({units}), at most {PLANES_AS_ONE_MAX}, \
                 got {as_one}"
            );
            return Err(ConfigError::new("planes_as_one", message));
        }
        Ok((units, as_one))
    }

    /// Sectors that are a small read, and its tR by page type.
    fn checked_small_reads(&self) -> Result<Option<(u32, Vec<u64>)>, ConfigError> {
        let Some(small) = &self.read_small else { return Ok(None) };
        if small.up_to.0.0 < SECTOR_BYTES {
            let message = format!("expected at least a sector (512B), got {}", small.up_to.0);
            return Err(ConfigError::new("read_small.up_to", message));
        }
        let times = types("read_small.read", &small.read)?;
        Ok(Some(((small.up_to.0.0 / SECTOR_BYTES) as u32, times)))
    }
}

impl Timing {
    /// Bus time of that many sectors.
    #[inline]
    pub fn bus_ns(&self, sectors: u32) -> u64 {
        u64::from(sectors) * self.sector_ps / 1_000
    }

    /// tR of that many sectors of a page of a block.
    #[inline]
    pub fn read_ns(&self, page: u32, sectors: u32) -> u64 {
        let times = match &self.small {
            Some((up_to, times)) if sectors <= *up_to => times,
            _ => &self.read_ns,
        };
        by_type(times, page / self.units)
    }

    /// Units of a page of the flash.
    #[inline]
    pub fn units(&self) -> u32 {
        self.units
    }

    /// The page of the flash that holds a unit: blocks begin with one.
    #[inline]
    pub fn flash_page(&self, ppn: u32) -> u32 {
        ppn / self.units
    }

    /// Which of the planes that are one holds a page.
    #[inline]
    pub fn plane_within(&self, page: u32) -> u32 {
        page % self.units * self.planes_as_one / self.units
    }

    /// The units before the last one wait for it in the flash's registers.
    #[inline]
    fn is_last_unit(&self, page: u32) -> bool {
        page % self.units + 1 == self.units
    }

    /// Programs of so many planes with which none waits for another one: one each, and where planes
    /// program together those of two programs, so that the next is there when one ends.
    pub fn programs_ahead(&self, planes: u32) -> u32 {
        // Where one page of a word line programs it all, the others take no time.
        let one_shot = self.program_ns.contains(&0);
        let word_line = if one_shot { self.program_ns.len() as u32 } else { 1 };
        let each = if self.multi_plane == MultiPlane::Off { 1 } else { 2 * word_line * self.units };
        planes.saturating_mul(each)
    }

    /// The time all operations of a rebuild take one after another. A spare area crosses the bus
    /// as one sector, and is a small read.
    pub fn rebuild_ns(&self, rebuilt: Rebuilt, page_sectors: u32) -> u64 {
        let mean = |times: &[u64]| times.iter().sum::<u64>() / times.len() as u64;
        let (read, program) = (mean(&self.read_ns), mean(&self.program_ns) / u64::from(self.units));
        let spare = mean(self.small.as_ref().map_or(&self.read_ns, |(_, times)| times));
        let page = self.command_ns + self.bus_ns(page_sectors);
        rebuilt.spare_reads * (self.command_ns + spare + self.bus_ns(1))
            + rebuilt.page_reads * (read + page)
            + rebuilt.page_writes * (program + page)
    }

    /// The times of an operation.
    #[inline]
    pub fn phases(&self, geometry: &Geometry, op: FlashOp) -> Phases {
        // Zero sectors cross the bus for a copy-back and an erase.
        let least = if op.kind() == Kind::Read { self.transfer_least } else { 0 };
        let bus = self.bus_ns(op.sectors().max(least));
        let out = if op.kind() == Kind::Read { bus } else { 0 };
        let array = match &self.array_ns {
            // Looked up, not branched on: the kinds of a busy drive come in no order.
            Some(by_mode) => by_mode[op.mode()],
            None => self.array_by_page(geometry, op),
        };
        let mut bus_in = self.command_ns + bus - out;
        if self.parity_ppm > 0 && op.kind() == Kind::Program {
            bus_in += parity_share(bus, self.parity_ppm);
        }
        Phases { bus_in, array, bus_out: out }
    }

    fn array_by_page(&self, geometry: &Geometry, op: FlashOp) -> u64 {
        let page = |ppn| geometry.block_page(ppn).1;
        let read = |ppn, pslc, sectors| {
            if pslc { self.pslc_ns.0 } else { self.read_ns(page(ppn), sectors) }
        };
        let program = || match page(op.ppn()) {
            page if !self.is_last_unit(page) => 0,
            _ if op.is_pslc() => self.pslc_ns.1,
            page => by_type(&self.program_ns, page / self.units),
        };
        match op.kind() {
            Kind::Read => read(op.ppn(), op.is_pslc(), op.sectors()),
            Kind::Program => program(),
            // Nothing crosses the bus, but a whole page is sensed.
            Kind::CopyBack => read(op.from(), op.is_from_pslc(), u32::MAX) + program(),
            Kind::Erase => self.erase_ns,
        }
    }
}

/// Times by page type, in nanoseconds.
fn types(key: &str, list: &[Duration]) -> Result<Vec<u64>, ConfigError> {
    match list.len() {
        0 | 9.. => {
            let message = format!("expected 1 to 8 page types, got {}", list.len());
            Err(ConfigError::new(key, message))
        }
        _ => Ok(list.iter().map(|d| d.0.0).collect()),
    }
}

/// What parity adds.
#[inline]
fn parity_share(time: u64, ppm: u64) -> u64 {
    time * ppm / 1_000_000
}

#[inline]
fn by_type(times: &[u64], page: u32) -> u64 {
    match times {
        [one] => *one,
        many => many[page as usize % many.len()],
    }
}

#[cfg(test)]
mod tests {
    use super::super::geometry::GeometryParams;
    use super::super::plan::Cause;
    use super::*;

    #[test]
    fn what_cannot_be_is_refused_by_its_key() {
        let none = NandParams::default();
        let us = |n| Duration(Nanos::from_micros(n));
        let small = |bytes, read| Some(SmallReads { up_to: Size(sim::Bytes(bytes)), read });
        for (params, key) in [
            (NandParams { units_per_page: 0, ..none.clone() }, "units_per_page"),
            (NandParams { units_per_page: 65, ..none.clone() }, "units_per_page"),
            (NandParams { planes_as_one: 2, ..none.clone() }, "planes_as_one"),
            (NandParams { units_per_page: 8, planes_as_one: 8, ..none.clone() }, "planes_as_one"),
            (NandParams { parity_every: Some(0), ..none.clone() }, "parity_every"),
            (NandParams { suspend_after: Some(us(9)), ..none.clone() }, "suspend_after"),
            (
                NandParams { read_small: small(100, vec![us(1)]), ..none.clone() },
                "read_small.up_to",
            ),
            (NandParams { read_small: small(512, vec![]), ..none.clone() }, "read_small.read"),
        ] {
            let refused = params.check().expect_err(key);
            assert_eq!(refused.key, key);
        }
        assert!(none.check().is_ok());
    }

    /// By hand: tR 100 us of a page and 10 us of up to 4 KiB, tPROG 200 us; a copy-back senses a
    /// page, and a spare area is a sector, of 12.8 us at 40 MB/s.
    #[test]
    fn a_copy_back_senses_a_page_and_a_spare_area_is_a_small_read() {
        let us = |n| Duration(Nanos::from_micros(n));
        let slow = NandParams { read: vec![us(100)], ..NandParams::default() };
        let times = |params: NandParams| {
            let timing = params.check().unwrap();
            let geometry = GeometryParams::default().check().unwrap();
            let copied = FlashOp::copy_back(Cause::Gc, 1, 0, 0);
            let spare = Rebuilt { spare_reads: 7, ..Rebuilt::default() };
            let page = Rebuilt { page_reads: 7, ..Rebuilt::default() };
            (
                timing.phases(&geometry, copied),
                timing.rebuild_ns(spare, 4),
                timing.rebuild_ns(page, 4),
            )
        };
        let read_small = Some(SmallReads { up_to: Size(sim::Bytes(4096)), read: vec![us(10)] });
        let (copied, spare, page) = times(slow.clone());
        assert_eq!(copied, Phases { bus_in: 0, array: 300_000, bus_out: 0 });
        assert_eq!((spare, page), (7 * 112_800, 7 * 151_200));
        assert_eq!(times(NandParams { read_small, ..slow }), (copied, 7 * 22_800, page));
    }
}
