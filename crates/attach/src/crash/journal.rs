//! What a write is to the file system that made it, by the marks in its data.

/// Marks lie at multiples of this, but for that of btrfs.
const STEP: usize = 512;

/// What the write of `data` is, if it is part of a journal or what stands for one. A file may hold
/// the same bytes.
pub(super) fn mark(data: &[u8]) -> Option<String> {
    let sectors = || data.chunks(STEP);
    let found = sectors().find_map(|sector| jbd2(sector, 2)).map(|n| format!("jbd2 commit {n}"));
    found
        .or_else(|| Some(format!("jbd2 transaction {}", sectors().find_map(|it| jbd2(it, 1))?)))
        .or_else(|| sectors().find_map(xfs))
        .or_else(|| sectors().find_map(btrfs))
}

fn u32_be(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(data.get(at..at + 4)?.try_into().ok()?))
}

/// The number of the transaction whose block of that type begins here: `journal_header_t` of
/// Linux's `jbd2.h`, big-endian: magic, type (1 descriptor, 2 commit), sequence.
fn jbd2(sector: &[u8], kind: u32) -> Option<u32> {
    const MAGIC: u32 = 0xC03B_3998;
    let is = u32_be(sector, 0)? == MAGIC && u32_be(sector, 4)? == kind;
    is.then(|| u32_be(sector, 8)).flatten()
}

/// `xlog_rec_header` of Linux's `xfs_log_format.h`: magic, cycle, version, length, LSN.
fn xfs(sector: &[u8]) -> Option<String> {
    const MAGIC: u32 = 0xFEED_BABE;
    let (cycle, block) = (u32_be(sector, 16)?, u32_be(sector, 20)?);
    (u32_be(sector, 0)? == MAGIC).then(|| format!("XFS log record {cycle}:{block}"))
}

/// `btrfs_super_block`: magic at byte 64, generation behind it. It makes a transaction valid.
fn btrfs(sector: &[u8]) -> Option<String> {
    let generation = u64::from_le_bytes(sector.get(72..80)?.try_into().ok()?);
    (&sector[64..72] == b"_BHRfS_M").then(|| format!("btrfs superblock, generation {generation}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jbd2_block(kind: u32, sequence: u32) -> Vec<u8> {
        let mut block = vec![0; 4096];
        for (at, value) in [(0, 0xC03B_3998), (4, kind), (8, sequence)] {
            block[at..at + 4].copy_from_slice(&u32::to_be_bytes(value));
        }
        block
    }

    #[test]
    fn journals_are_known_by_their_marks() {
        assert_eq!(mark(&[0; 8192]), None);
        assert_eq!(mark(&[]), None);
        let descriptor = jbd2_block(1, 7);
        assert_eq!(mark(&descriptor), Some("jbd2 transaction 7".into()));
        let both = [descriptor, vec![1; 4096], jbd2_block(2, 7)].concat();
        assert_eq!(mark(&both), Some("jbd2 commit 7".into()));
        assert_eq!(mark(&jbd2_block(5, 7)), None);
        let mut log = vec![0; 512];
        log[..4].copy_from_slice(&[0xFE, 0xED, 0xBA, 0xBE]);
        log[19] = 3;
        log[23] = 64;
        assert_eq!(mark(&log), Some("XFS log record 3:64".into()));
        let mut superblock = vec![0; 4096];
        superblock[64..72].copy_from_slice(b"_BHRfS_M");
        superblock[72] = 9;
        assert_eq!(mark(&superblock), Some("btrfs superblock, generation 9".into()));
    }
}
