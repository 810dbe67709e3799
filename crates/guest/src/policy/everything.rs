//! `everything`: all pages are in the image. The control for what the others save.

use super::{Page, Policy, no_argument};

struct Everything;

pub(super) fn make(argument: Option<&str>) -> Result<Box<dyn Policy>, String> {
    no_argument(argument).map(|()| Box::new(Everything) as Box<dyn Policy>)
}

impl Policy for Everything {
    fn leaves(&self, _: &Page) -> bool {
        false
    }
}
