//! The virtual clock: jump from event to event.

use std::collections::VecDeque;
use std::fmt;

use crate::device::{BadRequest, Busy, Completions, Device};
use crate::digest::Digest;
use crate::probe::Probe;
use crate::request::{Op, Request, RequestId};
use crate::units::Nanos;
use crate::workload::{Demand, Workload, WorkloadError};

/// When a run stops issuing. What is inside the device then still completes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stop {
    /// Issue nothing at or after this moment.
    pub at: Nanos,
    /// Issue at most this many requests.
    pub requests: u64,
}

impl Default for Stop {
    fn default() -> Stop {
        Stop { at: Nanos::MAX, requests: u64::MAX }
    }
}

/// What a run did, as a whole. Details come from the [`Probe`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// When the last request completed (or the start, when there was none), what the workload
    /// computes after that is done, and its time is over: the workload's own, or [`Stop::at`].
    pub end: Nanos,
    /// Requests completed.
    pub requests: u64,
    /// Digest over every completion's (id, time).
    pub digest: Digest,
    /// Integral of the number of requests in flight over time, in request-nanoseconds.
    pub in_flight_ns: u128,
    /// Sum of all response times, in nanoseconds. Little's law: equal to `in_flight_ns` on every
    /// drained run.
    pub response_ns: u128,
}

/// Why a run could not be finished.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RunError {
    /// The workload failed.
    Workload(WorkloadError),
    /// The workload asked for something the device does not have.
    BadRequest {
        /// Number of the request, from 0.
        request: u64,
        /// What is wrong with it.
        why: BadRequest,
    },
    /// The device holds requests but has no event left: a bug in its model.
    Stuck {
        /// Requests still inside.
        in_flight: u64,
        /// When the run stopped.
        at: Nanos,
    },
    /// Requests take no time at all, so a run that is bounded by nothing else would never end.
    NoTime {
        /// Requests at least that were completed at one moment.
        requests: u64,
        /// What the last of them was.
        what: Op,
        /// The moment.
        at: Nanos,
    },
    /// It goes on for longer than clocks can count: what devices add to the time would wrap.
    TooLong {
        /// How long it had gone on.
        at: Nanos,
    },
}

/// So many requests that are completed at one moment, and more that follow, are taken for no end.
const AT_ONCE_MAX: u64 = 1 << 21;
/// 200 years: less than half of what a [`Nanos`] holds.
const LONGEST: Nanos = Nanos::from_secs(200 * 365 * 86_400);
/// Requests after which the pace is looked at.
const PACED: u64 = 2 * AT_ONCE_MAX;

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Workload(error) => write!(f, "{error}"),
            RunError::BadRequest { request, why } => write!(f, "request {request}: {why}"),
            RunError::Stuck { in_flight, at } => write!(
                f,
                "the device model is stuck with {in_flight} requests inside at {at}: \
                 this is a bug in blocklab, please report it with the study"
            ),
            RunError::NoTime { requests, what, at } => write!(
                f,
                "no time passes: more than {requests} requests began and ended at {at}, the last \
                 of them a {}, and nothing says how many there should be",
                what.name()
            ),
            RunError::TooLong { at } => write!(
                f,
                "it is not done after {} years of its own time",
                at.0 / Nanos::from_secs(365 * 86_400).0
            ),
        }
    }
}

impl std::error::Error for RunError {}

/// Run `workload` on `device` from `start` in virtual time until both are done.
///
/// A request's response time counts from the moment the workload issued it, so waiting for room
/// in the device's queue is part of it.
///
/// # Errors
/// When the workload fails, asks for what the device does not have, the model is stuck, no time
/// passes in a run that only time would end, or more than 200 years do.
pub fn simulate<D: Device + ?Sized, W: Workload + ?Sized, P: Probe + ?Sized>(
    device: &mut D,
    workload: &mut W,
    start: Nanos,
    stop: Stop,
    probe: &mut P,
) -> Result<Outcome, RunError> {
    let mut run = Run::new(device, start, stop, probe);
    loop {
        let wake = run.issue(workload)?;
        if !run.step(wake, workload) || run.ended && run.in_flight == 0 {
            break;
        }
        if run.now > LONGEST {
            return Err(RunError::TooLong { at: run.now });
        }
    }
    run.outcome.end = (run.outcome.end + run.busy_after).max(run.lasts_until);
    match run.in_flight {
        0 => Ok(run.outcome),
        in_flight => Err(RunError::Stuck { in_flight, at: run.now }),
    }
}

struct Run<'a, D: ?Sized, P: ?Sized> {
    device: &'a mut D,
    probe: &'a mut P,
    limits: crate::device::Limits,
    stop: Stop,
    now: Nanos,
    issued: u64,
    in_flight: u64,
    /// When the pace was looked at last, and the requests that were completed by then.
    paced: (Nanos, u64),
    ended: bool,
    /// How long the workload goes on after its last completion.
    busy_after: Nanos,
    /// When its time was over.
    lasts_until: Nanos,
    /// When the workload wants to be asked again, besides after a completion.
    wake: Option<Nanos>,
    /// Issued requests from the oldest incomplete one on; `None` marks a completed one.
    window: VecDeque<Option<(Request, Nanos)>>,
    window_start: u64,
    /// Issued but not yet taken by the device.
    held: VecDeque<Request>,
    out: Completions,
    outcome: Outcome,
}

impl<'a, D: Device + ?Sized, P: Probe + ?Sized> Run<'a, D, P> {
    fn new(device: &'a mut D, start: Nanos, stop: Stop, probe: &'a mut P) -> Self {
        let out = if probe.wants_spans() { Completions::with_spans() } else { Completions::new() };
        Run {
            limits: device.limits(),
            device,
            probe,
            stop,
            now: start,
            issued: 0,
            in_flight: 0,
            paced: (Nanos::MAX, 0),
            ended: false,
            busy_after: Nanos::ZERO,
            lasts_until: start,
            wake: Some(start),
            window: VecDeque::new(),
            window_start: 0,
            held: VecDeque::new(),
            out,
            outcome: Outcome {
                end: start,
                requests: 0,
                digest: Digest::default(),
                in_flight_ns: 0,
                response_ns: 0,
            },
        }
    }

    /// Issue what the workload wants now; returns when it wants to be asked again.
    #[inline]
    fn issue<W: Workload + ?Sized>(&mut self, workload: &mut W) -> Result<Option<Nanos>, RunError> {
        while !self.ended {
            if self.issued >= self.stop.requests || self.now >= self.stop.at {
                self.ended = true;
                if self.now >= self.stop.at {
                    self.lasts_until = self.stop.at;
                }
                break;
            }
            // Most events lie between two answers of the device: the workload knows nothing new.
            if self.wake.is_none_or(|wake| wake > self.now) {
                return Ok(self.wake);
            }
            match workload.next(self.now).map_err(RunError::Workload)? {
                Demand::Issue(request) => {
                    self.take(request)?;
                    if let Some(lba) = workload.ahead() {
                        self.device.prefetch(&Request::read(lba, 1));
                    }
                }
                Demand::At(time) => {
                    self.wake = Some(time.min(self.stop.at).max(self.now));
                    return Ok(self.wake);
                }
                Demand::Wait => self.wake = None,
                Demand::End => {
                    self.ended = true;
                    self.busy_after = workload.busy_after();
                    self.lasts_until = self.now;
                }
            }
        }
        Ok(None)
    }

    #[inline]
    fn take(&mut self, mut request: Request) -> Result<(), RunError> {
        if let Err(why) = self.limits.check(&request) {
            return Err(RunError::BadRequest { request: self.issued, why });
        }
        request.id = RequestId(self.issued);
        self.issued += 1;
        if self.issued.is_multiple_of(PACED) {
            self.pace()?;
        }
        self.in_flight += 1;
        self.window.push_back(Some((request, self.now)));
        self.probe.on_issue(self.now, &request);
        // Later requests never overtake one that waits for room.
        if !self.held.is_empty() || self.device.submit(self.now, request) == Err(Busy) {
            self.held.push_back(request);
        }
        Ok(())
    }

    /// Whether time has passed since this was asked last, if nothing else ends the run. What waits
    /// for the device has only been issued.
    #[cold]
    fn pace(&mut self) -> Result<(), RunError> {
        let (at, done) = self.paced;
        let at_once = self.outcome.requests - done;
        if at == self.now && at_once > AT_ONCE_MAX && self.stop.requests == u64::MAX {
            let what = self.window.iter().rev().flatten().next().map_or(Op::Read, |last| last.0.op);
            return Err(RunError::NoTime { requests: AT_ONCE_MAX, what, at });
        }
        self.paced = (self.now, self.outcome.requests);
        Ok(())
    }

    /// Go on to the device's next answer, to when the workload wants to be asked, or as far as it
    /// is one way. False when nothing will happen any more.
    #[inline]
    fn step<W: Workload + ?Sized>(&mut self, wake: Option<Nanos>, workload: &mut W) -> bool {
        let next = match self.advance_to_answer(wake.unwrap_or(Nanos::MAX)) {
            Some(last) => last,
            None => {
                let Some(next) = self.device.next_event().into_iter().chain(wake).min() else {
                    return false;
                };
                self.device.advance(next, &mut self.out);
                next
            }
        };
        debug_assert!(next >= self.now, "time goes back from {} to {next}", self.now);
        self.outcome.in_flight_ns +=
            u128::from(next.since(self.now).0) * u128::from(self.in_flight);
        self.now = next;
        if let Some(spans) = &mut self.out.spans {
            spans.drain(..).for_each(|span| self.probe.on_span(&span));
        }
        if self.out.done.is_empty() {
            return true;
        }
        self.wake = Some(next);
        let mut done = std::mem::take(&mut self.out.done);
        for completion in done.drain(..) {
            self.finish(completion, workload);
        }
        self.out.done = done;
        while let Some(&request) = self.held.front() {
            if self.device.submit(self.now, request) == Err(Busy) {
                break;
            }
            self.held.pop_front();
        }
        true
    }

    /// What the device does by itself before it answers, where nobody else has a word: once the
    /// time to issue is over, that is noted at the next moment.
    #[inline]
    fn advance_to_answer(&mut self, wake: Nanos) -> Option<Nanos> {
        if self.in_flight == 0 {
            return None;
        }
        let issuing = Nanos(self.stop.at.0.saturating_sub(1));
        let until = if self.ended { wake } else { wake.min(issuing) };
        self.device.advance_until(until, &mut self.out)
    }

    #[inline]
    fn finish<W: Workload + ?Sized>(
        &mut self,
        completion: crate::device::Completion,
        workload: &mut W,
    ) {
        let index = (completion.id.0 - self.window_start) as usize;
        let (request, issued) =
            self.window[index].take().expect("a device completes each request exactly once");
        while let Some(None) = self.window.front() {
            self.window.pop_front();
            self.window_start += 1;
        }
        self.in_flight -= 1;
        self.outcome.requests += 1;
        self.outcome.end = completion.at;
        self.outcome.digest.add(completion.id.0 ^ completion.at.0.rotate_left(32));
        self.outcome.response_ns += u128::from(completion.at.since(issued).0);
        self.probe.on_complete(&request, issued, completion);
        workload.complete(&request, completion);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::NoProbe;
    use crate::testing::{FixedDelay, Script};
    use crate::units::Lba;

    #[test]
    fn a_run_without_end_is_ended() {
        let mut device = FixedDelay::new(Nanos::from_secs(10 * 365 * 86_400), 1);
        let requests = (0..200).map(|_| (Nanos(0), Request::read(Lba(0), 1)));
        let mut script = Script::new(requests);
        let ended = simulate(&mut device, &mut script, Nanos::ZERO, Stop::default(), &mut NoProbe);
        let error = ended.unwrap_err();
        assert_eq!(error.to_string(), "it is not done after 210 years of its own time");
    }

    fn run(depth: u32, times: &[u64]) -> Outcome {
        let mut device = FixedDelay::new(Nanos(100), depth);
        let requests = times.iter().map(|&t| (Nanos(t), Request::read(Lba(0), 1)));
        let mut script = Script::new(requests);
        simulate(&mut device, &mut script, Nanos::ZERO, Stop::default(), &mut NoProbe).unwrap()
    }

    #[test]
    fn response_includes_the_wait_for_room() {
        let together = run(1, &[0, 0, 0]);
        assert_eq!(together.end, Nanos(300));
        assert_eq!(together.response_ns, 100 + 200 + 300);
        assert_eq!(together.in_flight_ns, together.response_ns);
        assert_eq!(run(8, &[0, 0, 0]).response_ns, 300);
    }

    /// Asks at 0 and goes on, with nothing to ask, until 1000.
    struct Patient(bool);

    impl Workload for Patient {
        fn next(&mut self, now: Nanos) -> Result<Demand, WorkloadError> {
            Ok(match (std::mem::replace(&mut self.0, true), now < Nanos(1000)) {
                (false, _) => Demand::Issue(Request::read(Lba(0), 1)),
                (true, true) => Demand::At(Nanos(1000)),
                (true, false) => Demand::End,
            })
        }

        fn complete(&mut self, _request: &Request, _completion: crate::Completion) {}
    }

    /// Else a job of one request in a second would have a rate of more.
    #[test]
    fn a_run_lasts_until_the_time_of_its_workload_is_over() {
        for (at, end) in [(Nanos::MAX, 1000), (Nanos(700), 700), (Nanos(50), 100)] {
            let mut device = FixedDelay::new(Nanos(100), 1);
            let stop = Stop { at, ..Stop::default() };
            let mut workload = Patient(false);
            let run = simulate(&mut device, &mut workload, Nanos::ZERO, stop, &mut NoProbe);
            assert_eq!(run.unwrap().end, Nanos(end), "until {at}");
        }
    }

    /// A device that changes by itself every 10 ns, besides when a request completes.
    #[derive(Clone)]
    struct Restless {
        device: FixedDelay,
        next: Nanos,
    }

    crate::snapshot_fields!(Restless { device, next });

    impl Device for Restless {
        fn limits(&self) -> crate::Limits {
            self.device.limits()
        }
        fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Busy> {
            self.next = now + Nanos(10);
            self.device.submit(now, request)
        }
        fn next_event(&self) -> Option<Nanos> {
            self.device.next_event().map(|time| time.min(self.next))
        }
        fn advance(&mut self, now: Nanos, out: &mut Completions) {
            self.next = now + Nanos(10);
            self.device.advance(now, out);
        }
        fn power_fail(&mut self, now: Nanos) -> crate::Survivors {
            self.device.power_fail(now)
        }
        fn boxed_clone(&self) -> Box<dyn Device> {
            Box::new(self.clone())
        }
    }

    /// When a workload was asked; it issues a request each 250 ns and waits for the last of three.
    #[derive(Default)]
    struct Asked(Vec<u64>, u64);

    impl Workload for Asked {
        fn next(&mut self, now: Nanos) -> Result<Demand, WorkloadError> {
            self.0.push(now.0);
            Ok(match self.1 {
                3 => Demand::Wait,
                issued if now.0 >= issued * 250 => {
                    self.1 += 1;
                    Demand::Issue(Request::read(Lba(0), 1))
                }
                issued => Demand::At(Nanos(issued * 250)),
            })
        }
    }

    #[test]
    fn a_workload_is_asked_at_its_time_and_after_completions_only() {
        let mut device = Restless { device: FixedDelay::new(Nanos(100), 8), next: Nanos::MAX };
        let mut asked = Asked::default();
        let stop = Stop::default();
        let outcome = simulate(&mut device, &mut asked, Nanos(0), stop, &mut NoProbe).unwrap();
        assert_eq!((outcome.requests, outcome.end), (3, Nanos(600)));
        assert_eq!(asked.0, [0, 0, 100, 250, 250, 350, 500, 500, 600]);
    }

    #[test]
    fn idle_gaps_are_jumped() {
        let outcome = run(1, &[0, 1_000_000]);
        assert_eq!(outcome.end, Nanos(1_000_100));
        assert_eq!(outcome.response_ns, 200);
    }

    #[test]
    fn a_request_beyond_the_end_names_itself() {
        let mut device = FixedDelay::new(Nanos(100), 1);
        let far = Request::read(Lba(u64::MAX / 1024), 8);
        let mut script = Script::new([(Nanos(0), Request::read(Lba(0), 1)), (Nanos(5), far)]);
        let error = simulate(&mut device, &mut script, Nanos(0), Stop::default(), &mut NoProbe)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("request 1: sector "), "{error}");
    }

    #[test]
    fn a_run_without_time_ends() {
        /// So many reads are left, one after the other if so.
        struct Reads(u64, bool);
        impl Workload for Reads {
            fn next(&mut self, _: Nanos) -> Result<Demand, WorkloadError> {
                if self.0 == 0 {
                    return Ok(Demand::End);
                }
                self.0 -= 1;
                let issue = Demand::Issue(Request::read(Lba(0), 1));
                Ok(if self.1 && self.0.is_multiple_of(2) { Demand::Wait } else { issue })
            }
        }
        let run = |delay: u64, reads: Reads, stop: Stop| {
            let mut device = FixedDelay::new(Nanos(delay), 1);
            let mut reads = reads;
            let run = simulate(&mut device, &mut reads, Nanos(0), stop, &mut NoProbe);
            run.map(|run| run.requests)
        };
        let timed = Stop { at: Nanos(1_000_000), ..Stop::default() };
        let endless = || Reads(u64::MAX - 1, true);
        for stop in [timed, Stop::default()] {
            let expected = RunError::NoTime { requests: AT_ONCE_MAX, what: Op::Read, at: Nanos(0) };
            assert_eq!(run(0, endless(), stop), Err(expected));
        }
        // Few, counted, slow ones; and many that only begin at once, as in a trace without times.
        assert_eq!(run(0, Reads(PACED, true), timed), Ok(PACED / 2));
        let counted = Stop { requests: 2 * PACED + 1, ..timed };
        assert_eq!(run(0, endless(), counted), Ok(2 * PACED + 1));
        assert_eq!(run(100, endless(), timed), Ok(10_000));
        assert_eq!(run(1, Reads(2 * PACED + 1, false), Stop::default()), Ok(2 * PACED + 1));
    }

    #[test]
    fn stop_bounds_the_run() {
        let mut device = FixedDelay::new(Nanos(100), 1);
        let mut script = Script::new((0..10).map(|i| (Nanos(i * 10), Request::read(Lba(0), 1))));
        let stop = Stop { requests: 4, ..Stop::default() };
        let outcome = simulate(&mut device, &mut script, Nanos(0), stop, &mut NoProbe).unwrap();
        assert_eq!(outcome.requests, 4);
    }
}
