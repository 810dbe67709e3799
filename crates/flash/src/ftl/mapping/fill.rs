//! Filling a pristine drive in order, all at once.

use crate::ftl::allocation::Allocator;
use crate::ftl::flash::Flash;
use crate::ssd::geometry::Divisor;
use crate::ssd::plan::{Cause, Kind, Plan};

/// Where the logical pages of a drive that was filled in order are.
#[derive(Clone, Debug)]
pub(super) struct Filled {
    stripe: Vec<u32>,
    planes: Divisor,
    pages_per_plane: u32,
}

impl Filled {
    /// The page that holds `lpn`.
    #[inline]
    pub(super) fn ppn(&self, lpn: u32) -> u32 {
        let (row, turn) = self.planes.split(lpn);
        self.stripe[turn as usize] * self.pages_per_plane + row
    }
}

/// Write logical pages `0..count` of a pristine drive in stripe order. `None` when the drive is
/// not pristine or a plane cannot keep `reserve` blocks and `more` pages free; nothing has
/// changed then.
pub(super) fn fill(
    flash: &mut Flash,
    allocator: &mut Allocator,
    count: u32,
    reserve: u32,
    more: u32,
    plan: &mut Plan,
) -> Option<Filled> {
    let stripe = allocator.stripe().to_vec();
    let planes = stripe.len() as u32;
    let pages_per_plane = flash.geometry.pages_per_plane();
    let kept = (reserve + 1) * flash.geometry.pages_per_block.get() + more;
    if !flash.is_pristine() || count.div_ceil(planes) + kept > pages_per_plane {
        return None;
    }
    for (turn, &plane) in (0..count.min(planes)).zip(&stripe) {
        let pages = (count - turn).div_ceil(planes);
        flash.fill_plane(plane, pages, move |page| page * planes + turn);
    }
    allocator.skip(count);
    plan.counts.0[Kind::Program as usize][Cause::Host as usize] += u64::from(count);
    Some(Filled { stripe, planes: Divisor::new(planes), pages_per_plane })
}
