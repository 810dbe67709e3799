//! `kernel`: what the kernel takes back by its own choice, as the paper's way does.

use super::{Page, Policy};

struct Kernel(u64);

pub(super) fn make(argument: Option<&str>) -> Result<Box<dyn Policy>, String> {
    let bytes = argument.map_or(Ok(0), str::parse).map_err(|_| "expected a number of bytes")?;
    Ok(Box::new(Kernel(bytes)))
}

impl Policy for Kernel {
    fn leaves(&self, _: &Page) -> bool {
        false
    }

    fn kernel_bytes(&self) -> Option<u64> {
        Some(self.0)
    }
}
