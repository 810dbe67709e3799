//! `kind`: pages of some kinds leave.

use super::process::Kind;
use super::{Page, Policy};

struct Kinds(Vec<Kind>);

pub(super) fn make(argument: Option<&str>) -> Result<Box<dyn Policy>, String> {
    let kinds = argument.unwrap_or_default().split(',').map(|name| match name {
        "heap" => Ok(Kind::Heap),
        "stack" => Ok(Kind::Stack),
        "anonymous" => Ok(Kind::Anonymous),
        "file" => Ok(Kind::File),
        "shared" => Ok(Kind::Shared),
        _ => Err(format!("`{name}`: expected heap, stack, anonymous, file or shared")),
    });
    Ok(Box::new(Kinds(kinds.collect::<Result<_, _>>()?)))
}

impl Policy for Kinds {
    fn leaves(&self, page: &Page) -> bool {
        self.0.contains(&page.kind)
    }
}
