//! Where logical blocks live: a logical block belongs to one plane for good.

use config::ConfigError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ftl::mapping::Context;
use crate::ssd::geometry::Divisor;

/// What is striped over the planes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Striping {
    /// Consecutive logical pages go to consecutive planes (full striping): a logical block is
    /// every n-th page of the space, where n is the number of planes.
    #[default]
    Pages,
    /// Consecutive logical blocks of consecutive pages go to consecutive planes: no parallelism
    /// within a block.
    Blocks,
}

/// Logical pages to (logical block, offset) and back.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    stripe: Vec<u32>,
    planes: Divisor,
    pages: Divisor,
    striping: Striping,
    /// Logical blocks of the drive.
    pub(crate) blocks: u32,
    /// Logical pages of the drive.
    pub(crate) logical_pages: u32,
}

impl Layout {
    pub(crate) fn new(context: &Context, striping: Striping) -> Layout {
        let (geometry, logical_pages) = (context.geometry, context.logical_pages);
        let (planes, pages) = (geometry.planes(), geometry.pages_per_block.get());
        let blocks = match striping {
            Striping::Blocks => logical_pages.div_ceil(pages),
            Striping::Pages => logical_pages.div_ceil(planes).div_ceil(pages) * planes,
        };
        Layout {
            stripe: context.allocator.stripe().to_vec(),
            planes: Divisor::new(planes),
            pages: geometry.pages_per_block,
            striping,
            blocks,
            logical_pages,
        }
    }

    /// The logical block of a logical page and the page's offset in it.
    #[inline]
    pub(crate) fn split(&self, lpn: u32) -> (u32, u32) {
        match self.striping {
            Striping::Blocks => self.pages.split(lpn),
            Striping::Pages => {
                let (index, turn) = self.planes.split(lpn);
                let (row, offset) = self.pages.split(index);
                (row * self.planes.get() + turn, offset)
            }
        }
    }

    /// The logical page at an offset of a logical block; the last block may reach beyond the
    /// logical space.
    #[inline]
    pub(crate) fn lpn(&self, lbn: u32, offset: u32) -> u32 {
        match self.striping {
            Striping::Blocks => lbn * self.pages.get() + offset,
            Striping::Pages => {
                let (row, turn) = self.planes.split(lbn);
                (row * self.pages.get() + offset) * self.planes.get() + turn
            }
        }
    }

    /// The plane of a logical block.
    #[inline]
    pub(crate) fn plane(&self, lbn: u32) -> u32 {
        self.stripe[self.planes.split(lbn).1 as usize]
    }

    /// The planes in stripe order.
    pub(crate) fn stripe(&self) -> &[u32] {
        &self.stripe
    }
}

/// How many blocks each plane can spare for log blocks, and how many are wanted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    /// Blocks of a plane that are neither data blocks nor reserve.
    spare: u32,
    planes: u32,
    /// A sixteenth of the blocks of a plane.
    usual: u32,
}

impl Budget {
    pub(crate) fn new(context: &Context, layout: &Layout) -> Budget {
        let (blocks, planes) = (context.geometry.blocks_per_plane.get(), context.geometry.planes());
        let data = layout.blocks.div_ceil(planes);
        let spare = blocks.saturating_sub(data + context.reserve.max(1));
        Budget { spare, planes, usual: blocks / 16 }
    }

    /// Log blocks of the whole drive: `wanted`, or a sixteenth of all blocks; at least `least`. If
    /// `one_anywhere`, one of them may be on any plane, the others are dealt evenly.
    ///
    /// # Errors
    /// When they do not fit; names the range.
    pub(crate) fn log_blocks(
        self,
        wanted: Option<u32>,
        least: u32,
        one_anywhere: bool,
    ) -> Result<u32, ConfigError> {
        let anywhere = u32::from(one_anywhere);
        let most = self.spare.saturating_sub(anywhere) * self.planes + anywhere.min(self.spare);
        let count = wanted.unwrap_or((self.usual * self.planes).max(least));
        if (least..=most).contains(&count) {
            return Ok(count);
        }
        let spare = self.spare;
        let message = if most < least {
            format!(
                "expected at least {least}, but the data blocks leave only {spare} spare blocks \
                 on each of {} planes; leave more over_provisioning",
                self.planes
            )
        } else {
            format!(
                "expected {least} to {most} (the data blocks leave {spare} spare blocks on each \
                 of {} planes), got {count}",
                self.planes
            )
        };
        Err(ConfigError::new("log_blocks", message))
    }

    /// Spare blocks of each plane, for a scheme that uses all there are; it needs `least`.
    ///
    /// # Errors
    /// When there are fewer.
    pub(crate) fn per_plane(self, least: u32) -> Result<u32, ConfigError> {
        if self.spare >= least {
            return Ok(self.spare);
        }
        let message = format!(
            "needs {least} spare blocks on each plane, but the data blocks leave {}; leave \
             more over_provisioning",
            self.spare
        );
        Err(ConfigError::new("", message))
    }
}

/// Check that a parameter is from 1 to `most`, which is `what`.
pub(crate) fn in_range(key: &str, value: u32, most: u32, what: &str) -> Result<(), ConfigError> {
    if (1..=most).contains(&value) {
        return Ok(());
    }
    Err(ConfigError::new(key, format!("expected 1 to {most} ({what}), got {value}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ftl::allocation::{self, static_};
    use crate::ssd::geometry::GeometryParams;

    #[test]
    fn every_page_has_one_place_on_the_plane_of_its_block() {
        let params = GeometryParams {
            channels: 3,
            packages_per_channel: 1,
            dies_per_package: 1,
            planes_per_die: 2,
            blocks_per_plane: 10,
            pages_per_block: 5,
            ..GeometryParams::default()
        };
        let geometry = params.check().unwrap();
        let allocator = static_::Params::default().build(&allocation::Context { geometry });
        let context = Context {
            geometry,
            allocator: allocator.unwrap(),
            logical_pages: 217,
            reserve: 1,
            copy_back: true,
            pslc_pages: None,
        };
        for striping in [Striping::Pages, Striping::Blocks] {
            let layout = Layout::new(&context, striping);
            let mut seen = vec![false; (layout.blocks * 5) as usize];
            for lpn in 0..217 {
                let (lbn, offset) = layout.split(lpn);
                assert!(lbn < layout.blocks && offset < 5);
                assert_eq!(layout.lpn(lbn, offset), lpn);
                assert!(!std::mem::replace(&mut seen[(lbn * 5 + offset) as usize], true));
                if striping == Striping::Pages {
                    let stripe = context.allocator.stripe();
                    assert_eq!(layout.plane(lbn), stripe[lpn as usize % 6]);
                }
            }
        }
    }
}
