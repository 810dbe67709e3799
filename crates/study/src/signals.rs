//! What this process was started to ignore.

/// Whether it was started to ignore `signal`, as `nohup` does it with SIGHUP (1): who listens for
/// it then would end what was meant to go on.
pub fn is_ignored(signal: i32) -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| ignores(&status, signal))
}

fn ignores(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    (1..=64).contains(&signal) && mask >> (signal - 1) & 1 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mask_says_what_is_ignored() {
        let status = "Name:\tx\nSigBlk:\tffffffffffffffff\nSigIgn:\t0000000000001001\n";
        let ignored: Vec<i32> = (0..=65).filter(|&signal| ignores(status, signal)).collect();
        assert_eq!(ignored, [1, 13]);
        assert!(!ignores("Name:\tx\n", 1));
    }
}
