//! Programs that would take the time from where it is not the guest's.

use std::path::Path;

use study::Failure;

const WORD: &str = "clocksource";

/// fio's clock is the processor's counter unless it is told otherwise. That is this machine's, and
/// a run that is to take seconds of it may never end in virtual time.
///
/// # Errors
/// When fio is run, by itself or by another program (`sh -c`, `time`, `env`), and neither an
/// argument nor a job file names a clock.
pub(super) fn check(command: &[String], here: &Path) -> Result<(), Failure> {
    let words: Vec<&str> = command.iter().flat_map(|word| word.split_whitespace()).collect();
    // As the argument of another program it is a word like any other, unless its own follow it.
    let does = |next: &str| next.starts_with("--") || job(&here.join(next)).is_some();
    let runs = |at: usize| {
        let before = at.checked_sub(1).map(|before| words[before]);
        before.is_none_or(begins) || words.get(at + 1).is_some_and(|next| does(next))
    };
    if !(0..words.len()).any(|at| is_named(words[at], "fio") && runs(at)) {
        return Ok(());
    }
    let says = |word: &str| {
        word.contains(WORD) || job(&here.join(word)).is_some_and(|job| job.contains(WORD))
    };
    if words.iter().any(|word| says(word)) {
        return Ok(());
    }
    Err(Failure::input("fio would take the time from the processor, which is not the guest's")
        .expected("an argument `--clocksource=clock_gettime`, or that line in the job file")
        .help("fio --clocksource=clock_gettime ..."))
}

/// Behind this word of a shell begins a command.
fn begins(word: &str) -> bool {
    let word = word.trim_matches(['"', '\'']);
    word.ends_with([';', '&', '|', '(', '{'])
        || word.contains('=')
        || ["-c", "then", "do", "else", "!", "time", "env", "exec"].contains(&word)
}

fn is_named(word: &str, name: &str) -> bool {
    Path::new(word).file_name().is_some_and(|file| file == name)
}

/// The text of a job file, which has sections.
fn job(file: &Path) -> Option<String> {
    let short = file.metadata().is_ok_and(|data| data.is_file() && data.len() < 1 << 20);
    let text = short.then(|| std::fs::read_to_string(file).ok())?;
    text.filter(|text| text.contains('['))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fio_is_told_its_clock() {
        let folder = std::env::temp_dir().join(format!("clock-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("with"), "[global]\nclocksource=clock_gettime\n").unwrap();
        std::fs::write(folder.join("without"), "[global]\nrw=read\n").unwrap();
        let passes = |words: &[&str]| {
            let command: Vec<String> = words.iter().map(|word| word.to_string()).collect();
            check(&command, &folder).is_ok()
        };
        assert!(passes(&["fio", "--clocksource=clock_gettime", "--rw=read"]));
        assert!(passes(&["/usr/bin/fio", "with"]));
        assert!(passes(&["sh", "-c", "sync; fio with > out"]));
        assert!(passes(&["cp", "fio", "there"]));
        assert!(passes(&["sh", "-c", "ls fio; echo fio"]));
        assert!(!passes(&["fio", "--rw=read"]));
        assert!(!passes(&["fio", "without"]));
        assert!(!passes(&["sh", "-c", "sync; fio without > out"]));
        // Its job is where the shell goes first.
        assert!(!passes(&["sh", "-c", "cd there && fio job"]));
        assert!(!passes(&["env", "A=1", "time", "fio", "--rw=read"]));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
