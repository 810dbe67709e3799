//! What tells a conversion that a file system was mounted or checked after the hibernation.
//!
//! Linux, `fs/ext4/ext4.h` and `fs/ext4/super.c`: each mount for writing counts itself, and writes
//! its time; a check begins the count anew, or writes its own time. While an ext2 to ext4 is
//! mounted nobody writes these. The flag of its journal stands as long as it is mounted for
//! writing, and goes when the journal is replayed, by a mount for reading, too. XFS and btrfs have
//! nothing that stays while they are mounted and is another after a mount.

use resume::{DataSum, SECTOR_BYTES};

/// What tells the state of a file system.
pub(super) type Superblock = [u8; 2 * SECTOR_BYTES];

const MAGIC_AT: usize = 0x38;
const MAGIC: [u8; 2] = [0x53, 0xef];
/// When it was mounted, how often, when it was checked, which it is, and the times' upper bytes.
const FIELDS: [std::ops::Range<usize>; 6] =
    [0x2c..0x30, 0x34..0x36, 0x40..0x44, UUID, 0x275..0x276, 0x277..0x278];
const UUID: std::ops::Range<usize> = 0x68..0x78;
/// Features that who does not know them must not mount; one says that the journal must be replayed.
const FEATURES_AT: usize = 0x60;
const NEEDS_JOURNAL: u8 = 4;

/// What a mark says beside its digest: that it is one, and that the journal's flag must stand.
const KNOWN: u64 = 1;
const HAS_JOURNAL: u64 = 2;

/// The mark of a file system that is mounted; 0 when nothing would tell. A kernel that freezes file
/// systems before it suspends empties their journals then.
pub(super) fn mark(superblock: &Superblock, freezes: bool) -> u64 {
    if !is_ext(superblock) {
        return 0;
    }
    let has_journal = !freezes && needs_journal(superblock);
    digest(superblock) | KNOWN | if has_journal { HAS_JOURNAL } else { 0 }
}

/// Was the file system with that mark mounted or checked since?
pub(super) fn changed(mark: u64, superblock: &Superblock) -> bool {
    let same = is_ext(superblock)
        && digest(superblock) == mark & !(KNOWN | HAS_JOURNAL)
        && (mark & HAS_JOURNAL == 0 || needs_journal(superblock));
    mark != 0 && !same
}

/// Its UUID, as `blkid` and `/etc/fstab` name it.
pub(super) fn uuid(superblock: &Superblock) -> String {
    let digits: String = superblock[UUID].iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
    parts.join("-")
}

/// Does this kernel freeze file systems before it suspends (Linux 6.17 and newer, if it is told)?
pub(super) fn freezes() -> bool {
    let told = std::fs::read_to_string("/sys/power/freeze_filesystems");
    told.is_ok_and(|told| told.trim() == "1")
}

fn is_ext(superblock: &Superblock) -> bool {
    superblock[MAGIC_AT..].starts_with(&MAGIC)
}

fn needs_journal(superblock: &Superblock) -> bool {
    superblock[FEATURES_AT] & NEEDS_JOURNAL != 0
}

fn digest(superblock: &Superblock) -> u64 {
    let mut sum = DataSum::default();
    FIELDS.into_iter().for_each(|field| sum.add(&superblock[field]));
    sum.end() & !(KNOWN | HAS_JOURNAL)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An ext4 that is mounted for writing.
    pub(in super::super) fn mounted() -> Superblock {
        let mut superblock = [0; 2 * SECTOR_BYTES];
        superblock[MAGIC_AT..MAGIC_AT + 2].copy_from_slice(&MAGIC);
        superblock[0x2c] = 9;
        superblock[0x34] = 5;
        superblock[FEATURES_AT] = 0x42 | NEEDS_JOURNAL;
        superblock[UUID].copy_from_slice(b"0123456789abcdef");
        superblock
    }

    #[test]
    fn a_mount_and_a_check_are_told_and_what_a_mounted_file_system_writes_is_not() {
        let before = mounted();
        let known = mark(&before, false);
        let with = |at: usize, bits: u8| {
            let mut after = before;
            after[at] ^= bits;
            after
        };
        assert!(!changed(known, &before));
        // Free blocks and inodes, the time and the amount of writes, an orphan, a state with
        // errors, the checksum.
        for at in [0x0c, 0x10, 0x30, 0x178, 0xe8, 0x3a, 0x3fc] {
            assert!(!changed(known, &with(at, 1)), "{at:x}");
        }
        // A mount's time and count, a check's time, the upper bytes, another file system, none.
        for at in [0x2c, 0x34, 0x40, 0x68, 0x275, 0x277, MAGIC_AT] {
            assert!(changed(known, &with(at, 1)), "{at:x}");
        }
        // A journal that was replayed; with a kernel that empties it by itself it is none.
        assert!(changed(known, &with(FEATURES_AT, NEEDS_JOURNAL)));
        let frozen = mark(&before, true);
        assert!(!changed(frozen, &with(FEATURES_AT, NEEDS_JOURNAL)));
        assert!(changed(frozen, &with(0x34, 1)));
        // Mounted for reading, then for writing elsewhere.
        let for_reading = with(FEATURES_AT, NEEDS_JOURNAL);
        let mut after = with(0x34, 3);
        assert!(changed(mark(&for_reading, false), &after));
        after[0x34] = before[0x34];
        assert!(!changed(mark(&for_reading, false), &after));
        // Of others nothing is known.
        let other = with(MAGIC_AT, 1);
        assert_eq!(mark(&other, false), 0);
        assert!(!changed(0, &before));
    }

    #[test]
    fn a_file_system_is_named_as_elsewhere() {
        assert_eq!(uuid(&mounted()), "30313233-3435-3637-3839-616263646566");
    }
}
