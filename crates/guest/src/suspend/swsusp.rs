//! A kernel's own image in its swap, as a source.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use resume::PAGE_BYTES;
use resume::kernel::StreamHeader;
use resume::swsusp::{
    GROUP_BYTES, PACKED_BYTES_MAX, Packing, Signature, add, group_pages, map, unpack,
};
use rustix::fs::OFlags;

use super::snapshot::Source;
use super::target::{not_opened, open_alone};

/// A swap with an image.
pub(super) struct Hibernated {
    file: File,
    name: String,
    /// Pages of the swap.
    pages: u64,
    signature: Signature,
    /// Bytes of the image.
    bytes: u64,
    /// Pages that the map tells, in order, and how many of them were read.
    entries: Vec<u64>,
    next: usize,
    /// What was unpacked, and how much of it was given away.
    group: Vec<u8>,
    given: usize,
    sum: u32,
}

impl Hibernated {
    /// Open the one in `path`, and read its map.
    pub(super) fn open(path: &Path) -> Result<Hibernated, String> {
        let name = path.display().to_string();
        let wrong = |why: std::io::Error| format!("{name}: {why}");
        // Who has it as swap, or resumes from it, must not do so meanwhile.
        let file = open_alone(path, OFlags::empty()).map_err(|why| not_opened(path, &why))?;
        let bytes = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0));
        let pages = bytes.map_err(|why| wrong(why.into()))? / PAGE_BYTES as u64;
        let mut page = [0; PAGE_BYTES];
        let expected = || format!("{name}: expected swap with the image of a kernel's suspend");
        if pages == 0 {
            return Err(format!("{}, found less than a page", expected()));
        }
        file.read_exact_at(&mut page, 0).map_err(wrong)?;
        let signature = Signature::read(&page).ok_or_else(expected)?;
        let mut source = Hibernated {
            file,
            name,
            pages,
            signature,
            bytes: 0,
            entries: Vec::new(),
            next: 0,
            group: vec![0; GROUP_BYTES],
            given: GROUP_BYTES,
            sum: 0,
        };
        source.read_map()?;
        source.raw(&mut page)?;
        let stream = StreamHeader::read(&page).map_err(|why| format!("{}: {why}", source.name))?;
        source.bytes = (1 + stream.list_pages + stream.data_pages) * PAGE_BYTES as u64;
        source.next = 0;
        Ok(source)
    }

    fn damaged(&self, what: &str) -> String {
        format!("{}: the kernel's image is damaged: {what}", self.name)
    }

    fn read_map(&mut self) -> Result<(), String> {
        let (mut at, mut page) = (self.signature.map, [0; PAGE_BYTES]);
        // A map that goes round, of empty pages, too, has more of them than the swap.
        for _ in 0..self.pages {
            if at == 0 {
                return Ok(());
            }
            self.read(at, &mut page)?;
            let (entries, next) = map(&page);
            self.entries.extend(entries.take_while(|entry| *entry != 0));
            if self.entries.len() as u64 >= self.pages {
                break;
            }
            at = next;
        }
        Err(self.damaged("its map goes round"))
    }

    fn read(&self, at: u64, page: &mut [u8; PAGE_BYTES]) -> Result<(), String> {
        if at == 0 || at >= self.pages {
            return Err(self.damaged("a page outside of the swap"));
        }
        let read = self.file.read_exact_at(page, at * PAGE_BYTES as u64);
        read.map_err(|why| format!("{}: {why}", self.name))
    }

    /// The next page as it is in the swap.
    fn raw(&mut self, page: &mut [u8; PAGE_BYTES]) -> Result<(), String> {
        let at = *self.entries.get(self.next).ok_or_else(|| self.damaged("it has ended"))?;
        self.next += 1;
        self.read(at, page)
    }

    fn next_group(&mut self) -> Result<(), String> {
        let mut packed = Vec::with_capacity(PACKED_BYTES_MAX + PAGE_BYTES);
        let mut page = [0; PAGE_BYTES];
        self.raw(&mut page)?;
        let pages = group_pages(&page).ok_or_else(|| self.damaged("a group's length"))?;
        packed.extend(page);
        for _ in 1..pages {
            self.raw(&mut page)?;
            packed.extend(page);
        }
        self.group.resize(GROUP_BYTES, 0);
        let out = self.group.first_chunk_mut().expect("it was made as long");
        let count = unpack(&packed, self.signature.packing, out);
        self.group.truncate(count.ok_or_else(|| self.damaged("a group"))?);
        self.sum = add(self.sum, &self.group);
        self.given = 0;
        Ok(())
    }
}

impl Source for Hibernated {
    fn bytes(&self) -> Result<u64, String> {
        Ok(self.bytes)
    }

    fn page(&mut self, page: &mut [u8; PAGE_BYTES]) -> Result<(), String> {
        // The first page is never packed.
        if self.next == 0 || self.signature.packing == Packing::Plain {
            return self.raw(page);
        }
        if self.given >= self.group.len() {
            self.next_group()?;
        }
        page.copy_from_slice(&self.group[self.given..][..PAGE_BYTES]);
        self.given += PAGE_BYTES;
        Ok(())
    }

    fn give_up(&mut self) -> Result<(), String> {
        if self.signature.sum.is_some_and(|sum| sum != self.sum) {
            return Err(self.damaged("its checksum"));
        }
        let wrong = |why: std::io::Error| format!("{}: {why}", self.name);
        let mut page = [0; PAGE_BYTES];
        self.file.read_exact_at(&mut page, 0).map_err(wrong)?;
        Signature::erase(&mut page);
        self.file.write_all_at(&page, 0).and_then(|()| self.file.sync_all()).map_err(wrong)
    }
}
