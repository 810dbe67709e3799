//! `record`: what earlier resumes touched stays in the image, the rest leaves. The first time
//! nothing is known, and all leave.

use super::{Page, Policy, no_argument};

struct Record;

pub(super) fn make(argument: Option<&str>) -> Result<Box<dyn Policy>, String> {
    no_argument(argument).map(|()| Box::new(Record) as Box<dyn Policy>)
}

impl Policy for Record {
    fn leaves(&self, page: &Page) -> bool {
        !page.touched
    }

    fn learns(&self) -> bool {
        true
    }
}
