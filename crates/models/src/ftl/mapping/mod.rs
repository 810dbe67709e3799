//! Mappings: which physical page holds which logical page. One file per scheme.

use sim::{Bytes, Snapshot};

use super::allocation::Allocator;
use super::flash::Flash;
use crate::config::ConfigError;
use crate::ssd::geometry::Geometry;
use crate::ssd::plan::Plan;

pub mod page;

/// What a mapping is built with besides its parameters.
#[derive(Clone, Debug)]
pub struct Context {
    /// The array.
    pub geometry: Geometry,
    /// Chooses planes for new pages.
    pub allocator: Allocator,
    /// Logical pages of the drive.
    pub logical_pages: u32,
    /// Free blocks of a plane that host writes must leave for relocation.
    pub reserve: u32,
}

/// What a mapping's `build` gives.
pub type Built = Result<Box<dyn Mapping>, ConfigError>;

/// One page of a host request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostPage {
    /// Logical page number.
    pub lpn: u32,
    /// Sectors of it that the request covers.
    pub sectors: u16,
    /// False when the rest of the page must be read and kept.
    pub whole: bool,
    /// The host's stream or placement hint.
    pub stream: u16,
}

/// No room: the write must wait until a block of this plane (`None`: of any plane) is erased.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full(pub Option<u32>);

/// A mapping scheme: logic only, it emits plans and has no clock.
pub trait Mapping: Snapshot + Send {
    /// Where `lpn` is, or [`crate::ssd::plan::NONE`].
    fn lookup(&mut self, lpn: u32) -> u32;

    /// Plan a read. A page that was never written needs no operation.
    fn read(&mut self, flash: &mut Flash, page: HostPage, plan: &mut Plan);

    /// Plan a write.
    ///
    /// # Errors
    /// [`Full`]: nothing has changed; try again when a block was erased.
    fn write(&mut self, flash: &mut Flash, page: HostPage, plan: &mut Plan) -> Result<(), Full>;

    /// The host no longer needs the page.
    fn discard(&mut self, flash: &mut Flash, lpn: u32, plan: &mut Plan);

    /// The collector moved `lpn` to `to`.
    fn relocated(&mut self, lpn: u32, to: u32);

    /// A program or copy-back of `lpn` to `ppn` was lost with the power; before it the data was at
    /// `from`. Called newest first.
    fn undo(&mut self, flash: &mut Flash, lpn: u32, ppn: u32, from: u32);

    /// Write logical pages `0..count` of a pristine drive in order, all at once. Returns false
    /// when the scheme has no shortcut; nothing has changed then.
    fn fill(&mut self, flash: &mut Flash, count: u32, plan: &mut Plan) -> bool {
        let _ = (flash, count, plan);
        false
    }

    /// Memory the scheme needs in a real controller: tables, tags and directories.
    fn ram(&self) -> Bytes;

    /// Prepare for cheap clones.
    fn freeze(&mut self);

    /// A copy that will do the same.
    fn boxed_clone(&self) -> Box<dyn Mapping>;
}

impl Clone for Box<dyn Mapping> {
    fn clone(&self) -> Box<dyn Mapping> {
        self.boxed_clone()
    }
}
