//! `all-out`: no page of a program is in the image; all come back on demand.

use super::{Page, Policy, no_argument};

struct AllOut;

pub(super) fn make(argument: Option<&str>) -> Result<Box<dyn Policy>, String> {
    no_argument(argument).map(|()| Box::new(AllOut) as Box<dyn Policy>)
}

impl Policy for AllOut {
    fn leaves(&self, _: &Page) -> bool {
        true
    }
}
