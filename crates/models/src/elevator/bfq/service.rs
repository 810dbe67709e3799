//! Who is served next: B-WF2Q+ over the queues of one class of priority.
//!
//! A tree here is what the algorithm calls one: a virtual time, the queues that ask, and those that
//! left ahead of their share, which are not forgotten before virtual time has caught up.

use sim::snapshot_fields;

use super::entity::{Entity, Place, span};
use super::queue::Queue;
use crate::elevator::linux::pool::NONE;

/// Classes of priority: real time, best effort, idle.
pub(super) const CLASSES: usize = 3;
const IDLE_CLASS: usize = CLASSES - 1;

/// How many queues have which weight, of those that ask or are still being served by the device
/// and whose weight is not raised.
#[derive(Clone, Default, Debug)]
pub(super) struct Weights {
    by_weight: Vec<(u64, u32)>,
}

snapshot_fields!(Weights { by_weight });

impl Weights {
    pub(super) fn add(&mut self, entity: &mut Entity) {
        if entity.counted != 0 {
            return;
        }
        entity.counted = entity.weight;
        match self.by_weight.binary_search_by_key(&entity.weight, |&(weight, _)| weight) {
            Ok(at) => self.by_weight[at].1 += 1,
            Err(at) => self.by_weight.insert(at, (entity.weight, 1)),
        }
    }

    pub(super) fn remove(&mut self, entity: &mut Entity) {
        let weight = std::mem::take(&mut entity.counted);
        if weight == 0 {
            return;
        }
        if let Ok(at) = self.by_weight.binary_search_by_key(&weight, |&(weight, _)| weight) {
            self.by_weight[at].1 -= 1;
            if self.by_weight[at].1 == 0 {
                self.by_weight.remove(at);
            }
        }
    }

    /// Is some queue to get less than this one?
    pub(super) fn vary_for(&self, entity: &Entity) -> bool {
        let is_smallest = entity.counted != 0 && self.by_weight[0].0 == entity.counted;
        self.by_weight.len() > 1 && !is_smallest
    }
}

/// The queues of one class.
#[derive(Clone, Default, Debug)]
struct Tree {
    now: u64,
    /// The sum of the weights of all that are not [`Place::Out`].
    weights: u64,
    /// Those that ask, by finish; of equals the one that came first.
    waiting: Vec<(u64, u32)>,
    /// The same of those that left.
    left: Vec<(u64, u32)>,
}

snapshot_fields!(Tree { now, weights, waiting, left });

fn put(list: &mut Vec<(u64, u32)>, finish: u64, queue: u32) {
    let at = list.partition_point(|&(other, _)| other <= finish);
    list.insert(at, (finish, queue));
}

fn take(list: &mut Vec<(u64, u32)>, queue: u32) {
    if let Some(at) = list.iter().position(|&(_, other)| other == queue) {
        list.remove(at);
    }
}

/// All classes, and who is to be served next.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    trees: [Tree; CLASSES],
    pub(super) weights: Weights,
    /// Those that ask, the last one that came at the end.
    by_age: Vec<u32>,
    /// Who will be next as things are, and who has its turn.
    next: u32,
    in_service: u32,
    /// The tick now, and that in which the idle class last had its turn.
    pub(super) tick: u64,
    idle_class_served: u64,
    /// After so many ticks it has one, whoever asks.
    idle_class_ticks: u64,
}

snapshot_fields!(Schedule { trees, weights, by_age, next, in_service, tick, idle_class_served });

impl Schedule {
    pub(super) fn new(tick: u64, idle_class_ticks: u64) -> Schedule {
        Schedule {
            trees: Default::default(),
            weights: Weights::default(),
            by_age: Vec::new(),
            next: NONE,
            in_service: NONE,
            tick,
            idle_class_served: tick,
            idle_class_ticks,
        }
    }

    /// Could another queue have the turn?
    pub(super) fn may_preempt(&self) -> bool {
        self.next != self.in_service
    }

    /// The sum of the weights in this class, and in those before it.
    pub(super) fn weights_up_to(&self, class: usize) -> impl Iterator<Item = u64> + '_ {
        self.trees[..=class].iter().map(|tree| tree.weights)
    }

    /// Those that ask, the last one that came first.
    pub(super) fn newest_first(&self) -> impl Iterator<Item = u32> + '_ {
        self.by_age.iter().rev().copied()
    }

    /// A queue asks: `goes_on` when it does so soon after it was left with nothing to do, so that
    /// it keeps its place.
    pub(super) fn activate(&mut self, queues: &mut [Queue], queue: u32, goes_on: bool) {
        let (class, entity) = queues[queue as usize].entity_mut();
        let tree = &mut self.trees[class];
        let back = goes_on && tree.now > entity.finish;
        let first = if back { entity.finish } else { tree.now };
        if entity.place == Place::Left {
            take(&mut tree.left, queue);
            entity.start = first.max(entity.finish);
        } else {
            entity.start = first;
            tree.weights += entity.weight;
        }
        self.enqueue(queues, queue, back);
        self.update_next(queues, queue, false);
    }

    /// Its turn is over and it asks for more, or its budget is another.
    pub(super) fn requeue(&mut self, queues: &mut [Queue], queue: u32, turn_over: bool) {
        let (class, entity) = queues[queue as usize].entity_mut();
        if queue == self.in_service {
            entity.start += span(entity.service, entity.weight);
        } else {
            take(&mut self.trees[class].waiting, queue);
            self.by_age.retain(|&other| other != queue);
        }
        self.enqueue(queues, queue, false);
        self.update_next(queues, queue, turn_over);
    }

    fn enqueue(&mut self, queues: &mut [Queue], queue: u32, back: bool) {
        self.update_weight(&mut queues[queue as usize], true);
        let raised = queues[queue as usize].raise.factor;
        let (class, entity) = queues[queue as usize].entity_mut();
        entity.finish = entity.start + span(entity.budget, entity.weight);
        let tree = &mut self.trees[class];
        if back && tree.now > entity.finish {
            // Not further back than virtual time is, or it would be served for long.
            let ahead = (tree.now - entity.finish) / raised;
            entity.start += ahead;
            entity.finish += ahead;
        }
        entity.place = Place::Waiting;
        put(&mut tree.waiting, entity.finish, queue);
        self.by_age.push(queue);
    }

    /// It has nothing to ask for.
    pub(super) fn deactivate(&mut self, queues: &mut [Queue], queue: u32, turn_over: bool) {
        let (class, entity) = queues[queue as usize].entity_mut();
        let tree = &mut self.trees[class];
        match entity.place {
            Place::Out => return,
            Place::Waiting => {
                take(&mut tree.waiting, queue);
                self.by_age.retain(|&other| other != queue);
            }
            Place::Left => take(&mut tree.left, queue),
            Place::InService => {}
        }
        entity.finish = entity.start + span(entity.service, entity.weight);
        if queue == self.in_service {
            self.in_service = NONE;
        } else {
            entity.service = 0;
        }
        if entity.finish > tree.now {
            entity.place = Place::Left;
            put(&mut tree.left, entity.finish, queue);
        } else {
            entity.place = Place::Out;
            tree.weights -= entity.weight;
        }
        if self.next == queue {
            self.next = self.look_up(queues, turn_over);
        }
    }

    /// Whose turn it is from now on.
    pub(super) fn begin(&mut self, queues: &mut [Queue]) -> u32 {
        let queue = self.next;
        self.in_service = queue;
        let (class, entity) = queues[queue as usize].entity_mut();
        entity.place = Place::InService;
        take(&mut self.trees[class].waiting, queue);
        self.by_age.retain(|&other| other != queue);
        self.next = self.look_up(queues, false);
        queue
    }

    /// Nobody has the turn.
    pub(super) fn end(&mut self) {
        self.in_service = NONE;
    }

    /// Virtual time goes on by what a queue got.
    pub(super) fn served(&mut self, queues: &mut [Queue], queue: u32, sectors: u64) {
        let (class, entity) = queues[queue as usize].entity_mut();
        entity.service += sectors;
        let tree = &mut self.trees[class];
        tree.now += span(sectors, tree.weights);
        self.forget(queues, class);
    }

    /// Whoever left and is no longer ahead of its share starts anew when it comes back.
    fn forget(&mut self, queues: &mut [Queue], class: usize) {
        let tree = &mut self.trees[class];
        let Some(&(last, _)) = tree.left.last() else { return };
        if tree.waiting.is_empty() && last <= tree.now {
            tree.now = last;
        }
        let (first, queue) = tree.left[0];
        if first <= tree.now {
            tree.left.remove(0);
            let entity = &mut queues[queue as usize].entity;
            entity.place = Place::Out;
            tree.weights -= entity.weight;
        }
    }

    /// A change of priority, or of how far its weight is raised, counts from now on.
    pub(super) fn update_weight(&mut self, queue: &mut Queue, class_too: bool) {
        if !queue.entity.changed {
            return;
        }
        let old = queue.class;
        if class_too {
            queue.class = queue.next_class;
        }
        let entity = &mut queue.entity;
        entity.plain = entity.next_plain;
        entity.changed = queue.class != queue.next_class;
        self.trees[old].weights -= entity.weight;
        let weight = entity.plain * queue.raise.factor;
        if weight != entity.weight {
            self.weights.remove(entity);
            entity.weight = weight;
            if queue.raise.factor == 1 {
                self.weights.add(entity);
            }
        }
        self.trees[queue.class].weights += weight;
        if queue.class != old {
            entity.start = self.trees[queue.class].now;
        }
    }

    /// A queue was put into its tree: mostly a look at it alone tells who is next.
    fn update_next(&mut self, queues: &mut [Queue], queue: u32, turn_over: bool) {
        if queue != self.next {
            let new = &queues[queue as usize];
            let before = self.next == NONE || {
                let old = &queues[self.next as usize];
                new.class == old.class
                    && new.entity.start <= self.trees[new.class].now
                    && new.entity.finish < old.entity.finish
            };
            if before {
                self.next = queue;
                return;
            }
        }
        self.next = self.look_up(queues, turn_over);
    }

    fn look_up(&mut self, queues: &mut [Queue], turn_over: bool) -> u32 {
        let mut first = 0;
        if self.idle_class_served + self.idle_class_ticks < self.tick {
            if !self.trees[IDLE_CLASS].waiting.is_empty() {
                first = IDLE_CLASS;
            }
            self.idle_class_served = self.tick;
        }
        let nobody_has_it = self.in_service == NONE || turn_over;
        let next = (first..CLASSES).find_map(|class| self.look_up_in(queues, class, nobody_has_it));
        next.unwrap_or(NONE)
    }

    /// Of those that are not ahead of their share, the one that would finish first. When all are
    /// ahead, virtual time jumps to the first one's start.
    fn look_up_in(&mut self, queues: &mut [Queue], class: usize, jump: bool) -> Option<u32> {
        let tree = &mut self.trees[class];
        let start = |queue: u32| queues[queue as usize].entity.start;
        let first = tree.waiting.iter().map(|&(_, queue)| start(queue)).min()?;
        let now = tree.now.max(first);
        let next = tree.waiting.iter().find(|&&(_, queue)| start(queue) <= now)?.1;
        if jump && now > tree.now {
            tree.now = now;
            self.forget(queues, class);
        }
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elevator::bfq::epoch::FIRST_TICK;
    use sim::{Nanos, Priority, PriorityClass};

    /// Queues of these levels, each with a budget of 100 sectors.
    fn queues(levels: &[u8]) -> Vec<Queue> {
        let queue = |&level: &u8| {
            let priority = Priority::new(PriorityClass::BestEffort, level);
            let mut queue = Queue::new(Nanos::ZERO, FIRST_TICK, true, priority, 100);
            queue.entity.budget = 100;
            queue
        };
        levels.iter().map(queue).collect()
    }

    fn schedule() -> Schedule {
        Schedule::new(FIRST_TICK, 50)
    }

    /// A whole turn; whose it was.
    fn turn(schedule: &mut Schedule, queues: &mut [Queue]) -> u32 {
        let queue = schedule.begin(queues);
        schedule.served(queues, queue, 100);
        schedule.requeue(queues, queue, true);
        queues[queue as usize].entity.service = 0;
        schedule.end();
        queue
    }

    /// Weights 80, 40 and 10.
    #[test]
    fn turns_follow_the_weights() {
        let (mut schedule, mut queues) = (schedule(), queues(&[0, 4, 7]));
        (0..3).for_each(|queue| schedule.activate(&mut queues, queue, false));
        let mut turns = [0u64; 3];
        for _ in 0..1300 {
            turns[turn(&mut schedule, &mut queues) as usize] += 1;
        }
        assert!(turns[0].abs_diff(800) <= 2 && turns[2].abs_diff(100) <= 2, "{turns:?}");
    }

    #[test]
    fn who_was_away_has_not_saved_up() {
        let (mut schedule, mut queues) = (schedule(), queues(&[4, 4]));
        schedule.activate(&mut queues, 0, false);
        (0..50).for_each(|_| assert_eq!(turn(&mut schedule, &mut queues), 0));
        schedule.activate(&mut queues, 1, false);
        let turns = [(); 6].map(|()| turn(&mut schedule, &mut queues));
        assert_eq!(turns.iter().filter(|&&queue| queue == 1).count(), 3, "{turns:?}");
    }

    /// Whoever comes back at once has the place that it left; a budget of 40 of 100 was used.
    #[test]
    fn a_queue_that_goes_on_keeps_its_place() {
        let starts = [true, false].map(|goes_on| {
            let (mut schedule, mut queues) = (schedule(), queues(&[4, 4]));
            schedule.activate(&mut queues, 0, false);
            schedule.begin(&mut queues);
            schedule.served(&mut queues, 0, 40);
            schedule.deactivate(&mut queues, 0, true);
            schedule.end();
            schedule.activate(&mut queues, 1, false);
            (0..3).for_each(|_| assert_eq!(turn(&mut schedule, &mut queues), 1));
            queues[0].entity.service = 0;
            schedule.activate(&mut queues, 0, goes_on);
            queues[0].entity.start
        });
        assert!(starts[0] < starts[1], "{starts:?}");
    }

    #[test]
    fn a_weight_that_differs_is_seen_from_all_but_the_smallest() {
        let (mut weights, mut queues) = (Weights::default(), queues(&[4, 4, 7]));
        weights.add(&mut queues[0].entity);
        weights.add(&mut queues[1].entity);
        assert!(!weights.vary_for(&queues[0].entity));
        weights.add(&mut queues[2].entity);
        let vary = [0, 1, 2].map(|queue: usize| weights.vary_for(&queues[queue].entity));
        assert_eq!(vary, [true, true, false]);
        weights.remove(&mut queues[2].entity);
        assert!(!weights.vary_for(&queues[0].entity));
    }
}
