//! The `blocklab` binary: `travel` starts it once more, as the first process of its guest.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use study::Failure;

use crate::python;

/// What begins an executable of Linux.
const ELF: &[u8] = b"\x7fELF";

/// This process runs the binary, not a program that has this crate inside, such as Python.
static RUNS: AtomicBool = AtomicBool::new(false);

/// This process runs the binary.
pub(crate) fn runs() {
    RUNS.store(true, Ordering::Relaxed);
}

/// Where the binary is: what runs now, or what `make setup` put beside the interpreter that runs.
pub(crate) fn find() -> Result<PathBuf, Failure> {
    let running = std::env::current_exe().map_err(|why| {
        Failure::machine(format!("cannot find the program that is running: {why}"))
    })?;
    if RUNS.load(Ordering::Relaxed) {
        return Ok(running);
    }
    beside(Path::new(&python::interpreter())).ok_or_else(|| {
        let what = "the guest's first process is the program that runs, and here that is";
        Failure::machine(format!("{what} {}", running.display()))
            .expected("the binary `blocklab`, beside the Python that runs or called itself")
            .help("make setup in blocklab's repository, then .venv/bin/blocklab travel ...")
    })
}

/// The binary in the interpreter's folder. A package of Python puts a script of that name there.
fn beside(interpreter: &Path) -> Option<PathBuf> {
    let folder = interpreter.parent().filter(|folder| folder.is_absolute())?;
    let binary = folder.join("blocklab");
    let mut begin = [0; ELF.len()];
    std::io::Read::read_exact(&mut std::fs::File::open(&binary).ok()?, &mut begin).ok()?;
    (begin == *ELF).then_some(binary)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binary_beside_python_is_found_and_a_script_is_not() {
        let folder = std::env::temp_dir().join(format!("blocklab-beside-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let python = folder.join("python");
        let with = |content: &[u8]| {
            std::fs::write(folder.join("blocklab"), content).unwrap();
            beside(&python)
        };
        let (none, script) = (beside(&python), with(b"#!/usr/bin/python3\n"));
        let binary = with(&[ELF, b"..."].concat());
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!((none, script, binary), (None, None, Some(folder.join("blocklab"))));
        assert_eq!(beside(Path::new("python3")), None, "nothing of the present folder is run");
    }
}
