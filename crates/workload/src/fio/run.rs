//! All jobs together: who goes next.

use std::collections::{BTreeMap, VecDeque};

use sim::{Completion, Demand, EventHeap, Lba, Nanos, Request, Workload, WorkloadError};

use super::job::{Job, Poll};
use super::plan::JobPlan;

/// What a job waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// Its group.
    Waiting,
    /// Its turn.
    Ready,
    /// A moment.
    Asleep,
    /// A completion.
    Blocked,
    Finished,
}

/// The jobs of one plan. Ready jobs take turns; a group starts when the one before is complete.
#[derive(Clone, Debug)]
pub struct Fio {
    jobs: Vec<Job>,
    states: Vec<State>,
    /// When each job was finished.
    finished: Vec<Nanos>,
    ready: VecDeque<u32>,
    timers: EventHeap,
    /// When the first group started.
    began: Nanos,
    /// The group that starts next, and how many jobs of the running one are not finished.
    next_group: u32,
    running: usize,
    /// The job whose request was the latest.
    latest: u32,
    measure_from: Nanos,
    notes: Vec<String>,
}

impl JobPlan {
    /// The workload.
    pub fn start(&self) -> Fio {
        Fio::new(self)
    }
}

impl Fio {
    fn new(plan: &JobPlan) -> Fio {
        let first = plan.resolved.iter().filter(|job| job.group == 0);
        let ramps = first.map(|job| &job.options).filter(|o| o.ramp_time > Nanos::ZERO);
        Fio {
            jobs: plan.resolved.iter().map(Job::new).collect(),
            states: vec![State::Waiting; plan.resolved.len()],
            finished: vec![Nanos::MAX; plan.resolved.len()],
            ready: VecDeque::with_capacity(plan.resolved.len()),
            timers: EventHeap::new(),
            began: Nanos::ZERO,
            next_group: 0,
            running: 0,
            latest: 0,
            measure_from: ramps
                .map(|o| o.startdelay.saturating_add(o.ramp_time))
                .max()
                .unwrap_or(Nanos::ZERO),
            notes: plan.notes.clone(),
        }
    }

    fn start_group(&mut self, now: Nanos) {
        if self.next_group == 0 {
            self.began = now;
        }
        for (index, job) in self.jobs.iter_mut().enumerate() {
            if job.group() != self.next_group {
                continue;
            }
            self.running += 1;
            let first = job.begin(now, self.began);
            if first > now {
                self.states[index] = State::Asleep;
                self.timers.push(first, index as u32);
            } else {
                self.states[index] = State::Ready;
                self.ready.push_back(index as u32);
            }
        }
        self.next_group += 1;
    }

    #[inline]
    fn wake(&mut self, index: u32) {
        self.states[index as usize] = State::Ready;
        self.ready.push_back(index);
    }
}

impl Workload for Fio {
    #[inline]
    fn next(&mut self, now: Nanos) -> Result<Demand, WorkloadError> {
        while let Some((_, index)) = self.timers.pop_due(now) {
            self.wake(index);
        }
        loop {
            if self.running == 0 {
                if self.states.iter().all(|&state| state == State::Finished) {
                    return Ok(Demand::End);
                }
                self.start_group(now);
            }
            let Some(&index) = self.ready.front() else {
                return Ok(self.timers.next_time().map_or(Demand::Wait, Demand::At));
            };
            let answer = self.jobs[index as usize].poll(now);
            if let Poll::Issue(request) = answer {
                if self.ready.len() > 1 {
                    self.ready.rotate_left(1);
                }
                self.latest = index;
                return Ok(Demand::Issue(request));
            }
            self.ready.pop_front();
            self.states[index as usize] = match answer {
                Poll::At(time) => {
                    self.timers.push(time, index);
                    State::Asleep
                }
                Poll::Finished => {
                    self.running -= 1;
                    self.finished[index as usize] = now;
                    State::Finished
                }
                Poll::Issue(_) | Poll::Blocked => State::Blocked,
            };
        }
    }

    #[inline]
    fn complete(&mut self, request: &Request, _completion: Completion) {
        let index = request.process - 1;
        self.jobs[index as usize].complete(request.op);
        if self.states[index as usize] == State::Blocked {
            self.wake(index);
        }
    }

    #[inline]
    fn ahead(&self) -> Option<Lba> {
        self.jobs[self.latest as usize].ahead()
    }

    fn measure_from(&self) -> Nanos {
        self.measure_from
    }

    fn at_work(&self) -> Vec<(Nanos, Nanos)> {
        let began = self.jobs.iter().zip(&self.states).map(|(job, state)| match state {
            State::Waiting => Nanos::MAX,
            _ => job.start(),
        });
        began.zip(self.finished.iter().copied()).collect()
    }

    fn notes(&self) -> Vec<String> {
        let mut longest = BTreeMap::new();
        for job in &self.jobs {
            if let Some(behind) = job.behind() {
                let of_clones = longest.entry(job.name()).or_insert(behind);
                *of_clones = behind.max(*of_clones);
            }
        }
        let behind = longest.iter().map(|(name, behind)| {
            format!(
                "job \"{name}\" was up to {behind} behind its rate, which its response times leave \
                 out: raise iodepth, or lower the rate"
            )
        });
        self.notes.iter().cloned().chain(behind).collect()
    }
}
