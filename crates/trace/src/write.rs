//! Writing traces.

use std::collections::BTreeMap;

use sim::{Op, Request};

use crate::Record;

/// What a format can carry, so that a conversion can say what is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Carries {
    /// Resolution of its times in nanoseconds; `None` when it has none.
    pub time_ns: Option<u64>,
    /// Flushes.
    pub flush: bool,
    /// Discards.
    pub discard: bool,
    /// Force unit access.
    pub fua: bool,
    /// Which process asked.
    pub process: bool,
    /// How long it took.
    pub response: bool,
    /// It has a place for that in each line, and 0 stands where it is not known.
    pub needs_response: bool,
    /// Which device it went to.
    pub device: bool,
    /// Its readers count devices from 0 on.
    pub numbers_devices: bool,
}

impl Carries {
    /// Reads and writes only: what every format can carry.
    pub(crate) const NOTHING: Carries = Carries {
        time_ns: None,
        flush: false,
        discard: false,
        fua: false,
        process: false,
        response: false,
        needs_response: false,
        device: false,
        numbers_devices: false,
    };

    /// All there is.
    pub const EVERYTHING: Carries = Carries {
        time_ns: Some(1),
        flush: true,
        discard: true,
        fua: true,
        process: true,
        response: true,
        needs_response: false,
        device: true,
        numbers_devices: false,
    };

    /// Whether a request of this kind can be written at all.
    pub fn takes(&self, request: &Request) -> bool {
        match request.op {
            Op::Read | Op::Write => true,
            Op::Flush => self.flush,
            Op::Discard => self.discard,
        }
    }
}

/// Writes one text format.
pub trait Writer {
    /// What the format can carry. Requests it cannot take must not be given to it.
    fn carries(&self) -> Carries;

    /// The lines before the first record.
    fn begin(&mut self, out: &mut Vec<u8>) {
        let _ = out;
    }

    /// The lines of one record; `process` is what its process is called, where that is known.
    fn record(&mut self, record: &Record, process: Option<&str>, out: &mut Vec<u8>);

    /// The lines after the last record.
    fn end(&mut self, out: &mut Vec<u8>) {
        let _ = out;
    }
}

/// The numbers of devices in a format that counts them from 0 on. A device that the trace calls by
/// a number keeps it; those with other names, such as `8,16`, are numbered as they appear.
#[derive(Default, Debug)]
pub struct DeviceNumbers {
    numbers: BTreeMap<u32, u32>,
    names: Vec<String>,
}

impl DeviceNumbers {
    /// The number of a device of this name.
    pub fn of(&mut self, device: u32, name: impl FnOnce() -> String) -> u32 {
        *self.numbers.entry(device).or_insert_with(|| {
            let name = name();
            if name == device.to_string() {
                return device;
            }
            self.names.push(name);
            self.names.len() as u32 - 1
        })
    }

    /// Which is which, where that is not the trace's own number.
    #[must_use]
    pub fn say(&self) -> Option<String> {
        let each =
            self.names.iter().enumerate().map(|(number, name)| format!("{number} is {name}"));
        let each: Vec<String> = each.collect();
        (!each.is_empty()).then(|| format!("devices are numbered: {}", each.join("; ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_numbered_as_they_appear_unless_they_have_numbers() {
        let mut numbers = DeviceNumbers::default();
        let mut of = |device, name: &str| numbers.of(device, || name.into());
        let (b, c) = (8 << 20 | 16, 8 << 20 | 32);
        assert_eq!([of(b, "8,16"), of(c, "8,32"), of(b, "8,16")], [0, 1, 0]);
        assert_eq!(numbers.say().unwrap(), "devices are numbered: 0 is 8,16; 1 is 8,32");
        let mut numbers = DeviceNumbers::default();
        assert_eq!([7, 3].map(|device| numbers.of(device, || device.to_string())), [7, 3]);
        assert_eq!(numbers.say(), None);
    }
}
