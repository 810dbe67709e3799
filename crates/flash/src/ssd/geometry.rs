//! Geometry as data: channel > package > die > plane > block > page.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{Bytes, SECTOR_BYTES};

use config::{ConfigError, Size};

/// So many blocks a plane may have.
pub(crate) const BLOCKS_PER_PLANE_MAX: u32 = 1 << 24;

/// The shape of the flash array, as a part file gives it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GeometryParams {
    /// Channels (buses) between controller and flash.
    pub channels: u32,
    /// Packages (ways) on a channel.
    pub packages_per_channel: u32,
    /// Dies (LUNs) in a package.
    pub dies_per_package: u32,
    /// Planes in a die.
    pub planes_per_die: u32,
    /// Blocks in a plane.
    pub blocks_per_plane: u32,
    /// Pages in a block.
    pub pages_per_block: u32,
    /// Data bytes in a page, spare area not counted: a power of two.
    pub page: Size,
}

impl Default for GeometryParams {
    /// The 4 GB drive of Ha, Cho and Eom (2010), table 2.
    fn default() -> GeometryParams {
        GeometryParams {
            channels: 4,
            packages_per_channel: 1,
            dies_per_package: 2,
            planes_per_die: 2,
            blocks_per_plane: 2048,
            pages_per_block: 64,
            page: Size(Bytes::from_kib(2)),
        }
    }
}

/// Division of a 32-bit number by a constant, without a division: exact for every dividend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Divisor {
    divisor: u32,
    shift: u32,
    /// ceil(2^64 / divisor), or 0 when the divisor is a power of two.
    reciprocal: u64,
}

impl Divisor {
    /// A divisor of at least 1.
    pub const fn new(divisor: u32) -> Divisor {
        let power_of_two = divisor.is_power_of_two();
        let reciprocal = if power_of_two { 0 } else { u64::MAX / divisor as u64 + 1 };
        Divisor { divisor, shift: divisor.trailing_zeros(), reciprocal }
    }

    /// The divisor itself.
    #[inline]
    pub const fn get(self) -> u32 {
        self.divisor
    }

    /// `n / divisor`
    #[inline]
    pub const fn div(self, n: u32) -> u32 {
        if self.reciprocal == 0 {
            n >> self.shift
        } else {
            ((n as u128 * self.reciprocal as u128) >> 64) as u32
        }
    }

    /// `(n / divisor, n % divisor)`
    #[inline]
    pub const fn split(self, n: u32) -> (u32, u32) {
        let quotient = self.div(n);
        (quotient, n - quotient * self.divisor)
    }
}

/// The checked geometry with the arithmetic of physical page numbers.
///
/// A physical page number (PPN) is `(plane * blocks_per_plane + block) * pages_per_block + page`,
/// where planes count through the dies of a channel before the next channel begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Channels.
    pub channels: u32,
    /// Packages on a channel.
    pub packages_per_channel: u32,
    /// Dies in a package.
    pub dies_per_package: u32,
    /// Planes in a die.
    pub planes_per_die: Divisor,
    /// Blocks in a plane.
    pub blocks_per_plane: Divisor,
    /// Pages in a block.
    pub pages_per_block: Divisor,
    /// Dies on a channel.
    pub dies_per_channel: Divisor,
    /// Sectors in a page.
    pub page_sectors: u32,
}

/// Most planes a die may have: multi-plane groups are kept in a fixed array.
pub const PLANES_PER_DIE_MAX: u32 = 16;

impl GeometryParams {
    /// Check the numbers and prepare the arithmetic.
    ///
    /// # Errors
    /// Names the first impossible value and its range.
    pub fn check(&self) -> Result<Geometry, ConfigError> {
        let in_range = |key: &str, value: u32, least: u32, most: u32| match value {
            v if v < least || v > most => {
                Err(ConfigError::new(key, format!("expected {least} to {most}, got {value}")))
            }
            _ => Ok(value),
        };
        in_range("channels", self.channels, 1, 1024)?;
        in_range("packages_per_channel", self.packages_per_channel, 1, 1024)?;
        in_range("dies_per_package", self.dies_per_package, 1, 1024)?;
        in_range("planes_per_die", self.planes_per_die, 1, PLANES_PER_DIE_MAX)?;
        in_range("blocks_per_plane", self.blocks_per_plane, 4, BLOCKS_PER_PLANE_MAX)?;
        // 15 bits: valid counts keep one bit for the block's state.
        in_range("pages_per_block", self.pages_per_block, 1, (1 << 15) - 1)?;
        let page_bytes = self.page.0.0;
        if !page_bytes.is_power_of_two() || !(SECTOR_BYTES..=1 << 20).contains(&page_bytes) {
            let message = format!("expected a power of two from 512B to 1MiB, got {}", self.page);
            return Err(ConfigError::new("page", message));
        }
        let dies_per_channel =
            u64::from(self.packages_per_channel) * u64::from(self.dies_per_package);
        let planes = u64::from(self.channels) * dies_per_channel * u64::from(self.planes_per_die);
        let pages = planes * u64::from(self.blocks_per_plane) * u64::from(self.pages_per_block);
        if planes > 1 << 20 || pages >= u64::from(u32::MAX) {
            let message = format!(
                "{pages} pages on {planes} planes are more than the model can number \
                 (below 2^32 pages, at most 2^20 planes): use a larger page or fewer blocks"
            );
            return Err(ConfigError::new("", message));
        }
        Ok(Geometry {
            channels: self.channels,
            packages_per_channel: self.packages_per_channel,
            dies_per_package: self.dies_per_package,
            planes_per_die: Divisor::new(self.planes_per_die),
            blocks_per_plane: Divisor::new(self.blocks_per_plane),
            pages_per_block: Divisor::new(self.pages_per_block),
            dies_per_channel: Divisor::new(dies_per_channel as u32),
            page_sectors: (page_bytes / SECTOR_BYTES) as u32,
        })
    }
}

impl Geometry {
    /// Dies of the drive.
    pub const fn dies(&self) -> u32 {
        self.channels * self.dies_per_channel.get()
    }

    /// Planes of the drive.
    pub const fn planes(&self) -> u32 {
        self.dies() * self.planes_per_die.get()
    }

    /// Blocks of the drive.
    pub const fn blocks(&self) -> u32 {
        self.planes() * self.blocks_per_plane.get()
    }

    /// Pages of the drive.
    pub const fn pages(&self) -> u32 {
        self.blocks() * self.pages_per_block.get()
    }

    /// Pages of a plane.
    pub const fn pages_per_plane(&self) -> u32 {
        self.blocks_per_plane.get() * self.pages_per_block.get()
    }

    /// Size of a page.
    pub const fn page_bytes(&self) -> u64 {
        self.page_sectors as u64 * SECTOR_BYTES
    }

    /// The block (counted over the whole drive) and the page in it of a PPN.
    #[inline]
    pub const fn block_page(&self, ppn: u32) -> (u32, u32) {
        self.pages_per_block.split(ppn)
    }

    /// First PPN of a block.
    #[inline]
    pub const fn first_ppn(&self, block: u32) -> u32 {
        block * self.pages_per_block.get()
    }

    /// Plane of a block.
    #[inline]
    pub const fn plane_of_block(&self, block: u32) -> u32 {
        self.blocks_per_plane.div(block)
    }

    /// Plane of a PPN.
    #[inline]
    pub const fn plane_of(&self, ppn: u32) -> u32 {
        self.plane_of_block(self.pages_per_block.div(ppn))
    }

    /// Die of a plane.
    #[inline]
    pub const fn die_of_plane(&self, plane: u32) -> u32 {
        self.planes_per_die.div(plane)
    }

    /// Channel of a die.
    #[inline]
    pub const fn channel_of_die(&self, die: u32) -> u32 {
        self.dies_per_channel.div(die)
    }

    /// The blocks of a plane.
    pub const fn blocks_of_plane(&self, plane: u32) -> std::ops::Range<u32> {
        let first = plane * self.blocks_per_plane.get();
        first..first + self.blocks_per_plane.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisors_are_exact() {
        for divisor in [1, 2, 3, 5, 7, 64, 768, 1152, 1500, 65_535, u32::MAX] {
            let d = Divisor::new(divisor);
            for n in (0..10_000).chain([u32::MAX, u32::MAX - 1, divisor, divisor - 1]) {
                assert_eq!(d.split(n), (n / divisor, n % divisor), "{n} / {divisor}");
            }
        }
    }

    #[test]
    fn page_numbers_go_through_planes_dies_channels() {
        let g = GeometryParams::default().check().unwrap();
        assert_eq!((g.dies(), g.planes(), g.pages()), (8, 16, 1 << 21));
        let ppn = (5 * 2048 + 7) * 64 + 9;
        assert_eq!(g.block_page(ppn), (5 * 2048 + 7, 9));
        assert_eq!((g.plane_of(ppn), g.die_of_plane(5), g.channel_of_die(2)), (5, 2, 1));
    }

    #[test]
    fn impossible_numbers_are_refused_with_their_range() {
        let bad = GeometryParams { planes_per_die: 0, ..GeometryParams::default() };
        assert_eq!(bad.check().unwrap_err().to_string(), "planes_per_die: expected 1 to 16, got 0");
        let bad = GeometryParams { page: Size(Bytes(1000)), ..GeometryParams::default() };
        assert!(bad.check().unwrap_err().message.contains("power of two from 512B"));
        let bad = GeometryParams {
            blocks_per_plane: 1 << 24,
            pages_per_block: 1 << 14,
            ..GeometryParams::default()
        };
        assert!(bad.check().unwrap_err().message.contains("more than the model can number"));
    }
}
