//! What a drive counts, against arithmetic.

use sim::{Completions, Device, Nanos};

/// Do what is due up to a time.
pub(crate) fn advance(device: &mut dyn Device, to: Nanos) {
    let mut out = Completions::new();
    while let Some(at) = device.next_event().filter(|&at| at <= to) {
        device.advance(at, &mut out);
    }
}
