//! What `doctor` looks at, one function each.

use std::path::{Path, PathBuf};
use std::process::Command;

use attach::travel::kernel;

use super::Check;
use crate::python;

/// Below this a study of a large drive swaps.
const MEMORY_MIN_BYTES: u64 = 1 << 30;
/// Below this the cache of preconditioned drives does not fit.
const DISK_MIN_BYTES: u64 = 2 << 30;

/// Look at everything, in the order it is shown.
pub(super) fn all() -> Vec<Check> {
    vec![
        cores(),
        memory(),
        output_folder(),
        disk_space(),
        cache_folder(),
        python_package(),
        fio(),
        realtime(),
        nbd_clients(),
        block_devices(),
        ublk(),
        device("KVM", "/dev/kvm", "guests of the tests at full speed", "kvm"),
        io_uring(),
        guest_kernel(),
        file_systems(),
        boot(),
        boot_uefi(),
        leftovers(),
    ]
}

fn cores() -> Check {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Check {
        name: "cores",
        unlocks: "parallel runs",
        ok: true,
        required: true,
        found: format!("{cores}: as many runs at a time"),
        command: None,
    }
}

fn memory() -> Check {
    let free = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| available(&text));
    let ok = free.is_none_or(|bytes| bytes >= MEMORY_MIN_BYTES);
    Check {
        name: "memory",
        unlocks: "large drives: up to 12 bytes per flash page",
        ok,
        required: false,
        found: free.map_or("unknown".into(), |bytes| format!("{} free", gib(bytes))),
        command: (!ok).then(|| "close other programs, or run studies with --jobs 1".into()),
    }
}

/// `MemAvailable` of Linux's meminfo.
fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

fn output_folder() -> Check {
    let folder = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    let made = writable(folder);
    Check {
        name: "output folder",
        unlocks: "results: they are written to out/ below the current folder",
        ok: made.is_ok(),
        required: true,
        command: made.is_err().then(|| "cd to a folder you may write to, or use --out DIR".into()),
        found: made.map_or_else(|why| why, |_| "writable".into()),
    }
}

fn disk_space() -> Check {
    // df speaks the same portable format everywhere; the standard library cannot ask.
    let out = Command::new("df").args(["-Pk", "."]).output();
    let text = out.map(|out| String::from_utf8_lossy(&out.stdout).into_owned());
    let free = text.ok().and_then(|text| df_free(&text));
    let ok = free.is_none_or(|bytes| bytes >= DISK_MIN_BYTES);
    Check {
        name: "disk space",
        unlocks: "keeping preconditioned drives between runs",
        ok,
        required: false,
        found: free.map_or("unknown".into(), |bytes| format!("{} free", gib(bytes))),
        command: (!ok).then(|| "free some space here, or use --out DIR elsewhere".into()),
    }
}

fn cache_folder() -> Check {
    let found = study::Cache::folder().map_or(Err("no home folder".into()), writable);
    Check {
        name: "cache folder",
        unlocks: "preparing a drive once instead of before every run",
        ok: found.is_ok(),
        required: false,
        command: found.is_err().then(|| "export XDG_CACHE_HOME=$PWD/out/cache".into()),
        found: found.unwrap_or_else(|why| why),
    }
}

/// The folder, which is made where there is none, if something can be written to it.
fn writable(folder: PathBuf) -> Result<String, String> {
    let probe = folder.join(format!(".doctor-{}", std::process::id()));
    let made = std::fs::create_dir_all(&folder).and_then(|()| std::fs::write(&probe, b""));
    let _ = std::fs::remove_file(&probe);
    let place = folder.display().to_string();
    made.map(|()| place.clone()).map_err(|why| format!("{place}: {why}"))
}

/// The available bytes in the answer of `df -Pk`.
fn df_free(text: &str) -> Option<u64> {
    let kib: u64 = text.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()?;
    Some(kib << 10)
}

fn gib(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / (1u64 << 30) as f64)
}

fn python_package() -> Check {
    let found = python::find();
    Check {
        name: "reports",
        unlocks: "reports and figures (blocklab report)",
        ok: found.is_ok(),
        required: false,
        command: found.is_err().then(python::install_command),
        found: match found {
            Ok(version) => format!("Python package blocklab {version}"),
            Err(why) => why,
        },
    }
}

fn fio() -> Check {
    let out = Command::new("fio").arg("--version").output();
    let version = out.ok().filter(|out| out.status.success());
    Check {
        name: "fio",
        unlocks: "running a study's job on a real device, to compare",
        ok: version.is_some(),
        required: false,
        command: version.is_none().then(|| "sudo apt-get install fio".into()),
        found: version.map_or("not in PATH".into(), |out| {
            String::from_utf8_lossy(&out.stdout).trim().to_owned()
        }),
    }
}

fn realtime() -> Check {
    let raised = attach::realtime_permitted();
    Check {
        name: "real-time priority",
        unlocks: "attach that is in time on a busy machine",
        ok: raised.is_ok(),
        required: false,
        command: raised
            .is_err()
            .then(|| "sudo setcap cap_sys_nice+ep $(command -v blocklab)".into()),
        found: match raised {
            Ok(()) => "permitted".into(),
            Err(why) => why,
        },
    }
}

fn nbd_clients() -> Check {
    let missing = ["nbdinfo", "nbdcopy", "qemu-img", "qemu-io"]
        .into_iter()
        .filter(|tool| Command::new(tool).arg("--version").output().is_err());
    let missing: Vec<&str> = missing.collect();
    Check {
        name: "NBD clients",
        unlocks: "looking at attached devices, and copying to and from them",
        ok: missing.is_empty(),
        required: false,
        found: if missing.is_empty() {
            "libnbd and QEMU".into()
        } else {
            format!("no {}", missing.join(", no "))
        },
        command: (!missing.is_empty()).then(|| "sudo apt-get install libnbd-bin qemu-utils".into()),
    }
}

fn block_devices() -> Check {
    let open = |path: &'static str| {
        let opened = std::fs::OpenOptions::new().read(true).write(true).open(path);
        opened.err().map(|why| (path, why))
    };
    let refused = ["/dev/fuse", "/dev/loop-control"].into_iter().find_map(open);
    Check {
        name: "block devices",
        unlocks: "attach --as loop: a real block device of this machine",
        ok: refused.is_none(),
        required: false,
        command: refused.as_ref().map(|(_, why)| match why.kind() {
            std::io::ErrorKind::NotFound => "sudo modprobe -a fuse loop".into(),
            _ => "sudo $(command -v blocklab) attach PART --as loop".into(),
        }),
        found: match refused {
            None => "FUSE and loop".into(),
            Some((path, why)) => format!("{path}: {why}"),
        },
    }
}

fn ublk() -> Check {
    let opened = std::fs::OpenOptions::new().read(true).write(true).open("/dev/ublk-control");
    let left = attach::frontend::ublk::abandoned();
    let left: Vec<String> = left.iter().map(|number| format!("/dev/ublkc{number}")).collect();
    let ok = opened.is_ok() && left.is_empty();
    Check {
        name: "ublk",
        unlocks: "attach --as ublk: a block device without FUSE and loop in between",
        ok,
        required: false,
        command: (!ok).then(|| match &opened {
            Ok(_) => "sudo $(command -v blocklab) attach PART --as ublk --run true".into(),
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => {
                "sudo modprobe ublk_drv (Linux 6.5 or newer)".into()
            }
            Err(_) => "sudo $(command -v blocklab) attach PART --as ublk".into(),
        }),
        found: match opened {
            Ok(_) if left.is_empty() => "/dev/ublk-control".into(),
            Ok(_) => format!("{} left of a session that was killed", left.join(", ")),
            Err(why) => format!("/dev/ublk-control: {why}"),
        },
    }
}

fn device(name: &'static str, path: &str, unlocks: &'static str, module: &str) -> Check {
    let opened = std::fs::OpenOptions::new().read(true).write(true).open(path);
    Check {
        name,
        unlocks,
        ok: opened.is_ok(),
        required: false,
        command: opened.is_err().then(|| match Path::new(path).exists() {
            // Linux gives such a device to a group of the module's name.
            true => format!("sudo usermod -aG {module} $USER, then log in again"),
            false => format!("sudo modprobe {module}"),
        }),
        found: match opened {
            Ok(_) => path.into(),
            Err(why) => format!("{path}: {why}"),
        },
    }
}

fn io_uring() -> Check {
    // Tried: a switch of the kernel, a container's filter or an old kernel may be in the way.
    let set_up = attach::frontend::ublk::io_uring_permitted();
    let ok = set_up.is_ok();
    Check {
        name: "io_uring",
        unlocks: "fio's io_uring engine, ublk, direct I/O of mirrors",
        ok,
        required: false,
        found: set_up.map_or_else(|why| why.to_string(), |()| "on".into()),
        command: (!ok).then(|| {
            match std::fs::read_to_string("/proc/sys/kernel/io_uring_disabled") {
                Ok(switch) if switch.trim() != "0" => {
                    "sudo sysctl kernel.io_uring_disabled=0".into()
                }
                // A container's filter of system calls, or a kernel before 5.1.
                _ => "docker run --security-opt seccomp=unconfined".into(),
            }
        }),
    }
}

fn guest_kernel() -> Check {
    let (found, lacks) = (kernel::find(None), kernel::lacks());
    Check {
        name: "travel",
        unlocks: "travel: a real Linux kernel in virtual time",
        ok: found.is_ok(),
        required: false,
        command: found.is_err().then(|| match &lacks {
            Some((_, commands)) => commands.clone(),
            None => "blocklab kernel build".into(),
        }),
        found: match (found, &lacks) {
            (Ok(path), _) => path.display().to_string(),
            (Err(_), Some((lacks, _))) => format!("no kernel is built; its build lacks {lacks}"),
            (Err(_), None) => "no kernel is built".into(),
        },
    }
}

/// The file systems that Debian keeps, by their programs and packages.
fn file_systems() -> Check {
    const PROGRAMS: [(&str, &str); 6] = [
        ("mkfs.ext4", "e2fsprogs"),
        ("mkfs.xfs", "xfsprogs"),
        ("mkfs.btrfs", "btrfs-progs"),
        ("mkfs.reiserfs", "reiserfsprogs"),
        ("mkfs.jfs", "jfsutils"),
        ("mkfs.f2fs", "f2fs-tools"),
    ];
    let there = |program: &str| {
        ["/usr/sbin", "/sbin", "/usr/bin"].iter().any(|f| Path::new(f).join(program).exists())
    };
    let missing = PROGRAMS.into_iter().filter(|(program, _)| !there(program));
    let (programs, packages): (Vec<&str>, Vec<&str>) = missing.unzip();
    Check {
        name: "file systems",
        unlocks: "travel --mkfs",
        ok: programs.is_empty(),
        required: false,
        found: if programs.is_empty() {
            "ext2 to ext4, XFS, btrfs, ReiserFS, JFS, F2FS".into()
        } else {
            format!("no {}", programs.join(", no "))
        },
        command: (!programs.is_empty())
            .then(|| format!("sudo apt-get install {}", packages.join(" "))),
    }
}

fn boot() -> Check {
    let unlocks = "boot image and boot load: loading kernels in QEMU";
    packages("boot", unlocks, "QEMU, GRUB for a BIOS, gzip, lzop, xz", &boot::missing_packages())
}

fn boot_uefi() -> Check {
    let unlocks = "boot image and boot load --firmware uefi";
    let missing = boot::missing_uefi_packages();
    packages("boot by UEFI", unlocks, "OVMF, GRUB for UEFI, systemd's stub", &missing)
}

/// Something that Debian packages bring, and which of them are missing.
fn packages(
    name: &'static str,
    unlocks: &'static str,
    found: &str,
    missing: &[&'static str],
) -> Check {
    Check {
        name,
        unlocks,
        ok: missing.is_empty(),
        required: false,
        found: match missing {
            [] => found.into(),
            missing => format!("no {}", missing.join(", no ")),
        },
        command: (!missing.is_empty())
            .then(|| format!("sudo apt-get install {}", missing.join(" "))),
    }
}

/// Folders of sessions that were killed.
fn leftovers() -> Check {
    let left = attach::abandoned_folders();
    let left: Vec<String> = left.iter().map(|folder| folder.display().to_string()).collect();
    Check {
        name: "no leftovers",
        unlocks: "room in memory and on the disk; the next session makes it, too",
        ok: left.is_empty(),
        required: false,
        found: if left.is_empty() {
            "killed sessions left nothing".into()
        } else {
            format!("left by killed sessions: {}", left.join(", "))
        },
        command: (!left.is_empty()).then(|| format!("rm -r {}", left.join(" "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_and_dfs_answers_are_read() {
        let meminfo = "MemTotal:  100 kB\nMemAvailable:   2048 kB\n";
        assert_eq!(available(meminfo), Some(2 << 20));
        assert_eq!(available("MemTotal: 100 kB\n"), None);
        let df = "Filesystem 1024-blocks Used Available Capacity Mounted on\n\
                  /dev/vda 264 100 128 40% /\n";
        assert_eq!(df_free(df), Some(128 << 10));
        assert_eq!(df_free("df: no\n"), None);
    }

    #[test]
    fn a_folder_that_takes_nothing_is_told() {
        assert!(writable("/proc/blocklab".into()).unwrap_err().starts_with("/proc/blocklab: "));
        let folder = std::env::temp_dir().join(format!("doctor-{}", std::process::id()));
        assert_eq!(writable(folder.clone()), Ok(folder.display().to_string()));
        std::fs::remove_dir(&folder).unwrap();
    }

    #[test]
    fn an_absent_device_is_unlocked_by_its_module() {
        let check = device("Nothing", "/dev/no-such-device", "nothing", "nothing");
        assert!(!check.ok);
        assert_eq!(check.command.unwrap(), "sudo modprobe nothing");
    }
}
