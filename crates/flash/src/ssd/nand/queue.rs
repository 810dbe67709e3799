//! Flash operations in a slab, queued through links: no allocation per operation.

use sim::snapshot_fields;

use crate::ssd::plan::FlashOp;

/// No slot.
pub(super) const NIL: u32 = u32::MAX;

/// One operation in the slab.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Entry {
    pub(super) op: FlashOp,
    pub(super) target: u32,
    pub(super) next: u32,
    pub(super) blocked: bool,
    /// The plane of the operation modulo the most planes of a die, which tells those of a die
    /// apart: whoever forms a group asks it of all that wait.
    pub(super) plane: u8,
    used: bool,
    /// Counts insertions, to give the operations back in order after a power failure.
    sequence: u32,
}

snapshot_fields!(Entry { op, target, next, blocked, plane, used, sequence });

/// All operations inside the NAND model.
#[derive(Clone, Debug)]
pub(super) struct Slab {
    entries: Vec<Entry>,
    free: u32,
    used: u32,
    sequence: u32,
}

impl Default for Slab {
    fn default() -> Slab {
        Slab { entries: Vec::new(), free: NIL, used: 0, sequence: 0 }
    }
}

snapshot_fields!(Slab { entries, free, used, sequence });

impl std::ops::Index<u32> for Slab {
    type Output = Entry;
    #[inline]
    fn index(&self, slot: u32) -> &Entry {
        &self.entries[slot as usize]
    }
}

impl std::ops::IndexMut<u32> for Slab {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut Entry {
        &mut self.entries[slot as usize]
    }
}

impl Slab {
    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    #[inline]
    pub(super) fn insert(&mut self, op: FlashOp, target: u32, plane: u8, blocked: bool) -> u32 {
        self.used += 1;
        self.sequence = self.sequence.wrapping_add(1);
        let sequence = self.sequence;
        let entry = Entry { op, target, next: NIL, blocked, plane, used: true, sequence };
        if self.free == NIL {
            self.entries.push(entry);
            return self.entries.len() as u32 - 1;
        }
        let slot = self.free;
        let place = &mut self.entries[slot as usize];
        self.free = place.next;
        *place = entry;
        slot
    }

    #[inline]
    pub(super) fn remove(&mut self, slot: u32) -> (FlashOp, u32) {
        self.used -= 1;
        let entry = &mut self.entries[slot as usize];
        (entry.next, entry.used) = (self.free, false);
        self.free = slot;
        (entry.op, entry.target)
    }

    /// Take everything out, oldest first.
    pub(super) fn drain(&mut self) -> Vec<FlashOp> {
        let mut used: Vec<_> = self.entries.iter().filter(|entry| entry.used).collect();
        // Distances from the present count survive its wrapping around.
        used.sort_by_key(|entry| std::cmp::Reverse(self.sequence.wrapping_sub(entry.sequence)));
        let ops = used.iter().map(|entry| entry.op).collect();
        *self = Slab { sequence: self.sequence, ..Slab::default() };
        ops
    }
}

/// A queue of slab entries, first in first out.
#[derive(Clone, Copy, Debug)]
pub(super) struct List {
    head: u32,
    tail: u32,
}

impl Default for List {
    fn default() -> List {
        List { head: NIL, tail: NIL }
    }
}

snapshot_fields!(List { head, tail });

impl List {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.head == NIL
    }

    pub(super) fn head(&self) -> u32 {
        self.head
    }

    /// True when the oldest entry may start.
    #[inline]
    pub(super) fn ready(&self, slab: &Slab) -> bool {
        self.head != NIL && !slab[self.head].blocked
    }

    #[inline]
    pub(super) fn push(&mut self, slab: &mut Slab, slot: u32) {
        match self.tail {
            NIL => self.head = slot,
            tail => slab[tail].next = slot,
        }
        self.tail = slot;
    }

    #[inline]
    pub(super) fn pop(&mut self, slab: &mut Slab) -> u32 {
        let slot = self.head;
        self.head = slab[slot].next;
        if self.head == NIL {
            self.tail = NIL;
        }
        slab[slot].next = NIL;
        slot
    }

    /// Unlink the entry behind `previous`, or the first one when `previous` is [`NIL`].
    pub(super) fn unlink_after(&mut self, slab: &mut Slab, previous: u32) {
        if previous == NIL {
            self.pop(slab);
            return;
        }
        let slot = slab[previous].next;
        slab[previous].next = slab[slot].next;
        if self.tail == slot {
            self.tail = previous;
        }
        slab[slot].next = NIL;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssd::plan::Cause;

    #[test]
    fn lists_keep_order_through_unlinking() {
        let mut slab = Slab::default();
        let mut list = List::default();
        let slots: Vec<_> = (0..4)
            .map(|ppn| {
                let slot = slab.insert(FlashOp::erase(Cause::Gc, ppn), 0, 0, false);
                list.push(&mut slab, slot);
                slot
            })
            .collect();
        list.unlink_after(&mut slab, slots[0]);
        list.unlink_after(&mut slab, slots[2]);
        assert_eq!(list.pop(&mut slab), slots[0]);
        assert_eq!(list.pop(&mut slab), slots[2]);
        assert!(list.is_empty());
        list.push(&mut slab, slots[1]);
        assert_eq!(list.head(), slots[1]);
    }

    #[test]
    fn draining_gives_operations_in_order() {
        let mut slab = Slab::default();
        let insert =
            |slab: &mut Slab, ppn| slab.insert(FlashOp::erase(Cause::Gc, ppn), 0, 0, false);
        let first = insert(&mut slab, 1);
        insert(&mut slab, 2);
        slab.remove(first);
        insert(&mut slab, 3);
        let pages: Vec<_> = slab.drain().iter().map(FlashOp::ppn).collect();
        assert_eq!((pages, slab.is_empty()), (vec![2, 3], true));
    }
}
