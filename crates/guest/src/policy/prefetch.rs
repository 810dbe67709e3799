//! `prefetch`: all pages leave, those that earlier resumes touched first, so that they lie together
//! in swap; they are fetched as soon as the machine is back, while programs already run.

use super::{Page, Policy, no_argument};

struct Prefetch;

pub(super) fn make(argument: Option<&str>) -> Result<Box<dyn Policy>, String> {
    no_argument(argument).map(|()| Box::new(Prefetch) as Box<dyn Policy>)
}

impl Policy for Prefetch {
    fn leaves(&self, _: &Page) -> bool {
        true
    }

    fn fetches(&self) -> bool {
        true
    }

    fn learns(&self) -> bool {
        true
    }
}
