//! A guest's memory: what boots, and what this machine has.

use std::path::Path;

use rustix::fs::{StatVfsMountFlags, statvfs};
use study::Failure;

/// A guest's memory is a file there.
const FILES: &str = "/dev/shm";
/// Less memory does not boot.
pub const MEMORY_MIN_MIB: u64 = 64;

/// Refuse a guest with `mib` MiB of memory if it would not boot, or if this machine has less.
pub(crate) fn check(mib: u64) -> Result<(), Failure> {
    if mib < MEMORY_MIN_MIB {
        return Err(Failure::input(format!("a guest with {mib} MiB of memory"))
            .expected(format!("at least {MEMORY_MIN_MIB}MiB: less does not boot")));
    }
    let here = total_kib(&std::fs::read_to_string("/proc/meminfo").unwrap_or_default());
    match here.map(|kib| kib >> 10).filter(|&here_mib| mib > here_mib) {
        Some(here_mib) => Err(Failure::machine(format!(
            "a guest with {mib} MiB of memory, and this machine has {here_mib} MiB"
        ))
        .help("give the guest less: --mem 1G, or travel.memory of a study")),
        None => Ok(()),
    }
}

/// So many of `guests` guests with `mib` MiB each as this machine has room for now. One that
/// finds none dies in the middle of what it does, which would look like its own doing.
pub(crate) fn guests_at_a_time(guests: usize, mib: u64) -> usize {
    let (room_mib, place) = room();
    let fitting = fitting(guests, mib, room_mib);
    if fitting < guests {
        config::warn(format!(
            "{fitting} guests at a time instead of {guests}: each may take {mib} MiB of memory, \
             and {place} has {room_mib} MiB (--mem, --guests)"
        ));
    }
    fitting
}

fn fitting(guests: usize, mib: u64, room_mib: u64) -> usize {
    guests.min(usize::try_from(room_mib / mib.max(1)).unwrap_or(usize::MAX)).max(1)
}

/// Where a guest's memory is a file: in RAM, unless nothing may be executed there, as in one of
/// Docker's containers.
pub(super) fn files() -> Option<&'static Path> {
    let mounted = statvfs(FILES).ok()?;
    (!mounted.f_flag.contains(StatVfsMountFlags::NOEXEC)).then(|| Path::new(FILES))
}

/// MiB that guests may take, and what has no more.
fn room() -> (u64, &'static str) {
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = field_kib(&meminfo, "MemAvailable:").map_or(u64::MAX, |kib| kib >> 10);
    let files = files().and_then(|files| statvfs(files).ok());
    let files = files.map_or(u64::MAX, |found| (found.f_bavail * found.f_frsize) >> 20);
    if files < memory { (files, FILES) } else { (memory, "this machine") }
}

/// `MemTotal` of Linux's meminfo.
pub(super) fn total_kib(meminfo: &str) -> Option<u64> {
    field_kib(meminfo, "MemTotal:")
}

fn field_kib(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_little_and_more_than_there_is_are_refused() {
        assert_eq!(check(256), Ok(()));
        assert_eq!(check(64), Ok(()));
        assert!(check(32).unwrap_err().to_string().contains("at least 64MiB"));
        assert!(check(63).unwrap_err().expected.unwrap().contains("64MiB"));
        let more = check(1 << 30).unwrap_err();
        assert!(more.message.contains("1073741824 MiB of memory, and this machine has"));
        assert_eq!(more.exit_code(), 3);
    }

    #[test]
    fn no_more_guests_run_than_have_room() {
        assert_eq!([0, 255, 256, 600, 5000].map(|room| fitting(4, 256, room)), [1, 1, 1, 2, 4]);
        assert_eq!(fitting(4, 256, u64::MAX), 4);
        let (room_mib, place) = room();
        assert!((1..1 << 40).contains(&room_mib), "{room_mib} MiB of {place}");
        assert_eq!(guests_at_a_time(4, 1 << 40), 1);
        assert_eq!(guests_at_a_time(1, 64), 1);
    }

    #[test]
    fn the_total_is_found() {
        assert_eq!(total_kib("MemTotal:   250000 kB\nMemFree: 1 kB"), Some(250_000));
        assert_eq!(total_kib("nothing"), None);
    }
}
