//! What can be wrong with a point that travels, found before anything boots.

use std::path::Path;
use std::process::{Command, Stdio};

use study::{Amount, AxisValue, Failure, Setup, Travel, name_of};

use crate::travel::file_system::{self, find_program};
use crate::travel::{COVERED, MOUNT, Timed, ack, memory};

/// Linux refuses fewer bytes of dirty memory than two pages.
const DIRTY_BYTES_MIN: u64 = 8192;

/// Refuse what no guest of this machine can do.
pub(super) fn travel(setup: &Setup, travel: &Travel) -> Result<(), Failure> {
    let at = |key: &str| {
        let key = key.to_string();
        move |failure: Failure| setup.at(&["travel", &key], failure)
    };
    memory::check(travel.memory.0.0 >> 20).map_err(at("memory"))?;
    if let Some(kind) = &travel.file_system {
        file_system::check(&name_of(kind)).map_err(at("file_system"))?;
    } else {
        for (key, is_set) in [
            ("mkfs_options", !travel.mkfs_options.is_empty()),
            ("mkfs_discard", travel.mkfs_discard),
            ("mount_options", !travel.mount_options.is_empty()),
        ] {
            if is_set {
                let failure = Failure::input(format!("travel.{key} without a file system"));
                return Err(at(key)(failure.expected("travel.file_system, such as \"ext4\"")));
            }
        }
    }
    for (key, limit) in [("dirty", travel.dirty), ("dirty_background", travel.dirty_background)] {
        limit.map_or(Ok(()), dirty).map_err(at(key))?;
    }
    if let (Some(scheduler), Some(elevator)) =
        (&travel.scheduler, study::elevator_of(&setup.point.device))
    {
        let failure = Failure::input(format!(
            "travel.scheduler = \"{}\" above the elevator {elevator}",
            name_of(scheduler)
        ));
        let failure = failure.expected("one of the two: an elevator gets what no scheduler saw");
        return Err(at("scheduler")(failure));
    }
    faults(travel).map_err(at("faults"))?;
    for (name, value) in &travel.arguments {
        argument(name, value)
            .map_err(|failure| setup.at(&["travel", "arguments", name], failure))?;
    }
    if let Some(name) = travel.program.executable() {
        installed(name).map_err(at("program"))?;
    }
    if travel.command.trim().is_empty() {
        let failure = Failure::input("travel.command is empty");
        return Err(at("command")(failure.expected("a shell's command line, such as \"sync\"")));
    }
    command_line("travel.command", &travel.command).map_err(at("command"))?;
    command_line("travel.setup", &travel.setup).map_err(at("setup"))
}

/// The faults of the only disk.
pub(super) fn faults(travel: &Travel) -> Result<Vec<Timed>, Failure> {
    let parsed = travel.faults.iter().map(|text| {
        let failure = |why| {
            Failure::input(format!("fault \"{text}\": {why}"))
                .expected("such as \"error op=write at=2s for=100ms\"")
        };
        let fault = Timed::parse(text).map_err(failure)?;
        match fault.disk() {
            0 => Ok(fault),
            _ => Err(failure("a study's guest has one disk, vda".into())),
        }
    });
    parsed.collect()
}

fn dirty(limit: Amount) -> Result<(), Failure> {
    let fits = match limit {
        Amount::Percent(percent) => (1.0..=100.0).contains(&percent) && percent.fract() == 0.0,
        Amount::Size(size) => size.0.0 >= DIRTY_BYTES_MIN,
    };
    if fits {
        return Ok(());
    }
    Err(Failure::input(format!("a limit of {limit} for dirty memory"))
        .expected("a whole share from 1% to 100%, or a size of 8KiB or more"))
}

/// A name that a shell takes for a variable's, and that is not taken, and one value.
fn argument(name: &str, value: &AxisValue) -> Result<(), Failure> {
    if !value.is_single() {
        let wrong = Failure::input(format!("travel.arguments.{name} is {}", value.label()));
        return Err(wrong
            .expected("one number or text")
            .help(format!("several are swept: [sweep] \"travel.arguments.{name}\" = [...]")));
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    if begins && name.chars().all(plain) {
        return Ok(());
    }
    Err(Failure::input(format!("`{name}` cannot be a variable of travel.command"))
        .expected("a small letter first, then letters, digits and underscores"))
}

fn installed(name: &str) -> Result<(), Failure> {
    if find_program(name, Path::new("/")).is_some() {
        return Ok(());
    }
    Err(Failure::machine(format!("{name} is not installed; the guest has this machine's files"))
        .help(format!("sudo apt-get install {name}")))
}

/// A shell can read it, and knows what its first word is, where that is a plain word.
pub(super) fn command_line(key: &str, text: &str) -> Result<(), Failure> {
    let shell = |arguments: &[&str]| {
        let mut command = Command::new("/bin/sh");
        command.args(arguments).env_clear().env("PATH", crate::travel::PROGRAMS);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).output()
    };
    let failed = |why: std::io::Error| Failure::machine(format!("cannot run /bin/sh: {why}"));
    let read = shell(&["-n", "-c", text]).map_err(failed)?;
    if !read.status.success() {
        let said = String::from_utf8_lossy(&read.stderr);
        return Err(Failure::input(format!("no shell can read {key}: {}", said.trim()))
            .expected("a command line of /bin/sh"));
    }
    let first = text.split_whitespace().next().unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || "+-._/".contains(c);
    if first.is_empty() || !first.chars().all(plain) || is_of_the_guest(first) {
        return Ok(());
    }
    if let Some(folder) = COVERED.iter().find(|folder| Path::new(first).starts_with(folder)) {
        return Err(Failure::input(format!(
            "{key} begins with `{first}`, but the guest has a {folder} of its own"
        ))
        .expected("a program outside of it, or one that travel.setup makes on the file system"));
    }
    let known = shell(&["-c", "command -v -- \"$0\"", first]).map_err(failed)?;
    if known.status.success() {
        return Ok(());
    }
    Err(Failure::input(format!("{key} begins with `{first}`, which is no program here"))
        .expected("a program of this machine: the guest has its files")
        .help(format!("install it, such as by: sudo apt-get install {first}")))
}

/// What is there in the guest alone: on the file system under test, which is the shell's folder
/// there, or a helper of ours.
fn is_of_the_guest(word: &str) -> bool {
    let is_relative = word.contains('/') && !word.starts_with('/');
    is_relative || Path::new(word).starts_with(MOUNT) || word == ack::NAME
}

#[cfg(test)]
mod tests {
    use config::Size;
    use sim::Bytes;

    use super::*;

    #[test]
    fn a_command_line_is_one_that_the_shell_knows() {
        for good in ["", "sh -c 'exit 1'", "cd / && ls", "for i in 1 2; do :; done", "X=1 sh"] {
            assert_eq!(command_line("travel.command", good), Ok(()), "{good}");
        }
        let told = |text: &str| command_line("travel.setup", text).unwrap_err().to_string();
        assert!(told("no-such-program -x").contains("begins with `no-such-program`"));
        for good in ["./run.sh", "../mnt/run.sh", "/mnt/run.sh -x", "blocklab-ack start"] {
            assert_eq!(command_line("travel.command", good), Ok(()), "{good}");
        }
        for covered in COVERED.into_iter().filter(|&folder| folder != MOUNT) {
            assert!(told(&format!("{covered}/x.sh")).contains("of its own"), "{covered}");
        }
        assert!(told("/mntx/run.sh").contains("no program here"));
        assert!(told("if true").contains("no shell can read travel.setup"));
    }

    #[test]
    fn limits_have_bounds() {
        assert!(dirty(Amount::Percent(0.5)).is_err() && dirty(Amount::Percent(101.0)).is_err());
        assert!(dirty(Amount::Size(Size(Bytes(4096)))).is_err());
        assert_eq!(dirty(Amount::Percent(10.0)), Ok(()));
    }

    #[test]
    fn a_variable_takes_no_name_that_is_taken() {
        let value = |text: &str| serde_json::from_str::<AxisValue>(text).unwrap();
        assert_eq!(argument("clients", &value("4")), Ok(()));
        for taken in ["PATH", "1st", "a-b", ""] {
            assert!(argument(taken, &value("4")).is_err(), "{taken}");
        }
        for several in ["[1, 2]", "{\"a\": 1}"] {
            assert!(argument("clients", &value(several)).is_err(), "{several}");
        }
    }
}
