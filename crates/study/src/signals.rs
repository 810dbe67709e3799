//! Signals that end what is run.

/// Numbers that they have on every Linux.
const HANG_UP: i32 = 1;
const INTERRUPT: i32 = 2;
const TERMINATE: i32 = 15;

/// Signals that end what is run: SIGINT, SIGTERM, and SIGHUP unless this process was started to
/// ignore it, as `nohup` does it.
pub fn ending_signals() -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let hang_up = (!ignores(&status, HANG_UP)).then_some(HANG_UP);
    [INTERRUPT, TERMINATE].into_iter().chain(hang_up).collect()
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
