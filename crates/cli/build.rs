//! Names the commit that is built, for `--version`.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // A commit would build everything anew, where nobody asks for it.
    if std::env::var("PROFILE").as_deref() != Ok("release") {
        return;
    }
    let git = |args: &[&str]| {
        let out =
            Command::new("git").args(args).output().ok().filter(|out| out.status.success())?;
        String::from_utf8(out.stdout).ok().map(|text| text.trim().to_string())
    };
    // Grows with each commit and checkout. What is built from an archive has none.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]) {
        println!("cargo:rerun-if-changed={log}");
    }
    if let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) {
        println!("cargo:rustc-env=BLOCKLAB_COMMIT={commit}");
    }
}
