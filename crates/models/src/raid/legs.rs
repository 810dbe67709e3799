//! The devices below a composite one: queues before them, their events, counters and spans.

use std::collections::VecDeque;

use sim::{
    Completions, Counters, Device, Limits, Nanos, Request, RequestId, Survivors, Wear,
    snapshot_fields,
};

/// One device and what it has no room for yet.
#[derive(Clone)]
struct Leg {
    name: &'static str,
    device: Box<dyn Device>,
    held: VecDeque<Request>,
    /// Units of the legs before it.
    units: u32,
}

snapshot_fields!(Leg { device, held });

/// One to three devices in a fixed order.
#[derive(Clone)]
pub(crate) struct Legs {
    legs: Vec<Leg>,
    out: Completions,
}

impl sim::Snapshot for Legs {
    fn save(&self, to: &mut sim::Saver) {
        self.legs.iter().for_each(|leg| leg.save(to));
    }
    fn restore(&mut self, from: &mut sim::Loader) -> Result<(), sim::SnapshotError> {
        self.legs.iter_mut().try_for_each(|leg| leg.restore(from))
    }
}

impl Legs {
    /// These devices under these names.
    pub(crate) fn new(devices: Vec<(&'static str, Box<dyn Device>)>) -> Legs {
        let mut units = 0;
        let legs = devices.into_iter().map(|(name, device)| {
            let mut counters = Counters::default();
            device.counters(&mut counters);
            let leg = Leg { name, device, held: VecDeque::new(), units };
            units += counters.units.len() as u32;
            leg
        });
        Legs { legs: legs.collect(), out: Completions::new() }
    }

    pub(crate) fn count(&self) -> usize {
        self.legs.len()
    }

    pub(crate) fn limits(&self, leg: usize) -> Limits {
        self.legs[leg].device.limits()
    }

    /// What all of them can take together: the smallest capacity, the coarsest blocks.
    pub(crate) fn common(&self) -> Limits {
        let all = || self.legs.iter().map(|leg| leg.device.limits());
        Limits {
            capacity: all().map(|limits| limits.capacity).min().unwrap_or_default(),
            block_bytes: all().map(|limits| limits.block_bytes).max().unwrap_or(512),
            queue_depth_max: all().map(|limits| limits.queue_depth_max).min().unwrap_or(1),
            rotational: all().any(|limits| limits.rotational),
            write_cache: all().any(|limits| limits.write_cache),
            discard: all().any(|limits| limits.discard),
        }
    }

    /// Give a leg a request; it waits here while the leg is busy.
    pub(crate) fn submit(&mut self, now: Nanos, leg: usize, request: Request) {
        let leg = &mut self.legs[leg];
        if !leg.held.is_empty() || leg.device.submit(now, request).is_err() {
            leg.held.push_back(request);
        }
    }

    pub(crate) fn next_event(&self) -> Option<Nanos> {
        self.legs.iter().filter_map(|leg| leg.device.next_event()).min()
    }

    /// Let every leg do what is due at `now`, in their order; what completed goes to `done` with
    /// the leg's number.
    pub(crate) fn advance(
        &mut self,
        now: Nanos,
        out: &mut Completions,
        done: &mut Vec<(usize, RequestId)>,
    ) {
        for (index, leg) in self.legs.iter_mut().enumerate() {
            while leg.device.next_event().is_some_and(|at| at <= now) {
                self.out.spans = out.spans.is_some().then(Vec::new);
                leg.device.advance(now, &mut self.out);
                done.extend(self.out.done.drain(..).map(|completion| (index, completion.id)));
                if let (Some(all), Some(own)) = (&mut out.spans, &mut self.out.spans) {
                    all.extend(own.drain(..).map(|mut span| {
                        span.unit += leg.units;
                        span
                    }));
                }
                while let Some(&request) = leg.held.front()
                    && leg.device.submit(now, request).is_ok()
                {
                    leg.held.pop_front();
                }
            }
        }
    }

    /// Every leg loses power.
    pub(crate) fn power_fail(&mut self, now: Nanos) -> Vec<Survivors> {
        let cut = |leg: &mut Leg| {
            leg.held.clear();
            leg.device.power_fail(now)
        };
        self.legs.iter_mut().map(cut).collect()
    }

    pub(crate) fn apply(&mut self, leg: usize, request: &Request) {
        self.legs[leg].device.apply(request);
    }

    pub(crate) fn prefetch(&mut self, leg: usize, request: &Request) {
        self.legs[leg].device.prefetch(request);
    }

    /// Counts, levels and units of the legs, each name after that of its leg.
    pub(crate) fn counters(&self, out: &mut Counters) {
        for leg in &self.legs {
            let mut own = Counters::default();
            leg.device.counters(&mut own);
            out.nest(leg.name, own);
        }
    }

    pub(crate) fn wear(&self) -> Vec<Wear> {
        let named = |leg: &Leg| {
            let name = leg.name;
            let wear = leg.device.wear().into_iter();
            wear.map(move |wear| Wear { unit: format!("{name}.{}", wear.unit), ..wear })
        };
        self.legs.iter().flat_map(named).collect()
    }

    pub(crate) fn freeze(&mut self) {
        self.legs.iter_mut().for_each(|leg| leg.device.freeze());
    }
}
