//! Who is served next: B-WF2Q+ over the queues of one class of priority.

use sim::snapshot_fields;

/// Virtual time has so many fractional bits.
const SHIFT: u32 = 22;

/// How far virtual time goes on for so many sectors of this weight.
pub(super) fn span(sectors: u64, weight: u64) -> u64 {
    (sectors << SHIFT) / weight
}

/// The place of a queue in virtual time.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Entity {
    pub(super) weight: u64,
    /// Sectors that it may have in its next turn.
    pub(super) budget: u64,
    start: u64,
    finish: u64,
    /// It has requests, or its turn.
    pub(super) active: bool,
}

snapshot_fields!(Entity { weight, budget, start, finish, active });

impl Entity {
    /// One that may have so many sectors in its first turn.
    pub(super) fn new(budget: u64) -> Entity {
        Entity { budget, ..Entity::default() }
    }

    /// It was empty and asks again: it begins where it left, but has not saved up.
    pub(super) fn activate(&mut self, now: u64) {
        self.start = self.finish.max(now);
        self.plan();
        self.active = true;
    }

    /// Where it would finish with its whole budget.
    pub(super) fn plan(&mut self) {
        self.finish = self.start + span(self.budget, self.weight);
    }

    /// Its turn is over after so many sectors.
    pub(super) fn served(&mut self, sectors: u64) {
        self.start += span(sectors, self.weight);
        self.finish = self.start;
    }
}

/// The next one, by its place in `entities`; virtual time jumps to the first start when all are
/// ahead of their shares.
pub(super) fn choose<'a>(
    entities: impl Iterator<Item = (u32, &'a Entity)> + Clone,
    now: &mut u64,
) -> Option<u32> {
    let active = entities.filter(|(_, entity)| entity.active);
    let first = active.clone().map(|(_, entity)| entity.start).min()?;
    *now = (*now).max(first);
    let eligible = active.filter(|(_, entity)| entity.start <= *now);
    eligible.min_by_key(|&(queue, entity)| (entity.finish, queue)).map(|(queue, _)| queue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_own_number() {
        assert_eq!(span(1024, 1200), 3_579_139);
    }

    #[test]
    fn turns_follow_the_weights() {
        let entity = |weight| Entity { weight, budget: 100, ..Entity::default() };
        let mut entities = [entity(80), entity(40), entity(10)];
        let (mut now, mut turns) = (0, [0u64; 3]);
        entities.iter_mut().for_each(|entity| entity.activate(0));
        for _ in 0..1300 {
            let all = (0..).zip(entities.iter());
            let chosen = choose(all, &mut now).unwrap() as usize;
            turns[chosen] += 1;
            now += span(100, 130);
            entities[chosen].served(100);
            entities[chosen].plan();
        }
        assert!(turns[0].abs_diff(800) <= 2 && turns[2].abs_diff(100) <= 2, "{turns:?}");
    }

    #[test]
    fn who_was_away_has_not_saved_up() {
        let mut late = Entity { weight: 10, budget: 100, ..Entity::default() };
        late.activate(5000);
        assert_eq!(late.start, 5000);
        late.served(100);
        late.activate(5001);
        assert_eq!(late.start, 5000 + span(100, 10), "what it had counts");
    }
}
