//! What a guest read, as QEMU tells it.

/// The reads of each disk, in order: first sector, and how many.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Trace(Vec<Vec<(u64, u32)>>);

impl Trace {
    /// Disks come in the order of their first reads: the loader, like a kernel, begins with the
    /// first.
    pub(super) fn parse(text: &[u8]) -> Trace {
        let text = String::from_utf8_lossy(text);
        let (mut names, mut trace): (Vec<&str>, Trace) = (Vec::new(), Trace::default());
        for line in text.lines() {
            let Some((name, read)) = parse(line) else { continue };
            let index = names.iter().position(|known| *known == name).unwrap_or_else(|| {
                names.push(name);
                trace.0.push(Vec::new());
                names.len() - 1
            });
            trace.0[index].push(read);
        }
        trace
    }

    /// The reads of a disk.
    pub(super) fn of(&self, disk: usize) -> &[(u64, u32)] {
        self.0.get(disk).map_or(&[], Vec::as_slice)
    }
}

fn parse(line: &str) -> Option<(&str, (u64, u32))> {
    let mut words = line.strip_prefix("virtio_blk_handle_read vdev ")?.split(' ');
    let name = words.next()?;
    let sector = words.nth(3)?.parse().ok()?;
    Some((name, (sector, words.nth(1)?.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_told_apart() {
        let line = |disk: &str, sector: u64| {
            format!("virtio_blk_handle_read vdev {disk} req 0x6 sector {sector} nsectors 8\n")
        };
        let text = [line("0xa", 0), "other\n".into(), line("0xb", 2), line("0xa", 8)].concat();
        let trace = Trace::parse(text.as_bytes());
        assert_eq!(trace.of(0), [(0, 8), (8, 8)]);
        assert_eq!((trace.of(1), trace.of(2)), (&[(2, 8)][..], &[][..]));
    }
}
