//! The stepped clock: submit, look, go on. For tests of a single gate.

use crate::device::{Busy, Completion, Completions, Device};
use crate::request::{Request, RequestId};
use crate::span::Span;
use crate::units::Nanos;

/// Drives a device by hand: "blocked one tick earlier, ready now".
pub struct Stepper<D> {
    /// The device under test.
    pub device: D,
    now: Nanos,
    next_id: u64,
    out: Completions,
}

impl<D: Device> Stepper<D> {
    /// A stepper at time zero.
    pub fn new(device: D) -> Stepper<D> {
        Stepper { device, now: Nanos::ZERO, next_id: 0, out: Completions::with_spans() }
    }

    /// The present moment.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Submit at the present moment.
    ///
    /// # Errors
    /// [`Busy`] as the device says.
    ///
    /// # Panics
    /// When the request does not fit the device.
    pub fn submit(&mut self, mut request: Request) -> Result<RequestId, Busy> {
        self.device.limits().check(&request).expect("the test's request fits the device");
        request.id = RequestId(self.next_id);
        self.device.submit(self.now, request)?;
        self.next_id += 1;
        Ok(request.id)
    }

    /// Submit at the present moment, run until it is answered, and say when that was.
    ///
    /// # Panics
    /// When the request does not fit, or the device is busy or never answers.
    pub fn answered(&mut self, request: Request) -> Nanos {
        let id = self.submit(request).expect("the device is not busy");
        loop {
            let next = self.device.next_event().expect("the request is answered");
            if self.run_until(next).iter().any(|done| done.id == id) {
                return next;
            }
        }
    }

    /// Do everything due up to and including `time`; returns what completed.
    ///
    /// # Panics
    /// When `time` lies in the past, or the device breaks the contract.
    pub fn run_until(&mut self, time: Nanos) -> Vec<Completion> {
        assert!(time >= self.now, "the stepper cannot go back from {} to {time}", self.now);
        while let Some(next) = self.device.next_event().filter(|&next| next <= time) {
            assert!(next >= self.now, "the device's next event {next} lies before {}", self.now);
            self.now = next;
            self.device.advance(next, &mut self.out);
        }
        self.now = time;
        std::mem::take(&mut self.out.done)
    }

    /// Run until the device has nothing left to do.
    pub fn drain(&mut self) -> Vec<Completion> {
        let mut done = Vec::new();
        while let Some(next) = self.device.next_event() {
            done.extend(self.run_until(next));
        }
        done
    }

    /// Media spans seen since the last call.
    pub fn spans(&mut self) -> Vec<Span> {
        self.out.spans.replace(Vec::new()).unwrap_or_default()
    }
}
