//! Observation from outside: a model never formats or prints.

use crate::device::Completion;
use crate::request::Request;
use crate::span::Span;
use crate::units::Nanos;

/// Watches a run. Every method does nothing unless it is overridden.
pub trait Probe {
    /// True when [`Probe::on_span`] wants media spans; asked once, before the run.
    fn wants_spans(&self) -> bool {
        false
    }

    /// The host issued a request. The device may take it later, when its queue has room.
    fn on_issue(&mut self, now: Nanos, request: &Request) {
        let _ = (now, request);
    }

    /// A request that was issued at `issued` completed.
    fn on_complete(&mut self, request: &Request, issued: Nanos, completion: Completion) {
        let _ = (request, issued, completion);
    }

    /// A part of the media did something.
    fn on_span(&mut self, span: &Span) {
        let _ = span;
    }
}

/// Watches nothing.
#[derive(Clone, Copy, Default, Debug)]
pub struct NoProbe;

impl Probe for NoProbe {}

impl<A: Probe, B: Probe> Probe for (A, B) {
    fn wants_spans(&self) -> bool {
        self.0.wants_spans() || self.1.wants_spans()
    }
    fn on_issue(&mut self, now: Nanos, request: &Request) {
        self.0.on_issue(now, request);
        self.1.on_issue(now, request);
    }
    fn on_complete(&mut self, request: &Request, issued: Nanos, completion: Completion) {
        self.0.on_complete(request, issued, completion);
        self.1.on_complete(request, issued, completion);
    }
    fn on_span(&mut self, span: &Span) {
        self.0.on_span(span);
        self.1.on_span(span);
    }
}

impl<P: Probe + ?Sized> Probe for &mut P {
    fn wants_spans(&self) -> bool {
        (**self).wants_spans()
    }
    fn on_issue(&mut self, now: Nanos, request: &Request) {
        (**self).on_issue(now, request);
    }
    fn on_complete(&mut self, request: &Request, issued: Nanos, completion: Completion) {
        (**self).on_complete(request, issued, completion);
    }
    fn on_span(&mut self, span: &Span) {
        (**self).on_span(span);
    }
}
