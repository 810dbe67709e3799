//! Numbers for the processes that ask, in the order in which they come.

use std::cell::Cell;

use sim::snapshot_fields;

/// The numbers of processes. A list: what is asked for most is the last one again, as a bio passes
/// several places that each want to know whose it is.
#[derive(Clone, Default, Debug)]
pub(crate) struct Names {
    /// Processes and their numbers, by process.
    numbers: Vec<(u32, u32)>,
    /// The place that was found last.
    last: Cell<usize>,
}

snapshot_fields!(Names { numbers });

impl Names {
    fn place(&self, process: u32) -> Result<usize, usize> {
        let last = self.last.get();
        if self.numbers.get(last).is_some_and(|&(known, _)| known == process) {
            return Ok(last);
        }
        let place = self.numbers.binary_search_by_key(&process, |&(known, _)| known);
        self.last.set(place.unwrap_or(last));
        place
    }

    /// The number of a process, if it has one.
    #[inline]
    pub(crate) fn find(&self, process: u32) -> Option<u32> {
        self.place(process).ok().map(|place| self.numbers[place].1)
    }

    /// The number of a process: one more than the last for a new one.
    #[inline]
    pub(crate) fn number(&mut self, process: u32) -> u32 {
        match self.place(process) {
            Ok(place) => self.numbers[place].1,
            Err(place) => {
                let number = self.numbers.len() as u32;
                self.numbers.insert(place, (process, number));
                number
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_given_in_order_and_kept() {
        let mut names = Names::default();
        assert_eq!(names.find(7), None);
        let given = [7, 3, 9, 3, 7, 0].map(|process| names.number(process));
        assert_eq!(given, [0, 1, 2, 1, 0, 3]);
        assert_eq!(
            [9, 8, 0, 7].map(|process| names.find(process)),
            [Some(2), None, Some(3), Some(0)]
        );
    }
}
