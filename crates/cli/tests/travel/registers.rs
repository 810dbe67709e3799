//! Floating-point registers of a guest's programs, which its kernel leaves in the host's processes.

use std::path::Path;
use std::process::Command;

use crate::support::{Folder, can_travel};

#[test]
fn programs_keep_their_floating_point_registers() {
    if !can_travel(&["cc"]) {
        return;
    }
    // The guest has temporary folders of its own.
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("registers");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/travel/registers.c");
    let mut cc = Command::new("cc");
    let built = cc.args(["-O1", "-pthread", "-o"]).arg(&program).arg(source).status();
    assert!(built.unwrap().success());
    let script = "$0 yield threads & $0 fault fork signal && wait $! && echo all";
    let args = ["part.toml", "--", "sh", "-c", script, program.to_str().unwrap()];
    let journey = Folder::new().travel(&args).good();
    assert!(journey.stdout.ends_with("kept\nall\n"), "{}", journey.stdout);
}
