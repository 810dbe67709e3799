//! NAND timing as a part table gives it.

use config::{ConfigError, Duration, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{Nanos, SECTOR_BYTES};

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
    /// What blocks used as pSLC are like; absent: there are none. Their erase takes as long.
    pub pslc: Option<PslcParams>,
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
            spare_on_bus: false,
            copy_back: true,
            multi_plane: MultiPlane::Off,
            program_suspend: None,
            erase_suspend: None,
            pslc: None,
        }
    }
}

/// Checked timing, in integers.
#[derive(Clone, PartialEq, Debug)]
pub struct Timing {
    read_ns: Vec<u64>,
    program_ns: Vec<u64>,
    erase_ns: u64,
    command_ns: u64,
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
        let types = |key: &str, list: &[Duration]| match list.len() {
            0 | 9.. => {
                let message = format!("expected 1 to 8 page types, got {}", list.len());
                Err(ConfigError::new(key, message))
            }
            _ => Ok(list.iter().map(|d| d.0.0).collect::<Vec<_>>()),
        };
        if self.bus.0 == 0 {
            return Err(ConfigError::new("bus", "expected a rate above 0, got 0B/s"));
        }
        let sector_bytes = SECTOR_BYTES + if self.spare_on_bus { 16 } else { 0 };
        let read_ns = types("read", &self.read)?;
        let program_ns = types("program", &self.program)?;
        let erase_ns = self.erase.0.0;
        let pslc_ns = match &self.pslc {
            Some(pslc) if !(2..=5).contains(&pslc.bits_per_cell) => {
                let message = format!("expected 2 to 5, got {}", pslc.bits_per_cell);
                return Err(ConfigError::new("pslc.bits_per_cell", message));
            }
            Some(pslc) => (pslc.read.0.0, pslc.program.0.0),
            None => (0, 0),
        };
        let array_ns = match (&read_ns[..], &program_ns[..]) {
            (&[read], &[program]) => Some(std::array::from_fn(|mode| {
                let (read_from, _) = if mode & 8 != 0 { pslc_ns } else { (read, program) };
                let (read, program) = if mode & 4 != 0 { pslc_ns } else { (read, program) };
                [read, program, read_from + program, erase_ns][mode & 3]
            })),
            _ => None,
        };
        Ok(Timing {
            pslc_ns,
            read_ns,
            program_ns,
            erase_ns,
            array_ns,
            command_ns: self.command.0.0,
            sector_ps: (u128::from(sector_bytes) * 1_000_000_000_000 / u128::from(self.bus.0))
                as u64,
            multi_plane: self.multi_plane,
            program_suspend: self.program_suspend.map(|d| d.0),
            erase_suspend: self.erase_suspend.map(|d| d.0),
        })
    }
}

impl Timing {
    /// Bus time of that many sectors.
    #[inline]
    pub fn bus_ns(&self, sectors: u32) -> u64 {
        u64::from(sectors) * self.sector_ps / 1_000
    }

    /// tR of a page of a block.
    #[inline]
    pub fn read_ns(&self, page: u32) -> u64 {
        by_type(&self.read_ns, page)
    }

    /// tPROG of a page of a block.
    #[inline]
    pub fn program_ns(&self, page: u32) -> u64 {
        by_type(&self.program_ns, page)
    }

    /// The time all operations of a rebuild take one after another. A spare area crosses the bus
    /// as one sector.
    pub fn rebuild_ns(&self, rebuilt: Rebuilt, page_sectors: u32) -> u64 {
        let mean = |times: &[u64]| times.iter().sum::<u64>() / times.len() as u64;
        let (read, program) = (mean(&self.read_ns), mean(&self.program_ns));
        let page = self.command_ns + self.bus_ns(page_sectors);
        rebuilt.spare_reads * (self.command_ns + read + self.bus_ns(1))
            + rebuilt.page_reads * (read + page)
            + rebuilt.page_writes * (program + page)
    }

    /// The times of an operation.
    #[inline]
    pub fn phases(&self, geometry: &Geometry, op: FlashOp) -> Phases {
        // Zero sectors cross the bus for a copy-back and an erase.
        let bus = self.bus_ns(op.sectors());
        let out = if op.kind() == Kind::Read { bus } else { 0 };
        let array = match &self.array_ns {
            // Looked up, not branched on: the kinds of a busy drive come in no order.
            Some(by_mode) => by_mode[op.mode()],
            None => self.array_by_page(geometry, op),
        };
        Phases { bus_in: self.command_ns + bus - out, array, bus_out: out }
    }

    fn array_by_page(&self, geometry: &Geometry, op: FlashOp) -> u64 {
        let page = |ppn| geometry.block_page(ppn).1;
        let read = |ppn, pslc| if pslc { self.pslc_ns.0 } else { self.read_ns(page(ppn)) };
        let program =
            || if op.is_pslc() { self.pslc_ns.1 } else { self.program_ns(page(op.ppn())) };
        match op.kind() {
            Kind::Read => read(op.ppn(), op.is_pslc()),
            Kind::Program => program(),
            Kind::CopyBack => read(op.from(), op.is_from_pslc()) + program(),
            Kind::Erase => self.erase_ns,
        }
    }
}

#[inline]
fn by_type(times: &[u64], page: u32) -> u64 {
    match times {
        [one] => *one,
        many => many[page as usize % many.len()],
    }
}
