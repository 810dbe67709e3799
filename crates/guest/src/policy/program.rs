//! `program`: the pages of some programs leave.

use super::{Page, Policy};

struct Programs(Vec<String>);

pub(super) fn make(argument: Option<&str>) -> Result<Box<dyn Policy>, String> {
    let names: Vec<String> = argument.unwrap_or_default().split(',').map(str::to_string).collect();
    if names.iter().any(String::is_empty) {
        return Err("expected names of programs, as in /proc/PID/comm, with commas between".into());
    }
    Ok(Box::new(Programs(names)))
}

impl Policy for Programs {
    fn leaves(&self, page: &Page) -> bool {
        self.0.iter().any(|name| name == page.program)
    }
}
