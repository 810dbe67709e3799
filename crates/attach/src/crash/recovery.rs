//! What a guest does with a medium: mount it, let the file system's own check look, repair it where
//! that finds something, and ask the check of the user.

use config::Cause;
use study::Failure;

use crate::travel::file_system::find_program;
use crate::travel::{Companion, Options, Settings, journey};

use super::replay::Medium;
use super::{Ack, Template, Verdict};
use crate::session::{DeviceOptions, Start};

/// A file system's own check, which changes nothing, and what repairs it; `$DISK` is the disk.
struct Tools {
    name: &'static str,
    check: &'static str,
    repair: &'static str,
    package: &'static str,
}

const fn extended(name: &'static str) -> Tools {
    // 1 and 2 of e2fsck: errors were corrected.
    let repair = "e2fsck -fy $DISK; [ $? -le 2 ]";
    Tools { name, check: "e2fsck -fn $DISK", repair, package: "e2fsprogs" }
}

const TOOLS: [Tools; 5] = [
    extended("ext2"),
    extended("ext3"),
    extended("ext4"),
    Tools {
        name: "xfs",
        check: "xfs_repair -n $DISK",
        repair: "xfs_repair $DISK",
        package: "xfsprogs",
    },
    Tools {
        name: "btrfs",
        check: "btrfs check --readonly $DISK",
        // Its repair is not for use by anybody without advice.
        repair: "false",
        package: "btrfs-progs",
    },
];

/// Exit codes of the script say what it found.
const VERDICTS: [Verdict; 4] = [Verdict::Clean, Verdict::Repaired, Verdict::Lost, Verdict::Refused];

/// Mounting comes first: it is what brings a journal back. The output is for people.
const SCRIPT: &str = r#"
DISK=/dev/vda; found=0; cat > /run/acks
mounts() { mount -t "$FS" -o "$OPTIONS" $DISK /mnt; }
intact() { eval "$FSCK"; }
repair() { eval "$REPAIR"; }
if [ -n "$FS" ]; then
    if ! { mounts && umount /mnt && intact; } > /run/said 2>&1; then
        tail -n 20 /run/said; found=1
        if ! repair > /run/said 2>&1; then tail -n 20 /run/said; exit 3; fi
    fi
    if ! mounts > /run/said 2>&1; then cat /run/said; exit 3; fi
    cd /mnt || exit 3
fi
if [ -n "$CHECK" ]; then
    export BLOCKLAB_ACKS=/run/acks
    /bin/sh -c "$CHECK" < /dev/null || exit 2
fi
exit $found
"#;

/// So much of what a guest said is told.
const TOLD_MAX: usize = 2000;

/// What a guest found.
pub(crate) struct Found {
    pub(super) verdict: Verdict,
    pub(super) said: String,
    pub(super) lost_writes: usize,
    pub(super) unanswered: usize,
}

/// How media are looked at.
#[derive(Clone)]
pub(super) struct Recovery {
    /// As the program's guest, but for what it does.
    like: Options,
}

impl Recovery {
    /// For media that a guest of `run` leaves.
    pub(super) fn new(run: &Options, check: Option<String>) -> Result<Recovery, Failure> {
        let file_system = run.mkfs.as_ref().or(run.settings.mount.as_ref());
        if file_system.is_none() && check.is_none() {
            return Err(Failure::input("there is nothing to check")
                .expected("a file system, which has a check of its own, or a check of yours")
                .help("--mkfs ext4, --check CMD, or both"));
        }
        let mut environment = run.settings.environment.clone();
        let mut set = |name: &str, value: &str| environment.insert(name.into(), value.into());
        if let Some(name) = file_system {
            let tools = tools(name)?;
            set("FS", name);
            set("FSCK", tools.check);
            set("REPAIR", tools.repair);
            set(
                "OPTIONS",
                Some(run.settings.mount_options.as_str()).filter(|o| !o.is_empty()).unwrap_or("rw"),
            );
        }
        set("CHECK", check.as_deref().unwrap_or_default());
        let settings = Settings { environment, mount: None, ..run.settings.clone() };
        let like = Options {
            read_ahead_kib: None,
            mkfs: None,
            fill: false,
            record: None,
            record_queue: None,
            command: ["/bin/sh", "-c", SCRIPT].map(String::from).into(),
            host: None,
            faults: Vec::new(),
            settings,
            ..run.clone()
        };
        Ok(Recovery { like })
    }

    /// What a guest finds on `medium`, of which `acks` were promised.
    pub(super) fn look(
        &self,
        medium: Medium,
        acks: &[Ack],
        template: &Template,
        check: &dyn Fn() -> Result<(), Failure>,
    ) -> Result<Found, Failure> {
        let Medium { disk, lost_writes, unanswered } = medium;
        let input = acks.iter().flat_map(|ack| format!("{}\n", ack.text).into_bytes()).collect();
        let options = Options { input, ..self.like.clone() };
        let start = Start { store: disk.store, at: disk.at, next_id: disk.next_id };
        let devices = DeviceOptions::only(template.with(disk.device), start);
        let left = journey(devices, options, &Companion { check, ..Companion::default() });
        let (verdict, said) = match left {
            Ok(left) => match VERDICTS.get(usize::from(left.outcome.code)) {
                Some(verdict) => (*verdict, left.said.concat()),
                None => (Verdict::Lost, left.said.concat()),
            },
            // The kernel does not survive the medium, or hangs.
            Err(why) if why.cause == Some(Cause::GuestFailed) => (Verdict::Refused, why.message),
            Err(why) => return Err(why),
        };
        let said = said.trim();
        let from = said.char_indices().rev().nth(TOLD_MAX - 1).map_or(0, |(at, _)| at);
        let said = said[from..].to_string();
        Ok(Found { verdict, said, lost_writes, unanswered })
    }
}

/// Refuse a file system without a check of its own, or whose check is not installed.
pub(crate) fn check_of(name: &str) -> Result<(), Failure> {
    tools(name).map(|_| ())
}

fn tools(name: &str) -> Result<&'static Tools, Failure> {
    let known = TOOLS.each_ref().map(|tools| tools.name);
    let tools = TOOLS.iter().find(|tools| tools.name == name).ok_or_else(|| {
        Failure::input(format!("no check of its own is known for {name}"))
            .expected(known.join(", "))
    })?;
    let program = tools.check.split(' ').next().unwrap_or_default();
    find_program(program, std::path::Path::new("/")).map(|_| tools).ok_or_else(|| {
        Failure::machine(format!("{program} is not installed; the guest has this machine's files"))
            .help(format!("sudo apt-get install {}", tools.package))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_without_a_known_check_is_refused() {
        let failure = tools("jfs").err().unwrap();
        assert!(failure.expected.unwrap().contains("btrfs"));
    }
}
