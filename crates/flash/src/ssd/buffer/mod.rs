//! The write buffer: RAM that acknowledges writes before they are programmed.
//!
//! Pages wait in the order they became dirty, or batch by batch in logical order. A rewrite of a
//! waiting page is absorbed; a rewrite of a page whose program is under way makes it dirty again.
//! Without power-loss protection the buffer is volatile: a flush waits for everything that was
//! dirty when it came.

mod absorbed;
mod outstanding;
mod pages;
mod writer;

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{Bytes, Lba, LostWrite, Nanos, Request, RequestId, Snapshot};

use config::{ConfigError, Duration, Size};

use super::pace::PaceParams;
use super::throttle::ThrottleParams;
use absorbed::Absorbed;
use outstanding::Outstanding;
use pages::{Page, Pages, Slot};
use writer::Writer;

/// The order in which pages are programmed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Destage {
    /// As they became dirty.
    #[default]
    Oldest,
    /// Everything that waits in the order of logical pages, then everything that came meanwhile.
    Sorted,
}

/// Parameters of the write buffer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BufferParams {
    /// RAM for write data; `"0B"` turns the buffer off.
    pub capacity: Size,
    /// Time to take a page in or to serve it.
    pub access: Duration,
    /// Share of the buffer, in percent, above which pages are programmed in the background.
    /// 0 programs them as soon as possible, 100 when it is full.
    pub destage_above_percent: u32,
    /// Programs under way at once; 0 means one per plane, and where planes program together
    /// (`nand.multi_plane`) two of their programs, with all pages of a word line.
    pub destage_depth: u32,
    /// The order in which pages are programmed.
    pub destage_order: Destage,
    /// A rewrite takes the place of a page that waits only while fewer pages than these came after
    /// it; later both are programmed. 0: as long as it waits. Needs `power_loss_protection`.
    #[serde(skip_serializing_if = "is_zero")]
    pub merge_pages: u32,
    /// The pace at which pages are taken in; absent: as fast as they come while there is room.
    pub pace: Option<PaceParams>,
    /// What it takes in while the drive catches up with collection, by how much it was given
    /// lately; absent: collection does not show but in a full buffer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttle: Option<ThrottleParams>,
    /// Programs are suspended for reads also while writes wait for room.
    pub suspend_when_full: bool,
    /// Where they are not (`suspend_when_full = false`): nor are they while so many pages wait for
    /// their pace. 0: that never holds them.
    #[serde(skip_serializing_if = "is_zero")]
    pub hold_at_waiting: u32,
    /// Capacitors finish what is in the buffer when the power fails.
    pub power_loss_protection: bool,
    /// Flushes and FUA writes are answered at once, as no drive may: after a power failure what was
    /// promised is gone.
    pub ignore_flush: bool,
}

impl Default for BufferParams {
    fn default() -> BufferParams {
        BufferParams {
            capacity: Size(Bytes(0)),
            access: Duration(Nanos(1_000)),
            destage_above_percent: 0,
            destage_depth: 0,
            destage_order: Destage::Oldest,
            merge_pages: 0,
            pace: None,
            throttle: None,
            suspend_when_full: true,
            hold_at_waiting: 0,
            power_loss_protection: false,
            ignore_flush: false,
        }
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

/// What became of a page offered to the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offer {
    /// The buffer holds it.
    Taken,
    /// No room.
    NoRoom,
}

/// State of the write buffer.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// Pages it can hold.
    capacity: usize,
    destage_above: usize,
    depth: usize,
    /// Time to take a page in or to serve it.
    pub access: Nanos,
    protected: bool,
    waits_for_flush: bool,
    /// Pages that may come between a page and a rewrite that takes its place.
    merge: u64,
    pages: Pages,
    /// Older data of pages that are programmed by themselves, waiting or under way.
    older: usize,
    /// The count of the page that was taken out of the order last, if its data were older ones.
    took_older: Option<u64>,
    /// Of a volatile buffer.
    absorbed: Absorbed,
    /// (dirty count, lpn) in the order to program. Entries of discarded pages are skipped.
    order: VecDeque<(u64, u32)>,
    /// Entries at the front of `order` that are sorted by logical page; `None` sorts nothing.
    sorted: Option<usize>,
    dirtied: u64,
    /// Dirty counts whose data is not on flash yet.
    outstanding: Outstanding,
    programming: usize,
    /// Everything up to this count must be programmed because somebody waits for it.
    flush_to: u64,
}

impl Snapshot for Buffer {
    fn save(&self, to: &mut sim::Saver) {
        self.pages.sorted().save(to);
        self.absorbed.save(to);
        self.outstanding.save(to);
        self.order.save(to);
        let sorted = self.sorted.unwrap_or(0) as u64;
        let older = self.older as u64;
        [self.dirtied, self.flush_to, self.programming as u64, sorted, older].save(to);
    }
    fn restore(&mut self, from: &mut sim::Loader) -> Result<(), sim::SnapshotError> {
        let mut pages: Vec<Page> = Vec::new();
        pages.restore(from)?;
        self.pages.replace(pages);
        self.absorbed.restore(from)?;
        self.outstanding.restore(from)?;
        self.order.restore(from)?;
        let mut counts = [0; 5];
        counts.restore(from)?;
        [self.dirtied, self.flush_to] = [counts[0], counts[1]];
        self.programming = counts[2] as usize;
        self.sorted = self.sorted.map(|_| counts[3] as usize);
        self.older = counts[4] as usize;
        Ok(())
    }
}

impl Buffer {
    /// An empty buffer, or `None` when the capacity is zero; `depth` programs are under way where
    /// the parameters do not say how many.
    ///
    /// # Errors
    /// When it holds less than a page, or the share is above 100 %.
    pub fn new(
        params: &BufferParams,
        page_bytes: u64,
        depth: u32,
    ) -> Result<Option<Buffer>, ConfigError> {
        let bytes = params.capacity.0.0;
        if bytes == 0 {
            return Ok(None);
        }
        if bytes < page_bytes {
            let message = format!("expected 0B or at least one page ({})", Bytes(page_bytes));
            return Err(ConfigError::new("capacity", message));
        }
        if params.destage_above_percent > 100 {
            let message = format!("expected 0 to 100, got {}", params.destage_above_percent);
            return Err(ConfigError::new("destage_above_percent", message));
        }
        if params.merge_pages > 0 && !params.power_loss_protection {
            let message = "a volatile buffer keeps one state of a page: set power_loss_protection";
            return Err(ConfigError::new("merge_pages", message));
        }
        let capacity = (bytes / page_bytes) as usize;
        let depth = if params.destage_depth == 0 { depth } else { params.destage_depth };
        Ok(Some(Buffer {
            capacity,
            // A full one is programmed in any case: who waits for room would wait for ever.
            destage_above: (capacity * params.destage_above_percent as usize / 100)
                .min(capacity - 1),
            depth: depth as usize,
            merge: if params.merge_pages == 0 { u64::MAX } else { params.merge_pages.into() },
            older: 0,
            took_older: None,
            access: params.access.0,
            protected: params.power_loss_protection,
            waits_for_flush: !params.power_loss_protection && !params.ignore_flush,
            pages: Pages::new(),
            absorbed: Absorbed::default(),
            order: VecDeque::new(),
            sorted: (params.destage_order == Destage::Sorted).then_some(0),
            dirtied: 0,
            outstanding: Outstanding::default(),
            programming: 0,
            flush_to: 0,
        }))
    }

    /// True when a flush waits until what is in the buffer is on flash.
    pub fn waits_for_flush(&self) -> bool {
        self.waits_for_flush
    }

    /// True when the buffer forgets its content with the power.
    pub fn is_volatile(&self) -> bool {
        !self.protected
    }

    /// True when newest data of the page is in the buffer.
    pub fn holds(&self, lpn: u32) -> bool {
        self.pages.find(lpn).is_some()
    }

    /// True when a write of the page costs no program that is not owed already.
    #[inline]
    pub fn merges(&self, lpn: u32) -> bool {
        let Some(slot) = self.pages.find(lpn) else { return false };
        let page = self.pages.get(slot);
        self.merge == u64::MAX || page.waits() && self.dirtied - page.newest() < self.merge
    }

    /// How many of the sectors `lba .. lba + sectors`, which are of one page, are in the buffer.
    #[inline]
    pub fn has(&self, lpn: u32, lba: Lba, sectors: u32) -> u32 {
        let to = lba.0 + u64::from(sectors);
        self.pages.find(lpn).map_or(0, |slot| self.pages.get(slot).has(lba.0, to))
    }

    /// Offer the part of `request` that falls on `lpn`: sectors `lba .. lba + sectors`.
    pub fn offer(&mut self, lpn: u32, request: &Request, lba: Lba, sectors: u32) -> Offer {
        let full = self.pages.len() + self.older >= self.capacity;
        let slot = match self.pages.find(lpn) {
            Some(slot) => slot,
            None if full => return Offer::NoRoom,
            None => self.pages.insert(lpn),
        };
        let page = self.pages.at(slot);
        let fresh = page.dirty == 0;
        if !fresh && page.waits() && self.dirtied - page.newest() >= self.merge {
            if full {
                return Offer::NoRoom;
            }
            // What waits keeps its place in the order, and this one gets another.
            self.outstanding.remove(page.newest());
            self.dirtied += 1;
            self.outstanding.insert(self.dirtied);
            self.order.push_back((self.dirtied, lpn));
            page.again_at(self.dirtied);
            page.older_waiting += 1;
            self.older += 1;
        } else if fresh || !page.waits() {
            self.dirtied += 1;
            self.outstanding.insert(self.dirtied);
            self.order.push_back((self.dirtied, lpn));
            if fresh { page.dirty = self.dirtied } else { page.again = self.dirtied }
        }
        page.stream = request.stream;
        let (absorbed, keeps) = (&mut self.absorbed, !self.protected);
        page.written_by(Writer { id: request.id.0, lba: lba.0, sectors }, |list, writer| {
            if keeps {
                absorbed.push(list, writer);
            }
        });
        Offer::Taken
    }

    /// Take the page at the front of the order out of it.
    fn pop_front(&mut self) {
        self.order.pop_front();
        self.sorted = self.sorted.map(|sorted| sorted.saturating_sub(1));
    }

    /// The next page to program, if one should be: (lpn, sectors written, stream).
    pub fn next_destage(&mut self) -> Option<(u32, u32, u16)> {
        // Which pages are sorted together depends on when, so those are looked at in any case.
        if self.sorted.is_none() && self.programming >= self.depth {
            return None;
        }
        loop {
            if self.sorted == Some(0) {
                self.order.make_contiguous().sort_unstable_by_key(|&(count, lpn)| (lpn, count));
                self.sorted = Some(self.order.len());
            }
            let &(count, lpn) = self.order.front()?;
            let found = self.pages.find(lpn);
            let is_older = |page: &Page| count < page.newest() && page.older_waiting > 0;
            let wanted = |page: &Page| page.newest() == count || is_older(page);
            let Some(slot) = found.filter(|&slot| wanted(self.pages.get(slot))) else {
                // Discarded, or dirtied again later.
                self.pop_front();
                continue;
            };
            // What a flush waits for may be anywhere in a sorted order.
            let flushed = match self.sorted {
                Some(_) => !self.is_clean_to(self.flush_to),
                None => count <= self.flush_to,
            };
            let wanted = flushed || self.pages.len() + self.older > self.destage_above;
            if !wanted || self.programming >= self.depth {
                return None;
            }
            let page = self.pages.at(slot);
            if is_older(page) {
                return Some(self.destage_older(slot, count));
            }
            if page.programming {
                return None;
            }
            self.took_older = None;
            page.programming = true;
            // Emptied when its last program ended.
            std::mem::swap(&mut page.programmed_writers, &mut page.writers);
            page.programmed_absorbed = std::mem::take(&mut page.absorbed);
            let sectors = page.programmed_sectors();
            let stream = page.stream;
            self.programming += 1;
            self.pop_front();
            return Some((lpn, sectors, stream));
        }
    }

    /// Program older data of a page at the front of the order: whole, as which sectors they are of
    /// is not kept.
    #[cold]
    fn destage_older(&mut self, slot: Slot, count: u64) -> (u32, u32, u16) {
        let page = self.pages.at(slot);
        page.older_waiting -= 1;
        page.older_programming += 1;
        let (lpn, stream) = (page.lpn, page.stream);
        self.programming += 1;
        self.took_older = Some(count);
        self.pop_front();
        (lpn, u32::MAX, stream)
    }

    /// The destaged page could not be planned now: put it back.
    pub fn put_back(&mut self, lpn: u32) {
        let slot = self.pages.find(lpn).expect("a page being destaged is in the buffer");
        let page = self.pages.at(slot);
        if let Some(count) = self.took_older.take() {
            page.older_waiting += 1;
            page.older_programming -= 1;
            self.order.push_front((count, lpn));
            self.sorted = self.sorted.map(|sorted| sorted + 1);
            self.programming -= 1;
            return;
        }
        page.programming = false;
        std::mem::swap(&mut page.writers, &mut page.programmed_writers);
        page.absorbed = std::mem::take(&mut page.programmed_absorbed);
        self.order.push_front((page.dirty, lpn));
        self.sorted = self.sorted.map(|sorted| sorted + 1);
        self.programming -= 1;
    }

    /// The program of a page has ended.
    pub fn programmed(&mut self, lpn: u32) {
        self.programming -= 1;
        let Some(slot) = self.pages.find(lpn) else { return };
        let page = self.pages.at(slot);
        if page.older_programming > 0 {
            // One is as good as another: the last to end is that of the newest data.
            page.older_programming -= 1;
            self.older -= 1;
            return;
        }
        page.programming = false;
        page.programmed_writers.clear();
        self.absorbed.release(&mut page.programmed_absorbed);
        self.outstanding.remove(page.dirty);
        match std::mem::take(&mut page.again) {
            0 => self.pages.remove(slot),
            dirty => page.dirty = dirty,
        }
    }

    /// Everything dirty now must be programmed. Returns the count to wait for.
    pub fn begin_flush(&mut self) -> u64 {
        self.flush_to = self.dirtied;
        self.dirtied
    }

    /// True when everything up to `count` is programmed.
    pub fn is_clean_to(&self, count: u64) -> bool {
        self.outstanding.is_clean_to(count)
    }

    /// The host discarded the page.
    pub fn discard(&mut self, lpn: u32) {
        let Some(slot) = self.pages.find(lpn) else { return };
        let page = self.pages.at(slot);
        self.absorbed.release(&mut page.absorbed);
        self.older -= std::mem::take(&mut page.older_waiting) as usize;
        if !page.programming && page.older_programming > 0 {
            // A program of older data under way is then the page's.
            page.older_programming -= 1;
            self.older -= 1;
            page.programming = true;
            page.writers.clear();
            self.outstanding.remove(page.dirty);
        } else if page.programming {
            // The program under way writes data nobody wants; it ends by itself.
            let again = std::mem::take(&mut page.again);
            page.writers.clear();
            self.outstanding.remove(again);
        } else {
            self.outstanding.remove(page.dirty);
            self.pages.remove(slot);
        }
    }

    /// The power failed; returns what acknowledged writes it cost. `acknowledged` tells whether a
    /// request had completed.
    pub fn power_fail(&mut self, acknowledged: impl Fn(RequestId) -> bool) -> Vec<LostWrite> {
        self.programming = 0;
        self.older = 0;
        self.flush_to = 0;
        self.order.clear();
        self.sorted = self.sorted.map(|_| 0);
        if self.protected {
            // Programs under way start again from RAM when the power is back.
            for page in self.pages.iter_mut() {
                page.programming = false;
                (page.older_waiting, page.older_programming) = (0, 0);
                let newer = std::mem::take(&mut page.writers);
                page.writers = std::mem::take(&mut page.programmed_writers);
                newer.into_iter().for_each(|writer| page.written_by(writer, |_, _| {}));
                page.dirty = page.newest();
                page.again = 0;
                self.order.push_back((page.dirty, page.lpn));
            }
            self.order.make_contiguous().sort_unstable();
            self.outstanding.clear();
            self.order.iter().for_each(|&(count, _)| self.outstanding.insert(count));
            return Vec::new();
        }
        let mut lost = Vec::new();
        for page in self.pages.iter_mut() {
            let lists = [page.programmed_absorbed, page.absorbed];
            let absorbed = lists.into_iter().flat_map(|list| self.absorbed.iter(list));
            let writers = page.programmed_writers.iter().chain(&page.writers).copied();
            lost.extend(writers.chain(absorbed).map(|w| LostWrite {
                id: RequestId(w.id),
                lba: Lba(w.lba),
                sectors: w.sectors,
            }));
        }
        self.pages.replace(Vec::new());
        self.absorbed = Absorbed::default();
        self.outstanding.clear();
        lost.retain(|write| acknowledged(write.id));
        lost.sort_by_key(|write| (write.id, write.lba));
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim::Op;

    #[test]
    fn a_full_buffer_is_programmed_whatever_the_share() {
        let params = BufferParams {
            capacity: Size(Bytes(2 * 4096)),
            destage_above_percent: 100,
            ..Default::default()
        };
        let mut buffer = Buffer::new(&params, 4096, 1).unwrap().unwrap();
        let mut offer = |lpn: u32| {
            let lba = Lba(u64::from(lpn) * 8);
            let offer = buffer.offer(lpn, &Request::new(Op::Write, lba, 8), lba, 8);
            (offer, buffer.next_destage())
        };
        assert_eq!(offer(1), (Offer::Taken, None));
        assert_eq!(offer(2), (Offer::Taken, Some((1, 8, 0))));
        assert_eq!(offer(3), (Offer::NoRoom, None));
    }

    #[test]
    fn a_rewrite_takes_the_place_of_one_of_the_last_pages_only() {
        let params = BufferParams {
            capacity: Size(Bytes(8 * 4096)),
            power_loss_protection: true,
            destage_above_percent: 100,
            merge_pages: 3,
            ..Default::default()
        };
        let mut buffer = Buffer::new(&params, 4096, 9).unwrap().unwrap();
        let offer = |buffer: &mut Buffer, lpn: u32| {
            let lba = Lba(u64::from(lpn) * 8);
            buffer.offer(lpn, &Request::new(Op::Write, lba, 8), lba, 8)
        };
        // Page 7 is merged behind two other pages, and not behind three.
        for (lpn, merges) in [(7, false), (1, false), (2, false), (7, true), (3, false)] {
            assert_eq!((buffer.merges(lpn), offer(&mut buffer, lpn)), (merges, Offer::Taken));
        }
        assert!(!buffer.merges(7));
        assert_eq!(offer(&mut buffer, 7), Offer::Taken);
        assert!(buffer.merges(7));
        for lpn in [4, 5, 6] {
            assert_eq!(offer(&mut buffer, lpn), Offer::Taken);
        }
        // Both of page 7 and six others are all that it holds.
        assert_eq!([offer(&mut buffer, 8), offer(&mut buffer, 7)], [Offer::NoRoom; 2]);
        buffer.begin_flush();
        assert_eq!(buffer.next_destage(), Some((7, u32::MAX, 0)));
        buffer.put_back(7);
        let order = std::iter::from_fn(|| buffer.next_destage()).map(|(lpn, ..)| lpn);
        assert_eq!(order.collect::<Vec<_>>(), [7, 1, 2, 3, 7, 4, 5, 6]);
        buffer.programmed(7);
        assert!(buffer.holds(7));
        let mut discarded = buffer.clone();
        discarded.discard(7);
        discarded.programmed(7);
        buffer.programmed(7);
        assert_eq!([buffer.holds(7), discarded.holds(7)], [false; 2]);
        assert_eq!([offer(&mut buffer, 7), offer(&mut buffer, 8)], [Offer::Taken; 2]);
    }

    #[test]
    fn what_was_being_programmed_is_written_whole_after_a_power_failure() {
        let capacity = Size(Bytes(1 << 20));
        let params = BufferParams { capacity, power_loss_protection: true, ..Default::default() };
        let mut buffer = Buffer::new(&params, 4096, 1).unwrap().unwrap();
        let write = |id, lba, sectors| Request {
            id: RequestId(id),
            ..Request::new(Op::Write, Lba(lba), sectors)
        };
        buffer.offer(5, &write(1, 40, 8), Lba(40), 8);
        assert_eq!(buffer.next_destage(), Some((5, 8, 0)));
        // A newer write of half of the page, while the older data is being programmed.
        buffer.offer(5, &write(2, 40, 4), Lba(40), 4);
        assert!(buffer.power_fail(|_| true).is_empty());
        let (lpn, sectors, _) = buffer.next_destage().unwrap();
        assert!(lpn == 5 && sectors >= 8, "{sectors} sectors of 8 are written");
        buffer.programmed(5);
        assert!(!buffer.holds(5) && buffer.next_destage().is_none());
    }

    #[test]
    fn a_write_that_a_newer_one_replaced_in_ram_is_lost_with_it() {
        let params = BufferParams { capacity: Size(Bytes(1 << 20)), ..Default::default() };
        let mut buffer = Buffer::new(&params, 4096, 1).unwrap().unwrap();
        let write = |id| Request { id: RequestId(id), ..Request::new(Op::Write, Lba(40), 8) };
        let lost = |buffer: &Buffer| -> Vec<u64> {
            buffer.clone().power_fail(|id| id.0 != 9).iter().map(|lost| lost.id.0).collect()
        };
        for id in [1, 2, 3, 9] {
            buffer.offer(5, &write(id), Lba(40), 8);
        }
        assert_eq!(lost(&buffer), [1, 2, 3]);
        assert_eq!(buffer.next_destage(), Some((5, 8, 0)));
        buffer.put_back(5);
        assert_eq!(buffer.next_destage(), Some((5, 8, 0)));
        for id in [10, 11] {
            buffer.offer(5, &write(id), Lba(40), 8);
        }
        assert_eq!(lost(&buffer), [1, 2, 3, 10, 11]);
        buffer.programmed(5);
        assert_eq!(lost(&buffer), [10, 11]);
        let mut discarded = buffer.clone();
        discarded.discard(5);
        discarded.offer(5, &write(12), Lba(40), 8);
        assert_eq!(lost(&discarded), [12]);
        assert_eq!(buffer.next_destage(), Some((5, 8, 0)));
        buffer.programmed(5);
        assert_eq!(lost(&buffer), [0; 0]);
    }
}
