//! Replay in which a request follows what it followed when it was recorded; see
//! [`crate::replay::Replay::Dependencies`].

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use sim::{Completion, Demand, Nanos, Request, Workload, WorkloadError};

use super::computing::Computing;
use super::source::Source;
use super::watched::Watched;

/// No request: the end of a list.
const NONE: u32 = u32::MAX;

/// What a request may follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    Issue(u32),
    Completion(u32),
}

/// A request and what follows it.
struct Node {
    request: Request,
    /// Between what it follows and its own issue.
    gap: Nanos,
    /// The first that follows its issue, and the first that follows its completion.
    after_issue: u32,
    after_completion: u32,
    /// The next that follows the same.
    sibling: u32,
}

/// A recorded closed loop.
pub(super) struct Dependent {
    source: Source,
    nodes: Vec<Node>,
    /// When what may be issued is due; without the start of the replay for those that follow
    /// nothing.
    due: BinaryHeap<Reverse<(Nanos, u32)>>,
    /// What is due after computing, where cores are shared; and the longest that counts as such.
    computing: Option<(Computing, Nanos)>,
    started: bool,
    /// What was issued, by its id.
    issued: Vec<u32>,
    in_flight: u64,
    /// Requests that follow a completion.
    following: u64,
    watched: Option<Watched>,
}

impl Dependent {
    /// Read the whole trace.
    pub(super) fn new(
        mut source: Source,
        (burst, handover): (Nanos, Nanos),
        cores: Option<u32>,
    ) -> Result<Dependent, WorkloadError> {
        let (mut nodes, mut due) = (Vec::<Node>::new(), BinaryHeap::new());
        let mut past = Past { burst, handover, ..Past::default() };
        let (mut first, mut following) = (None, 0);
        for Asked { time, request, response } in asked(&mut source)? {
            let index = u32::try_from(nodes.len()).ok().filter(|&index| index < NONE);
            let index = index.ok_or_else(|| {
                WorkloadError("a replay by dependencies takes at most 2^32 - 2 requests".into())
            })?;
            let origin = *first.get_or_insert(time);
            let (event, gap) = match past.followed(time, request.process) {
                Some((event, at)) => (Some(event), time.since(at)),
                None => (None, time.since(origin)),
            };
            let sibling = match event {
                None => {
                    due.push(Reverse((gap, index)));
                    NONE
                }
                Some(Event::Issue(other)) => {
                    std::mem::replace(&mut nodes[other as usize].after_issue, index)
                }
                Some(Event::Completion(other)) => {
                    following += 1;
                    std::mem::replace(&mut nodes[other as usize].after_completion, index)
                }
            };
            past.add(index, time, &request, response);
            let (after_issue, after_completion) = (NONE, NONE);
            nodes.push(Node { request, gap, after_issue, after_completion, sibling });
        }
        if !past.answered {
            let file = source.file();
            return Err(WorkloadError(format!(
                "{file}: the trace does not say when requests completed, so nothing can follow \
                 them; choose \"timestamps\" or \"closed-loop\""
            )));
        }
        let (issued, in_flight, started) = (Vec::new(), 0, false);
        let watched = None;
        let computing = cores.map(|cores| (Computing::on(cores), handover));
        Ok(Dependent {
            source,
            nodes,
            due,
            computing,
            started,
            issued,
            in_flight,
            following,
            watched,
        })
    }

    /// Watch the processes of this name.
    pub(super) fn watch(&mut self, name: &str) -> Result<(), String> {
        let processes = self.nodes.iter().map(|node| node.request.process);
        let watched = Watched::find(name, processes, |process| self.source.process_name(process));
        self.watched = Some(watched.map_err(|why| format!("{}: {why}", self.source.file()))?);
        Ok(())
    }

    /// What follows an event is due some time after it.
    fn release(&mut self, mut next: u32, at: Nanos) {
        while next != NONE {
            let node = &self.nodes[next as usize];
            match &mut self.computing {
                Some((computing, longest)) if node.gap <= *longest => {
                    computing.start(at, node.gap, next);
                }
                _ => self.due.push(Reverse((at.saturating_add(node.gap), next))),
            }
            next = node.sibling;
        }
    }

    /// When something is due.
    fn next_due(&self) -> Option<Nanos> {
        let waited = self.due.peek().map(|&Reverse((at, _))| at);
        let computed = self.computing.as_ref().and_then(|(computing, _)| computing.next());
        waited.into_iter().chain(computed).min()
    }

    /// What is due at `now`.
    fn take_due(&mut self, now: Nanos) -> Option<u32> {
        match self.due.peek() {
            Some(&Reverse((at, index))) if at <= now => {
                self.due.pop();
                Some(index)
            }
            _ => self.computing.as_mut()?.0.take(now),
        }
    }
}

impl Workload for Dependent {
    fn next(&mut self, now: Nanos) -> Result<Demand, WorkloadError> {
        if !std::mem::replace(&mut self.started, true) {
            let from_here = |Reverse((at, index))| Reverse((now.saturating_add(at), index));
            self.due = self.due.drain().map(from_here).collect();
        }
        let Some(at) = self.next_due() else {
            return Ok(if self.in_flight > 0 { Demand::Wait } else { Demand::End });
        };
        let Some(index) = self.take_due(now) else { return Ok(Demand::At(at)) };
        self.in_flight += 1;
        self.issued.push(index);
        self.release(self.nodes[index as usize].after_issue, now);
        let request = self.nodes[index as usize].request;
        if let Some(watched) = &mut self.watched {
            watched.issue(&request, now);
        }
        Ok(Demand::Issue(request))
    }

    fn complete(&mut self, request: &Request, completion: Completion) {
        self.in_flight -= 1;
        if let Some(watched) = &mut self.watched {
            watched.complete(request, completion.at);
        }
        let index = self.issued[request.id.0 as usize];
        self.release(self.nodes[index as usize].after_completion, completion.at);
    }

    fn waited(&self) -> Option<Nanos> {
        self.watched.as_ref().map(|watched| watched.total)
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = self.source.notes();
        let (file, following, all) = (self.source.file(), self.following, self.nodes.len());
        notes.push(format!(
            "{file}: {following} of {all} requests follow a completion, the rest another request \
             of their process"
        ));
        notes
    }
}

/// A request of the recording, when its task let go of it.
struct Asked {
    time: Nanos,
    request: Request,
    response: Option<Nanos>,
}

/// The whole trace. What a task kept back in its plug was asked for at once, when it was handed
/// over: issued one by one, as it was queued, a replay's elevator would not find it together.
fn asked(source: &mut Source) -> Result<Vec<Asked>, WorkloadError> {
    let (mut all, mut now) = (Vec::new(), Nanos::ZERO);
    while let Some(record) = source.peek()? {
        now = record.time.unwrap_or(now).max(now);
        let time = now.saturating_add(record.plugged);
        let after = |response: Nanos| Nanos(response.0.saturating_sub(record.plugged.0));
        let response = record.response.map(after);
        let request = source.place(&record)?;
        source.advance();
        all.push(Asked { time, request, response });
    }
    // Plugs of several tasks overlap.
    all.sort_by_key(|asked| asked.time);
    Ok(all)
}

/// What happened up to a moment of the recording.
#[derive(Default)]
struct Past {
    burst: Nanos,
    handover: Nanos,
    now: Nanos,
    /// What will complete, by time; and whether its process waits for it.
    pending: BinaryHeap<Reverse<(Nanos, u32, u32, bool)>>,
    /// The latest thing that each process did or waited for, and when.
    own: BTreeMap<u32, (Nanos, Event)>,
    /// The latest completion of all.
    latest: Option<(Nanos, Event)>,
    /// Some completion is known.
    answered: bool,
}

impl Past {
    /// What a request of `process` at `time` follows, and when that was.
    fn followed(&mut self, time: Nanos, process: u32) -> Option<(Event, Nanos)> {
        self.now = time;
        while let Some(&Reverse((at, index, of, waited_for))) = self.pending.peek()
            && at <= time
        {
            self.pending.pop();
            let event = (at, Event::Completion(index));
            self.latest = Some(event);
            if waited_for {
                self.own.insert(of, event);
            }
        }
        let own = self.own.get(&process).copied();
        let burst = own.filter(|&(at, _)| time.since(at) <= self.burst);
        let other = self.latest.filter(|&(at, _)| time.since(at) <= self.handover);
        let found = burst.or(other).or(own);
        found.map(|(at, event)| (event, at))
    }

    fn add(&mut self, index: u32, time: Nanos, request: &Request, response: Option<Nanos>) {
        let process = request.process;
        self.own.insert(process, (time, Event::Issue(index)));
        if let Some(response) = response {
            self.answered = true;
            let done = time.saturating_add(response);
            self.pending.push(Reverse((done, index, process, request.is_sync())));
        }
    }
}
