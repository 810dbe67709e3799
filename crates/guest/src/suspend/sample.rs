//! What is in memory, told by a sample of it, while programs run: `/proc/kcore`.
//!
//! Linux, `fs/proc/kcore.c`: an ELF file whose segments have physical addresses.

use std::fs::File;
use std::os::unix::fs::FileExt;

use resume::{PAGE_BYTES, Runner};

use super::target::{Packer, Page};

/// Stretches that are looked at, and pages of each.
const STRETCHES: usize = 64;
const PAGES: usize = 32;
const LOADED: u32 = 1;

/// Of pages of memory, what an image would hold of them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Sample {
    /// The share that is data.
    pub(super) data: f64,
    /// What packing makes of a page of data.
    pub(super) packed: f64,
}

/// A segment: its physical address, its bytes, and where they are in the file.
struct Segment {
    from: u64,
    bytes: u64,
    at: u64,
}

/// Look at some of these frames, which are in rising order; `None` without `/proc/kcore`.
pub(super) fn sample(frames: &[u64]) -> Option<Sample> {
    let memory = File::open("/proc/kcore").ok()?;
    let segments = segments(&memory)?;
    let read = |frame: u64| {
        let address = frame * PAGE_BYTES as u64;
        let within = |one: &&Segment| one.from <= address && address - one.from < one.bytes;
        let segment = segments.iter().find(within)?;
        let mut page = Page::default();
        memory.read_exact_at(&mut page.0, segment.at + (address - segment.from)).ok()?;
        Some(page)
    };
    let step = (frames.len() / STRETCHES).max(PAGES);
    let stretches = frames.chunks(step).map(|part| {
        part.iter().take(PAGES).filter_map(|frame| read(*frame)).collect::<Vec<Page>>()
    });
    told(stretches)
}

/// What stretches of pages say of all.
fn told(stretches: impl Iterator<Item = Vec<Page>>) -> Option<Sample> {
    let mut packer = Packer::new();
    let (mut all, mut data, mut bytes) = (0, 0, 0);
    for mut pages in stretches {
        all += pages.len();
        pages.retain(|page| {
            let mut runner = Runner::default();
            runner.page(0, &page.0);
            runner.is_data()
        });
        data += pages.len();
        let packed = if pages.is_empty() { None } else { packer.pack(&pages) };
        bytes += packed.map_or(pages.len() * PAGE_BYTES, |(_, bytes)| bytes as usize);
    }
    let share = |part: usize, of: usize| if of == 0 { 1.0 } else { part as f64 / of as f64 };
    let sample = Sample { data: share(data, all), packed: share(bytes, data * PAGE_BYTES) };
    (all > 0).then_some(sample)
}

fn segments(memory: &File) -> Option<Vec<Segment>> {
    let mut head = [0; 64];
    memory.read_exact_at(&mut head, 0).ok()?;
    let word = |bytes: &[u8], at: usize| Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let half = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    if !head.starts_with(b"\x7fELF") {
        return None;
    }
    let (at, bytes, count) = (word(&head, 32)?, half(54), half(56));
    let mut found = Vec::new();
    for index in 0..u64::from(count) {
        let mut segment = vec![0; bytes.into()];
        memory.read_exact_at(&mut segment, at + index * u64::from(bytes)).ok()?;
        let kind = u32::from_le_bytes(*segment.first_chunk()?);
        let (at, from, bytes) = (word(&segment, 8)?, word(&segment, 24)?, word(&segment, 32)?);
        // Of what has no physical address, that is all ones.
        if kind == LOADED && from != u64::MAX {
            found.push(Segment { from, bytes, at });
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_tells_zeros_and_what_becomes_shorter() {
        let page = |word: u64| {
            let mut page = Page::default();
            for (at, place) in page.0.chunks_exact_mut(8).enumerate() {
                // No word of it twice.
                let random = word.wrapping_mul(at as u64 * 2 + 1).rotate_left(at as u32);
                place.copy_from_slice(&random.to_le_bytes());
            }
            page
        };
        let mut short = Page::default();
        short.0[9] = 1;
        let stretch = || vec![Page::default(), short.clone()];
        let found = told([stretch(), stretch(), stretch()].into_iter()).unwrap();
        assert!(found.data == 0.5 && found.packed <= 1.0, "{found:?}");
        let many = vec![short.clone(); 32];
        let random: Vec<Page> =
            (1..33).map(|n: u64| page(n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
        let found = told([many.clone()].into_iter()).unwrap();
        assert!(found.data == 1.0 && found.packed < 0.1, "{found:?}");
        let found = told([many, random].into_iter()).unwrap();
        assert!((0.4..0.6).contains(&found.packed), "{found:?}");
        assert_eq!(told(std::iter::empty()), None);
    }
}
