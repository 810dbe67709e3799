//! `group`: the pages of the programs of some control groups leave.

use super::{Page, Policy};

struct Groups(Vec<String>);

pub(super) fn make(argument: Option<&str>) -> Result<Box<dyn Policy>, String> {
    let bare = |name: &str| name.trim_matches('/').to_string();
    let names: Vec<String> = argument.unwrap_or_default().split(',').map(bare).collect();
    if names.iter().any(String::is_empty) {
        return Err("expected control groups, as in /proc/PID/cgroup, with commas between".into());
    }
    Ok(Box::new(Groups(names)))
}

impl Policy for Groups {
    fn leaves(&self, page: &Page) -> bool {
        // What is below a group is of it, too.
        self.0.iter().any(|name| {
            let rest = page.group.strip_prefix(name.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }
}
