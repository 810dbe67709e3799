//! QEMU as a process: always ended, and its last lines shown where it fails.

use std::process::Child;

use config::Failure;

/// Lines of a guest that an error shows.
const LAST_LINES: usize = 5;

/// What a kernel says when it gives up.
const PANIC: &str = "Kernel panic - ";

/// A process that is killed and waited for.
pub(crate) struct GuestProcess(pub(crate) Child);

impl Drop for GuestProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A failure with the last of what a guest said.
pub(crate) fn with_last_lines<'a>(
    failure: Failure,
    lines: impl IntoIterator<Item = &'a str>,
) -> Failure {
    let said: Vec<&str> = lines.into_iter().filter(|line| !line.trim().is_empty()).collect();
    // What a kernel says behind its panic tells little.
    let panic = said.iter().position(|line| line.contains(PANIC)).map(|at| at + 2);
    let end = panic.unwrap_or(said.len()).min(said.len());
    match &said[end.saturating_sub(LAST_LINES)..end] {
        [] => failure.help("it said nothing; a slow machine needs a longer --wall-limit"),
        last => failure.help(format!("its last lines:\n{}", last.join("\n"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_shown_and_silence_is_told() {
        let told = |lines: &[&str]| {
            let lines = lines.iter().copied();
            with_last_lines(Failure::machine("x"), lines).help.unwrap_or_default()
        };
        assert!(told(&[" ", ""]).starts_with("it said nothing"));
        let all = ["1", "", "2", "3", "4", "5", "6"];
        assert_eq!(told(&all), "its last lines:\n2\n3\n4\n5\n6");
        let mut all: Vec<&str> = "a b c d".split(' ').collect();
        all.push("[ 9.1] Kernel panic - not syncing: no init");
        all.extend("CPU: RIP: RAX: RBX: RCX: end".split(' '));
        assert!(told(&all).starts_with("its last lines:\nb\nc\nd\n[ 9.1]"), "{}", told(&all));
    }
}
