//! A kernel's own image becomes one of ours. What the loader has to know of the machine, the
//! machine tells beforehand: the target is prepared.

use std::fs::File;
use std::path::{Path, PathBuf};

use resume::machine::{Range, map_of_bytes, map_to_bytes};
use resume::{Disk, Header, Mark, PAGE_BYTES, SECTOR_BYTES, superblock_sum};

use super::mounts::{self, Superblock};
use super::swsusp::Hibernated;
use super::target::{HEADER_PAGE, Page, Store, Target, open_disk, superblock};
use super::{Report, machine, write};
use crate::Why;

/// Where the memory map is until there is data.
const MAP_PAGE: u64 = HEADER_PAGE + 1;

/// The verb `convert SWAP TARGET [DISK...]`.
pub(crate) fn verb(arguments: &[String]) -> Result<u8, Why> {
    let [swap, target, disks @ ..] = arguments else {
        return Err(Why::Input("usage: convert SWAP TARGET [DISK...]".into()));
    };
    let disks: Vec<PathBuf> = disks.iter().map(PathBuf::from).collect();
    crate::tell(format!("image {}", convert(Path::new(swap), Path::new(target), &disks)?));
    Ok(0)
}

/// Tell `target` of this machine; what image it had is gone.
pub(crate) fn prepare(target: &Path) -> Result<(), Why> {
    let mut target = super::to_suspend_to(target)?;
    let map = machine::memory_map()?;
    let header = machine::header(&map)?;
    let map = map_to_bytes(&map).ok_or("the memory map has more ranges than a page".to_string())?;
    for kind in machine::untold()? {
        crate::warn(format!(
            "nothing tells a conversion that a {kind} was mounted after the hibernation: do not"
        ));
    }
    target.erase_mark()?;
    target.write_bytes(HEADER_PAGE, &header.to_bytes().0)?;
    target.write_bytes(MAP_PAGE, &map)?;
    Ok(target.sync()?)
}

/// Make an image of ours in `target`, which was prepared, of the kernel's in `swap`, which is only
/// swap again afterwards. `disks` are the others of the machine.
///
/// # Errors
/// What does not fit. The kernel's image is there until all of ours is, but for its mark.
pub(crate) fn convert(swap: &Path, target: &Path, disks: &[PathBuf]) -> Result<Report, Why> {
    let mut source = Hibernated::open(swap).map_err(Why::Input)?;
    let shown = target.display();
    let mut target = Target::open(target)?;
    let unprepared =
        || Why::Input(format!("{shown}: expected a target after `suspend --prepare` there"));
    let (mut page, mut map_page) = (Page::default(), Page::default());
    target.read(HEADER_PAGE * PAGE_BYTES as u64, &mut page)?;
    target.read(MAP_PAGE * PAGE_BYTES as u64, &mut map_page)?;
    let mut header = Header::read_prepared(&page.0).map_err(|_| unprepared())?;
    let map: Vec<Range> = map_of_bytes(&map_page.0).ok_or_else(unprepared)?.collect();
    let count = header.disk_count as usize;
    for disk in &mut header.disks[..count] {
        let among = [swap].into_iter().chain(disks.iter().map(PathBuf::as_path));
        disk.sum = state(disk, among, swap).map_err(Why::Input)?;
    }
    let mut store = Prepared { store: &mut target, kept: Vec::new() };
    let mut report = write(&mut source, header, &map, false, &mut store)?;
    report.written_bytes = target.written_bytes;
    Ok(report)
}

/// A target that was prepared and stays so until the kernel's image is given up, so that a
/// conversion that is interrupted can be done again: what comes where its header and the memory map
/// are waits until the mark is written.
struct Prepared<'a> {
    store: &'a mut dyn Store,
    kept: Vec<(u64, Page)>,
}

impl Store for Prepared<'_> {
    fn write(&mut self, at: u64, pages: &[Page]) -> Result<(), String> {
        let kept = if at < HEADER_PAGE { 0 } else { (MAP_PAGE + 1).saturating_sub(at) };
        let (kept, others) = pages.split_at(pages.len().min(kept as usize));
        self.kept.extend((at..).zip(kept.iter().cloned()));
        if others.is_empty() { Ok(()) } else { self.store.write(at + kept.len() as u64, others) }
    }

    fn sync(&mut self) -> Result<(), String> {
        self.store.sync()
    }

    fn pages(&self) -> u64 {
        self.store.pages()
    }

    fn erase_mark(&mut self) -> Result<(), String> {
        self.store.erase_mark()
    }

    fn write_mark(&mut self, mark: Mark) -> Result<(), String> {
        for (at, page) in self.kept.drain(..) {
            self.store.write(at, &[page])?;
        }
        self.store.sync()?;
        self.store.write_mark(mark)
    }
}

/// The sum of a disk's superblock, when its file system is as the suspend of `swap` left it.
fn state<'a>(
    disk: &Disk,
    among: impl Iterator<Item = &'a Path>,
    swap: &Path,
) -> Result<u64, String> {
    let (superblock, path) = find(disk, among)?;
    if mounts::changed(disk.mounts, &superblock) {
        return Err(format!(
            "{}: the file system with UUID {} (superblock at sector {}) was mounted or checked \
             after `suspend --prepare`: whoever resumes the image in {} destroys it. Boot the \
             machine with `noresume` for its kernel; what was not saved is lost",
            path.display(),
            mounts::uuid(&superblock),
            disk.superblock_sector,
            swap.display(),
        ));
    }
    Ok(superblock_sum(&superblock))
}

/// The superblock of a disk's file system after the suspend, on the only one of its size, as
/// nothing else tells which was in use.
fn find<'a>(
    disk: &Disk,
    among: impl Iterator<Item = &'a Path>,
) -> Result<(Superblock, &'a Path), String> {
    let mut found: Vec<(File, &Path)> = Vec::new();
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.into());
    for path in among {
        // The swap may be named once more.
        if found.iter().any(|(_, known)| real(known) == real(path)) {
            continue;
        }
        let file = open_disk(path)?;
        let bytes = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0));
        let bytes = bytes.map_err(|why| format!("{}: {why}", path.display()))?;
        if bytes / SECTOR_BYTES as u64 == disk.sectors {
            found.push((file, path));
        }
    }
    match &found[..] {
        [(file, path)] => Ok((superblock(file, path, disk.superblock_sector)?, path)),
        [] => Err(format!("a disk of {} sectors was in use: expected it, too", disk.sectors)),
        [(_, one), (_, other), ..] => Err(format!(
            "{} and {} both have {} sectors: which of them was in use cannot be told; expected \
             disks of different sizes",
            one.display(),
            other.display(),
            disk.sectors
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use resume::Refusal;
    use resume::swsusp::{GROUP_BYTES, MAP_ENTRIES, Signature, add};

    use super::super::mounts::tests::mounted;
    use super::super::tests::{FRAMES, Kernel, life};
    use super::*;

    const SWAP_PAGES: usize = 1500;
    const PLAIN: u32 = 2;
    const LZO: u32 = 4;
    const LZ4: u32 = 4 | 16;

    /// Letters only, as LZO or LZ4 has them.
    fn packed(bytes: &[u8], flags: u32) -> Vec<u8> {
        // What a byte of the length says that another follows, and what the last one is more by.
        let long = |count: usize, follows: u8, more: usize| {
            let mut bytes = vec![follows; (count - more) / 255];
            bytes.push(((count - more) % 255 + more) as u8);
            bytes
        };
        let count = bytes.len();
        let body = match flags {
            LZO => [&[0][..], &long(count - 18, 0, 1), bytes, &[17, 0, 0]].concat(),
            _ => [&[0xf0][..], &long(count - 15, 255, 0), bytes].concat(),
        };
        [&(body.len() as u64).to_le_bytes(), &body[..]].concat()
    }

    /// A swap with a kernel's image, every second page of it in another place.
    fn swap(kernel: &Kernel, flags: u32) -> Vec<u8> {
        let (head, rest) = kernel.pages.split_first().unwrap();
        let rest = rest.concat();
        let mut pages: Vec<Vec<u8>> = vec![head.to_vec()];
        if flags == PLAIN {
            pages.extend(rest.chunks(PAGE_BYTES).map(<[u8]>::to_vec));
        } else {
            for group in rest.chunks(GROUP_BYTES) {
                pages.extend(packed(group, flags).chunks(PAGE_BYTES).map(<[u8]>::to_vec));
            }
        }
        let mut swap = vec![0; SWAP_PAGES * PAGE_BYTES];
        let maps = pages.len().div_ceil(MAP_ENTRIES);
        let place = |index: usize| SWAP_PAGES - 1 - (index ^ 1);
        let mut word = |at: usize, value: u64| {
            swap[at..at + 8].copy_from_slice(&value.to_le_bytes());
        };
        for index in 0..pages.len() {
            let at = (3 + index / MAP_ENTRIES) * PAGE_BYTES + index % MAP_ENTRIES * 8;
            word(at, place(index) as u64);
        }
        for map in 0..maps - 1 {
            word((4 + map) * PAGE_BYTES - 8, 4 + map as u64);
        }
        word(PAGE_BYTES - 32, 3);
        for (index, page) in pages.iter().enumerate() {
            swap[place(index) * PAGE_BYTES..][..page.len()].copy_from_slice(page);
        }
        swap[PAGE_BYTES - 36..][..4].copy_from_slice(&add(0, &rest).to_le_bytes());
        swap[PAGE_BYTES - 24..][..4].copy_from_slice(&flags.to_le_bytes());
        swap[PAGE_BYTES - 20..PAGE_BYTES].copy_from_slice(b"SWAPSPACE2S1SUSPEND\0");
        swap
    }

    /// Files that go again.
    struct Files(PathBuf);

    impl Files {
        fn new(name: &str, swap: &[u8]) -> Files {
            let folder = format!("blocklab-convert-{name}-{}", std::process::id());
            let files = Files(std::env::temp_dir().join(folder));
            fs::create_dir_all(&files.0).unwrap();
            fs::write(files.swap(), swap).unwrap();
            let swap = Disk { sectors: SWAP_PAGES as u64 * 8, ..Disk::default() };
            files.prepare(&[Disk { superblock_sector: 2, sum: 5, ..swap }]);
            files
        }

        fn prepare(&self, disks: &[Disk]) {
            let map = [Range { start: 0, bytes: FRAMES * 4096, kind: Range::USABLE }];
            let mut header = Header { frames: FRAMES, ..Header::empty() };
            assert!(disks.iter().all(|disk| header.add_disk(*disk)));
            let mut target = vec![0; SWAP_PAGES * PAGE_BYTES];
            target[PAGE_BYTES..2 * PAGE_BYTES].copy_from_slice(&header.to_bytes().0);
            target[2 * PAGE_BYTES..][..PAGE_BYTES].copy_from_slice(&map_to_bytes(&map).unwrap());
            fs::write(self.target(), target).unwrap();
        }

        fn swap(&self) -> PathBuf {
            self.0.join("swap")
        }

        fn target(&self) -> PathBuf {
            self.0.join("target")
        }

        fn convert(&self) -> Result<Report, String> {
            self.convert_with(&[])
        }

        fn convert_with(&self, disks: &[PathBuf]) -> Result<Report, String> {
            convert(&self.swap(), &self.target(), disks).map_err(|why| why.to_string())
        }

        /// Does the swap have an image, and what has the target?
        fn state(&self) -> (bool, Result<u8, Refusal>) {
            let swap = fs::read(self.swap()).unwrap();
            let there = Signature::read(swap.first_chunk().unwrap()).is_some();
            (there, life(&fs::read(self.target()).unwrap()))
        }
    }

    impl Drop for Files {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn a_kernels_image_becomes_ours_however_it_is_packed() {
        for flags in [PLAIN, LZO, LZ4] {
            let files = Files::new(&format!("packed-{flags}"), &swap(&Kernel::new(7, 900), flags));
            assert_eq!(files.state(), (true, Err(Refusal::NoMark)));
            let report = files.convert().unwrap();
            assert_eq!((report.pages, report.zero_pages, report.data_pages), (900, 180, 720));
            assert_eq!(files.state(), (false, Ok(7)));
            let first = fs::read(files.swap()).unwrap();
            assert_eq!(&first[PAGE_BYTES - 10..PAGE_BYTES], b"SWAPSPACE2");
            // A second time there is nothing, and what there is stays.
            assert!(files.convert().unwrap_err().contains("expected swap with the image"));
            assert_eq!(files.state(), (false, Ok(7)));
        }
    }

    #[test]
    fn what_is_damaged_stays_as_it_is() {
        let whole = swap(&Kernel::new(7, 900), LZO);
        // A group's length, a letter of it, the map, and the map's second page.
        let at = |page: usize, byte: usize| page * PAGE_BYTES + byte;
        for (at, why) in [
            (at(SWAP_PAGES - 1, 4), "a group's length"),
            (at(SWAP_PAGES - 5, 99), "its checksum"),
            (at(3, 1), "a page outside"),
            (at(3, PAGE_BYTES - 7), "a page outside"),
        ] {
            let mut swap = whole.clone();
            swap[at] ^= 0x40;
            let files = Files::new(&format!("damaged-{at}"), &swap);
            let told = files.convert().unwrap_err();
            assert!(told.contains(why), "{at}: {told}");
            assert_eq!(files.state(), (true, Err(Refusal::NoMark)), "{at}");
        }
        // A page of the map without entries, which names itself as the next.
        let mut round = whole.clone();
        round[at(3, 0)..at(4, 0)].fill(0);
        round[at(3, PAGE_BYTES - 8)] = 3;
        let files = Files::new("round", &round);
        assert!(files.convert().unwrap_err().contains("its map goes round"));
        let files = Files::new("unprepared", &whole);
        fs::write(files.target(), vec![0; whole.len()]).unwrap();
        assert!(files.convert().unwrap_err().contains("after `suspend --prepare`"));
        fs::write(files.swap(), &whole[..whole.len() - PAGE_BYTES]).unwrap();
        assert!(files.convert().is_err());
        fs::write(files.swap(), b"short").unwrap();
        let told = files.convert().unwrap_err();
        assert!(told.ends_with("with the image of a kernel's suspend, found less than a page"));
    }

    #[test]
    fn of_two_disks_of_one_size_nobody_knows_which_was_in_use() {
        let files = Files::new("alike", &swap(&Kernel::new(7, 900), LZO));
        let other = files.swap().with_file_name("other");
        fs::write(&other, vec![0; SECTOR_BYTES * 99]).unwrap();
        let twin = files.swap().with_file_name("twin");
        fs::write(&twin, vec![1; SECTOR_BYTES * 99]).unwrap();
        let disk = Disk { sectors: 99, superblock_sector: 2, ..Disk::default() };
        let swap = files.swap();
        let found = |paths: &[&Path]| find(&disk, paths.iter().copied()).map(|_| ());
        assert!(found(&[&swap, &other]).is_ok() && found(&[&other, &other]).is_ok());
        let told = found(&[&swap, &other, &twin]).unwrap_err();
        assert!(told.contains("both have 99 sectors"), "{told}");
        assert!(found(&[&swap]).unwrap_err().contains("expected it, too"));
    }

    #[test]
    fn a_file_system_that_was_mounted_or_checked_since_is_refused() {
        let before = mounted();
        let sectors = 99;
        let prepared = |freezes: bool| {
            let files = Files::new("mounted", &swap(&Kernel::new(7, 900), LZO));
            let mounts = mounts::mark(&before, freezes);
            files.prepare(&[Disk { sectors, superblock_sector: 8, sum: 5, mounts }]);
            let disk = files.swap().with_file_name("disk");
            (files, disk)
        };
        let put = |disk: &Path, superblock: &Superblock| {
            let mut bytes = vec![0; sectors as usize * SECTOR_BYTES];
            bytes[8 * SECTOR_BYTES..10 * SECTOR_BYTES].copy_from_slice(superblock);
            fs::write(disk, bytes).unwrap();
        };
        // A mount, a check, and a journal that was replayed.
        for (at, bits) in [(0x34, 1), (0x40, 1), (0x60, 4)] {
            let (files, disk) = prepared(false);
            let mut after = before;
            after[at] ^= bits;
            put(&disk, &after);
            let told = files.convert_with(std::slice::from_ref(&disk)).unwrap_err();
            let named = "UUID 30313233-3435-3637-3839-616263646566 (superblock at sector 8) was \
                         mounted or checked after";
            assert!(told.contains(named) && told.contains("`noresume`"), "{told}");
            assert_eq!(files.state(), (true, Err(Refusal::NoMark)));
            // As it was, with what a mounted one writes by itself.
            after[at] ^= bits;
            after[0x30] ^= 1;
            put(&disk, &after);
            files.convert_with(&[disk]).unwrap();
            assert_eq!(files.state(), (false, Ok(7)));
        }
        let (files, disk) = prepared(true);
        let mut frozen = before;
        frozen[0x60] ^= 4;
        put(&disk, &frozen);
        files.convert_with(&[disk]).unwrap();
    }

    /// A target of which a write fails.
    struct Cut<'a> {
        target: &'a mut Target,
        writes_before: u32,
    }

    impl Store for Cut<'_> {
        fn write(&mut self, at: u64, pages: &[Page]) -> Result<(), String> {
            let left = self.writes_before.checked_sub(1).ok_or("cut")?;
            self.writes_before = left;
            self.target.write(at, pages)
        }

        fn sync(&mut self) -> Result<(), String> {
            self.target.sync()
        }

        fn pages(&self) -> u64 {
            self.target.pages()
        }
    }

    #[test]
    fn a_conversion_that_was_interrupted_can_be_done_again() {
        // All is written before the swap's checksum turns out to be wrong.
        let whole = swap(&Kernel::new(7, 900), LZO);
        let mut damaged = whole.clone();
        damaged[PAGE_BYTES - 36] ^= 1;
        let files = Files::new("again", &damaged);
        assert!(files.convert().unwrap_err().contains("its checksum"));
        fs::write(files.swap(), &whole).unwrap();
        files.convert().unwrap();
        assert_eq!(files.state(), (false, Ok(7)));
    }

    #[test]
    fn a_conversion_that_is_cut_can_be_done_again_until_the_swap_is_given_up() {
        let whole = swap(&Kernel::new(7, 900), LZO);
        let (mut again, mut lost) = (0, 0);
        for writes_before in 0.. {
            let files = Files::new("cut", &whole);
            let map = [Range { start: 0, bytes: FRAMES * 4096, kind: Range::USABLE }];
            let header = Header { frames: FRAMES, ..Header::empty() };
            let mut target = Target::open(&files.target()).unwrap();
            let mut cut = Cut { target: &mut target, writes_before };
            let mut store = Prepared { store: &mut cut, kept: Vec::new() };
            let mut source = Hibernated::open(&files.swap()).unwrap();
            if write(&mut source, header, &map, false, &mut store).is_ok() {
                assert_eq!(files.state(), (false, Ok(7)));
                break;
            }
            match files.state() {
                (true, Err(Refusal::NoMark)) => {
                    files.convert().unwrap();
                    assert_eq!(files.state(), (false, Ok(7)));
                    again += 1;
                }
                (false, Err(Refusal::NoMark)) => lost += 1,
                state => panic!("after {writes_before} writes: {state:?}"),
            }
        }
        // The header, what lies where the map was, and the mark.
        assert!(again > 4 && lost == 3, "{again} {lost}");
    }

    #[test]
    fn a_target_of_somebody_else_stays() {
        let files = Files::new("foreign", &swap(&Kernel::new(7, 900), LZO));
        // In the mark's sector, behind it, in the header's page; where btrfs and ReiserFS begin,
        // and at the end of what is looked at.
        let (btrfs, last) = (64 << 10, (1 << 20) - 1);
        let places = [0, SECTOR_BYTES - 1, SECTOR_BYTES, PAGE_BYTES, 2 * PAGE_BYTES - 1];
        for at in places.into_iter().chain([2 * PAGE_BYTES, btrfs, last]) {
            let mut theirs = vec![0; 512 * PAGE_BYTES];
            theirs[at] = b'd';
            fs::write(files.target(), &theirs).unwrap();
            let opened = Target::open(&files.target()).err().unwrap().to_string();
            let told = [opened, files.convert().unwrap_err()];
            assert!(told.iter().all(|told| told.contains("it holds something else")), "{told:?}");
            assert!(fs::read(files.target()).unwrap() == theirs, "{at}");
        }
    }

    #[test]
    fn what_was_interrupted_before_its_header_is_ours() {
        let files = Files::new("interrupted", &swap(&Kernel::new(7, 900), LZO));
        fs::write(files.target(), vec![0; 512 * PAGE_BYTES]).unwrap();
        let mut target = Target::open(&files.target()).unwrap();
        target.erase_mark().unwrap();
        target.write_bytes(2, b"data").unwrap();
        drop(target);
        Target::open(&files.target()).unwrap().erase_mark().unwrap();
        let left = fs::read(files.target()).unwrap();
        assert!(left[2 * PAGE_BYTES..].starts_with(b"data"), "only an image is written over");
        // Somebody else has it now, and left the first two pages as they were.
        for (at, word) in [(65_600, &b"_BHRfS_M"[..]), (131_072 + 5_120, b"\x0c\xb1\xba\0\0\0\0\0")]
        {
            let mut theirs = left.clone();
            theirs[at..at + 8].copy_from_slice(word);
            fs::write(files.target(), &theirs).unwrap();
            assert!(Target::open(&files.target()).is_err(), "{at}");
        }
        // Without that word it is anybody's.
        let mut theirs = left;
        theirs[PAGE_BYTES] = 0;
        fs::write(files.target(), &theirs).unwrap();
        assert!(Target::open(&files.target()).is_err());
    }

    /// A target that looks at the swap before each write.
    struct Watch<'a>(Target, &'a Files, Vec<(bool, bool)>);

    impl Store for Watch<'_> {
        fn write(&mut self, at: u64, pages: &[Page]) -> Result<(), String> {
            let marks = at == 0 && pages[0].0[0] != 0;
            self.2.push((marks, self.1.state().0));
            self.0.write(at, pages)
        }

        fn sync(&mut self) -> Result<(), String> {
            self.0.sync()
        }

        fn pages(&self) -> u64 {
            self.0.pages()
        }
    }

    #[test]
    fn there_are_never_two_images() {
        let files = Files::new("watched", &swap(&Kernel::new(7, 900), LZ4));
        let map = [Range { start: 0, bytes: FRAMES * 4096, kind: Range::USABLE }];
        let header = Header { frames: FRAMES, ..Header::empty() };
        let mut watch = Watch(Target::open(&files.target()).unwrap(), &files, Vec::new());
        let mut source = Hibernated::open(&files.swap()).unwrap();
        write(&mut source, header, &map, false, &mut watch).unwrap();
        let (last, before) = watch.2.split_last().unwrap();
        // The kernel's is there until all is written but the mark, and gone before that.
        assert!(before.len() > 4 && before.iter().all(|seen| *seen == (false, true)));
        assert_eq!(*last, (true, false));
    }
}
