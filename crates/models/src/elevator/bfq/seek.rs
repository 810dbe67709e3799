//! What is taken for a seek.

use sim::Request;

/// More sectors than this between two requests are a seek.
const SEEK: u64 = 800;
/// On a device that does not rotate, only for requests shorter than this.
pub(super) const SHORT: u32 = 64;
/// Is a request so far from the end of the last one that it is a seek?
pub(super) fn is_seek(rotational: bool, last_end: u64, what: &Request) -> bool {
    last_end != 0 && what.lba.0.abs_diff(last_end) > SEEK && (rotational || what.sectors < SHORT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Lba;

    #[test]
    fn a_seek_is_far_and_on_flash_also_short() {
        let read = |lba, sectors| Request::read(Lba(lba), sectors);
        assert!(is_seek(true, 1000, &read(1801, 64)) && !is_seek(true, 1000, &read(1800, 64)));
        assert!(!is_seek(false, 1000, &read(1801, 64)) && is_seek(false, 1000, &read(1801, 63)));
        assert!(!is_seek(true, 0, &read(9000, 8)), "nothing was asked for before");
    }
}
