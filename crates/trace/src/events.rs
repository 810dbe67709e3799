//! Traces of events: an issue makes a request, a later completion tells how long it took.

use std::collections::{BTreeMap, VecDeque};

use sim::{Nanos, Op, Request};

use crate::Record;
use crate::sink::Sink;

/// Requests held back while their completion has not been seen. A completion that never comes
/// delays the others by at most this many requests.
const WINDOW: usize = 1 << 16;
/// Plugs that are closed at a time; bounds memory against a damaged trace.
const PLUGS_MAX: usize = 1 << 12;

/// Pairs issues with completions when responses are wanted; passes issues through otherwise.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    pair: bool,
    /// Requests in issue order; `left` counts sectors not yet completed.
    waiting: VecDeque<Waiting>,
    /// Number of the first waiting request.
    first: u64,
    /// (device, sector, number) of everything in `waiting` with sectors left.
    by_sector: BTreeMap<(u32, u64, u64), ()>,
    flushes: VecDeque<u64>,
    longest: u32,
    /// Processes whose plug is closed, and the number of the first request in it.
    plugs: BTreeMap<u32, u64>,
}

#[derive(Clone, Debug)]
struct Waiting {
    record: Record,
    left: u32,
    done: bool,
}

impl Events {
    pub(crate) fn new(pair: bool) -> Events {
        Events {
            pair,
            waiting: VecDeque::new(),
            first: 0,
            by_sector: BTreeMap::new(),
            flushes: VecDeque::new(),
            longest: 0,
            plugs: BTreeMap::new(),
        }
    }

    /// True when completions are wanted.
    pub(crate) fn pairs(&self) -> bool {
        self.pair
    }

    /// A request was issued at `time`.
    #[inline]
    pub(crate) fn issue(&mut self, sink: &mut Sink<'_>, time: u64, device: u32, request: Request) {
        if !self.pair || (request.sectors == 0 && request.op != Op::Flush) {
            return sink.push(Some(time), device, request);
        }
        self.hold(sink.record(Some(time), device, request));
        if self.waiting.len() > WINDOW {
            self.drop_oldest(sink);
        }
    }

    fn hold(&mut self, record: Record) {
        let number = self.first + self.waiting.len() as u64;
        match record.request.op {
            Op::Flush => self.flushes.push_back(number),
            _ => {
                self.by_sector.insert((record.device, record.request.lba.0, number), ());
                self.longest = self.longest.max(record.request.sectors);
            }
        }
        self.waiting.push_back(Waiting { record, left: record.request.sectors, done: false });
    }

    /// Sectors were completed at `time`: every waiting request of that kind they cover advances.
    pub(crate) fn complete(&mut self, sink: &mut Sink<'_>, time: u64, device: u32, done: Request) {
        if !self.pair {
            return;
        }
        if done.op == Op::Flush {
            if let Some(number) = self.flushes.pop_front() {
                self.finish_one(number, time);
            }
            return self.release(sink);
        }
        let (start, end) = (done.lba.0, done.end().0);
        let from = (device, start.saturating_sub(u64::from(self.longest)), 0);
        let keys: Vec<_> = self.by_sector.range(from..(device, end, 0)).map(|e| *e.0).collect();
        for key in keys {
            let waiting = &mut self.waiting[(key.2 - self.first) as usize];
            let request = waiting.record.request;
            let covered = end.min(request.end().0).saturating_sub(start.max(request.lba.0));
            if request.op != done.op || covered == 0 {
                continue;
            }
            waiting.left = waiting.left.saturating_sub(covered as u32);
            if waiting.left == 0 {
                self.by_sector.remove(&key);
                self.finish_one(key.2, time);
            }
        }
        self.release(sink);
    }

    /// The plug of a process took its first request, the one that it issued last.
    pub(crate) fn plug(&mut self, process: u32) {
        let of_process = |waiting: &Waiting| waiting.record.request.process == process;
        let last = self.waiting.iter().rposition(of_process);
        if let Some(last) = last.filter(|_| self.plugs.len() < PLUGS_MAX) {
            self.plugs.insert(process, self.first + last as u64);
        }
    }

    /// A plug was handed over: what its process issued since is in it, merged or not.
    pub(crate) fn unplug(&mut self, process: u32, time: u64) {
        let Some(first) = self.plugs.remove(&process) else { return };
        let from = first.saturating_sub(self.first) as usize;
        for waiting in self.waiting.iter_mut().skip(from) {
            let record = &mut waiting.record;
            if let Some(issued) = record.time.filter(|_| record.request.process == process) {
                record.plugged = Nanos(time.saturating_sub(issued.0));
            }
        }
    }

    fn finish_one(&mut self, number: u64, time: u64) {
        let waiting = &mut self.waiting[(number - self.first) as usize];
        waiting.record.response = waiting.record.time.map(|issued| Nanos(time).since(issued));
        waiting.done = true;
    }

    /// Hand out what is complete, in issue order.
    fn release(&mut self, sink: &mut Sink<'_>) {
        while self.waiting.front().is_some_and(|w| w.done) {
            self.pop(sink);
        }
    }

    fn drop_oldest(&mut self, sink: &mut Sink<'_>) {
        let oldest = &self.waiting[0].record;
        self.by_sector.remove(&(oldest.device, oldest.request.lba.0, self.first));
        if self.flushes.front() == Some(&self.first) {
            self.flushes.pop_front();
        }
        self.pop(sink);
        self.release(sink);
    }

    fn pop(&mut self, sink: &mut Sink<'_>) {
        if let Some(waiting) = self.waiting.pop_front() {
            self.first += 1;
            if waiting.record.response.is_none() {
                sink.remarks.count("requests without a completion");
            }
            sink.out.push(waiting.record);
        }
    }

    /// The trace is over.
    pub(crate) fn finish(&mut self, sink: &mut Sink<'_>) {
        while !self.waiting.is_empty() {
            self.pop(sink);
        }
    }
}
