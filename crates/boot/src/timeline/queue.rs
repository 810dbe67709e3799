//! The requests of a boot, for replay on other devices.

use std::path::Path;

use config::Failure;

/// Keep what happened until `until_ns`, on the guest's clock: what was written back after the boot
/// is not part of it.
pub(super) fn cut(path: &Path, until_ns: u64) -> Result<(), Failure> {
    let wrong = |why: std::io::Error| Failure::machine(format!("{}: {why}", path.display()));
    let text = std::fs::read(path).map_err(wrong)?;
    let kept: Vec<u8> = text
        .split_inclusive(|byte| *byte == b'\n')
        .filter(|line| time_ns(line).is_none_or(|at| at <= until_ns))
        .flatten()
        .copied()
        .collect();
    study::replace(path, &kept).map_err(wrong)
}

/// When an event was, in blkparse's text: the fourth field, seconds with nine digits.
fn time_ns(line: &[u8]) -> Option<u64> {
    let line = std::str::from_utf8(line).ok()?;
    let (seconds, nanos) = line.split_whitespace().nth(3)?.split_once('.')?;
    let (seconds, nanos): (u64, u64) = (seconds.parse().ok()?, nanos.parse().ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_after_the_boot_goes() {
        let path = std::env::temp_dir().join(format!("blocklab-cut-{}", std::process::id()));
        let line = |at: &str| format!("  253,0  0  1  {at}    34  Q  RM 73880 + 8 [systemd]\n");
        let text = [line("0.015400448"), line("1.000000000"), line("1.000000001")].concat();
        std::fs::write(&path, format!("{text}total\n")).unwrap();
        cut(&path, 1_000_000_000).unwrap();
        let kept = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(kept, [line("0.015400448"), line("1.000000000"), "total\n".into()].concat());
    }
}
