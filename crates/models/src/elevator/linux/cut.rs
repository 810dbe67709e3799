//! Requests of the host that are too long for one request of the device.

use sim::{Op, Request};

use super::pool::{NONE, Piece, Pool};

/// The pieces of a request of the host.
#[derive(Debug)]
pub(super) struct Cut {
    rest: Request,
    longest: u32,
    split: u32,
    over: bool,
}

impl Cut {
    pub(super) fn new(pool: &mut Pool, request: Request, longest: u32) -> Cut {
        if request.op == Op::Discard || request.sectors <= longest {
            return Cut { rest: request, longest: request.sectors, split: NONE, over: false };
        }
        let split = pool.split(request.sectors.div_ceil(longest));
        Cut { rest: request, longest, split, over: false }
    }

    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// Where the next piece begins.
    pub(super) fn next_sector(&self) -> u64 {
        self.rest.lba.0
    }
}

impl Iterator for Cut {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        if self.over {
            return None;
        }
        let sectors = self.rest.sectors.min(self.longest);
        let what = Request { sectors, ..self.rest };
        self.rest.lba.0 += u64::from(sectors);
        self.rest.sectors -= sectors;
        self.over = self.rest.sectors == 0;
        Some(Piece { what, split: self.split })
    }
}
