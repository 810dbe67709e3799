//! Files that verbs write.

use std::path::Path;

use study::Failure;

/// As [`study::replace`], with the path in the failure.
pub(crate) fn replace(path: &Path, content: &[u8]) -> Result<(), Failure> {
    study::replace(path, content)
        .map_err(|why| Failure::machine(format!("cannot write {}: {why}", path.display())))
}
