//! Writes whose data newer ones replaced in RAM: nothing of them was ever programmed, so they are
//! as volatile as those newer ones, until these are programmed.

use sim::snapshot_fields;

use super::writer::Writer;

/// So many are kept, 6 MiB of them. A host that rewrites what it never flushes could make any
/// number; what is not kept counts as programmed in between.
const MAX: usize = 1 << 18;

/// A list of some; the number of its first node, 0 when it is empty.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct List(u32);

#[derive(Clone, Copy, Default, Debug)]
struct Node {
    writer: Writer,
    next: List,
}

/// All lists.
#[derive(Clone, Default, Debug)]
pub(super) struct Absorbed {
    nodes: Vec<Node>,
    /// Nodes that are in no list.
    free: List,
}

snapshot_fields!(List { 0 });
snapshot_fields!(Node { writer, next });
snapshot_fields!(Absorbed { nodes, free });

impl Absorbed {
    /// Put a write in front of a list.
    pub(super) fn push(&mut self, list: &mut List, writer: Writer) {
        let node = Node { writer, next: *list };
        if let Some(index) = (self.free.0 as usize).checked_sub(1) {
            *list = self.free;
            self.free = std::mem::replace(&mut self.nodes[index], node).next;
        } else if self.nodes.len() < MAX {
            self.nodes.push(node);
            *list = List(self.nodes.len() as u32);
        }
    }

    /// Empty a list.
    #[inline]
    pub(super) fn release(&mut self, list: &mut List) {
        if *list != List::default() {
            self.give_back(std::mem::take(list));
        }
    }

    #[cold]
    fn give_back(&mut self, list: List) {
        let mut last = list;
        while let next @ List(1..) = self.nodes[last.0 as usize - 1].next {
            last = next;
        }
        self.nodes[last.0 as usize - 1].next = std::mem::replace(&mut self.free, list);
    }

    /// The writes of a list.
    pub(super) fn iter(&self, list: List) -> impl Iterator<Item = Writer> {
        let at = |List(number): List| Some(&self.nodes[(number as usize).checked_sub(1)?]);
        std::iter::successors(at(list), move |node| at(node.next)).map(|node| node.writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writer(id: u64) -> Writer {
        Writer { id, ..Writer::default() }
    }

    fn ids(absorbed: &Absorbed, list: List) -> Vec<u64> {
        absorbed.iter(list).map(|writer| writer.id).collect()
    }

    #[test]
    fn lists_share_their_room_and_memory_is_bounded() {
        let (mut all, mut one, mut two) = (Absorbed::default(), List::default(), List::default());
        for id in 0..3 {
            all.push(&mut one, writer(id));
            all.push(&mut two, writer(10 + id));
        }
        assert_eq!((ids(&all, one), ids(&all, two)), (vec![2, 1, 0], vec![12, 11, 10]));
        all.release(&mut one);
        all.release(&mut one);
        assert_eq!((ids(&all, one), ids(&all, two)), (vec![], vec![12, 11, 10]));
        (20..24).for_each(|id| all.push(&mut one, writer(id)));
        assert_eq!((ids(&all, one), all.nodes.len()), (vec![23, 22, 21, 20], 7));
        (0..MAX as u64).for_each(|id| all.push(&mut one, writer(id)));
        assert_eq!((all.nodes.len(), ids(&all, two)), (MAX, vec![12, 11, 10]));
        all.release(&mut one);
        all.push(&mut two, writer(13));
        assert_eq!(ids(&all, two), [13, 12, 11, 10]);
    }
}
