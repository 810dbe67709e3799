//! I/O priority, as Linux's `ioprio` has it: a class and a level within it.

use crate::snapshot::{Loader, Saver, Snapshot, SnapshotError};

/// The class of a [`Priority`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum PriorityClass {
    /// The host said nothing.
    #[default]
    None,
    /// Before all others.
    RealTime,
    /// What everybody has who asks for nothing else.
    BestEffort,
    /// Only when nobody else wants the device.
    Idle,
}

impl PriorityClass {
    /// Every class, by Linux's numbers.
    const ALL: [PriorityClass; 4] = [
        PriorityClass::None,
        PriorityClass::RealTime,
        PriorityClass::BestEffort,
        PriorityClass::Idle,
    ];
}

/// Class and level in one byte, so that a request stays small.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Priority(u8);

impl Priority {
    /// The host gave none.
    pub const NONE: Priority = Priority(0);
    /// Levels of a class; 0 is the highest.
    pub const LEVELS: u8 = 8;
    /// The level of whoever asks for none.
    pub const NORMAL: u8 = 4;

    /// This level (0 to 7) of this class.
    pub const fn new(class: PriorityClass, level: u8) -> Priority {
        assert!(level < Priority::LEVELS, "a priority level is 0 to 7");
        Priority((class as u8) << 3 | level)
    }

    /// The class.
    pub const fn class(self) -> PriorityClass {
        PriorityClass::ALL[(self.0 >> 3) as usize & 3]
    }

    /// The level; that of a request without a priority is [`Priority::NORMAL`].
    pub const fn level(self) -> u8 {
        match self.class() {
            PriorityClass::None => Priority::NORMAL,
            _ => self.0 & 7,
        }
    }
}

impl Snapshot for Priority {
    fn save(&self, to: &mut Saver) {
        self.0.save(to);
    }
    fn restore(&mut self, from: &mut Loader) -> Result<(), SnapshotError> {
        self.0.restore(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_and_level_come_back() {
        for class in PriorityClass::ALL {
            for level in 0..Priority::LEVELS {
                let priority = Priority::new(class, level);
                assert_eq!(priority.class(), class);
                let expected = if class == PriorityClass::None { Priority::NORMAL } else { level };
                assert_eq!(priority.level(), expected);
            }
        }
        assert_eq!(Priority::default(), Priority::NONE);
    }
}
