//! Whether the device queues requests itself.

use sim::snapshot_fields;

/// More requests than this at once, and the device queues them itself.
pub(super) const QUEUES: u32 = 3;
const SAMPLES: u32 = 32;
/// Found out by how many were in it at once.
#[derive(Clone, Default, Debug)]
pub(super) struct DeviceQueue {
    /// `None` until it is known; taken for a yes.
    known: Option<bool>,
    most: u32,
    samples: u32,
}

snapshot_fields!(DeviceQueue { known, most, samples });

impl DeviceQueue {
    pub(super) fn exists(&self) -> bool {
        self.known != Some(false)
    }

    /// The most requests that were in it lately.
    pub(super) fn most(&self) -> u32 {
        self.most
    }

    /// An answer: so many requests were in the device, so many waited, and `idles` when whoever
    /// has the turn had too few to tell. Says whether it queues when that is found out.
    pub(super) fn sample(&mut self, inside: u32, waiting: u32, idles: bool) -> Option<bool> {
        self.most = self.most.max(inside);
        if self.known == Some(true) || inside + waiting <= QUEUES || idles {
            return None;
        }
        self.samples += 1;
        if self.samples <= SAMPLES {
            return None;
        }
        let exists = self.most > QUEUES;
        *self = DeviceQueue { known: Some(exists), most: 0, samples: 0 };
        Some(exists)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_had_four_requests_at_once_queues_them() {
        for (inside, exists) in [(3, false), (4, true)] {
            let mut device = DeviceQueue::default();
            let found = (0..33).filter_map(|_| device.sample(inside, 2, false)).collect::<Vec<_>>();
            assert_eq!(found, [exists]);
            assert_eq!(device.exists(), exists);
            assert_eq!(device.sample(4, 2, true), None);
        }
    }
}
