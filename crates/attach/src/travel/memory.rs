//! A guest's memory: what boots, and what this machine has.

use study::Failure;

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

/// `MemTotal` of Linux's meminfo.
pub(super) fn total_kib(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
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
    fn the_total_is_found() {
        assert_eq!(total_kib("MemTotal:   250000 kB\nMemFree: 1 kB"), Some(250_000));
        assert_eq!(total_kib("nothing"), None);
    }
}
