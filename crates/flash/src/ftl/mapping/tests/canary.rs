//! Planted bugs: each mapping is wrapped in one that makes a mistake, and the oracle must see it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use config::device::Context;
use sim::{Bytes, Counters, Device, Loader, Rng, Saver, Snapshot, SnapshotError};

use super::{age, mappings, tiny, torture};
use crate::ftl::flash::Flash;
use crate::ftl::mapping::{CleaningStep, Full, HostPage, MapStats, Mapping, Needs};
use crate::ssd::plan::{FlashOp, Kind, NONE, OpCounts, Plan, Rebuilt};

/// What a wrapped mapping does wrong, once in a while.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Bug {
    /// A page that was overwritten stays valid.
    SkippedInvalidation,
    /// A move by the collector is not written down.
    StaleMap,
    /// A merge copies two pages to each other's place.
    WrongMergeOrder,
    /// Before an erase, the map on flash is not brought up to date.
    SkippedSettle,
    /// After a power failure, one page is looked for nowhere.
    ForgottenPage,
}

/// Once in how many chances the bug strikes.
const EVERY: u64 = 7;

#[derive(Clone)]
struct Sabotaged {
    inner: Box<dyn Mapping>,
    bug: Bug,
    chances: u64,
    forgotten: bool,
}

impl Sabotaged {
    fn strikes(&mut self, bug: Bug) -> bool {
        self.chances += u64::from(bug == self.bug);
        bug == self.bug && self.chances.is_multiple_of(EVERY)
    }

    /// Copy the first page of a merge where the last belongs, and the other way round.
    fn swap_copies(&mut self, plan: &mut Plan) {
        let copies = |kind| matches!(kind, Kind::Program | Kind::CopyBack);
        let places: Vec<usize> =
            (0..plan.ops.len()).filter(|&index| copies(plan.ops[index].kind())).collect();
        if let [first, .., last] = places[..]
            && self.strikes(Bug::WrongMergeOrder)
        {
            let (one, other) = (plan.ops[first], plan.ops[last]);
            (plan.ops[first], plan.ops[last]) = (moved_to(one, other), moved_to(other, one));
        }
    }
}

/// The copy that `op` makes, but to the page that `other` writes.
fn moved_to(op: FlashOp, other: FlashOp) -> FlashOp {
    match op.kind() {
        Kind::CopyBack => FlashOp::copy_back(op.cause(), other.ppn(), op.from(), op.lpn()),
        _ => FlashOp::program(op.cause(), other.ppn(), op.from(), op.lpn(), op.sectors()),
    }
}

impl Snapshot for Sabotaged {
    fn save(&self, to: &mut Saver) {
        self.inner.save(to);
    }
    fn restore(&mut self, from: &mut Loader) -> Result<(), SnapshotError> {
        self.inner.restore(from)
    }
}

impl Mapping for Sabotaged {
    fn lookup(&mut self, flash: &mut Flash, lpn: u32) -> u32 {
        if lpn == 3 && std::mem::take(&mut self.forgotten) {
            return NONE;
        }
        self.inner.lookup(flash, lpn)
    }

    fn read(&mut self, flash: &mut Flash, page: HostPage, plan: &mut Plan) {
        self.inner.read(flash, page, plan);
    }

    fn write(&mut self, flash: &mut Flash, page: HostPage, plan: &mut Plan) -> Result<(), Full> {
        let old = self.inner.lookup(flash, page.lpn);
        self.inner.write(flash, page, plan)?;
        self.swap_copies(plan);
        if old != NONE && !flash.is_valid(old) && self.strikes(Bug::SkippedInvalidation) {
            flash.pretend_valid(old);
        }
        Ok(())
    }

    fn discard(&mut self, flash: &mut Flash, lpn: u32, plan: &mut Plan) -> Result<(), Full> {
        self.inner.discard(flash, lpn, plan)
    }

    fn relocated(&mut self, flash: &mut Flash, id: u32, from: u32, to: u32) {
        if !self.strikes(Bug::StaleMap) {
            self.inner.relocated(flash, id, from, to);
        }
    }

    fn before_erase(&mut self, flash: &mut Flash, plane: u32, plan: &mut Plan) -> bool {
        if self.strikes(Bug::SkippedSettle) {
            // What is planned is thrown away: the tables believe it was done.
            self.inner.before_erase(flash, plane, &mut Plan::default());
            return false;
        }
        self.inner.before_erase(flash, plane, plan)
    }

    fn map_pages_to_change(&mut self, flash: &mut Flash, block: u32) -> u32 {
        self.inner.map_pages_to_change(flash, block)
    }

    fn rebuild(&mut self, flash: &mut Flash) -> Rebuilt {
        self.forgotten = self.bug == Bug::ForgottenPage;
        self.inner.rebuild(flash)
    }

    fn needs(&self) -> Needs {
        self.inner.needs()
    }

    fn wants_cleaning(&self, flash: &Flash, pool: u32) -> bool {
        self.inner.wants_cleaning(flash, pool)
    }

    fn clean(&mut self, flash: &mut Flash, pool: u32, plan: &mut Plan) -> CleaningStep {
        let step = self.inner.clean(flash, pool, plan);
        self.swap_copies(plan);
        step
    }

    fn ram(&self) -> Bytes {
        self.inner.ram()
    }

    fn stats(&self) -> Option<MapStats> {
        self.inner.stats()
    }

    fn counters(&self, planned: &OpCounts, out: &mut Counters) {
        self.inner.counters(planned, out);
    }

    fn freeze(&mut self) {
        self.inner.freeze();
    }

    fn boxed_clone(&self) -> Box<dyn Mapping> {
        Box::new(self.clone())
    }
}

/// True when the bug makes the oracle (or another check) stop the run.
fn is_caught(changes: &str, bug: Bug) -> bool {
    let context = Context { rng: Rng::new(1, "tiny") };
    let built = tiny(changes).build_around(&context, |inner| {
        Box::new(Sabotaged { inner, bug, chances: 0, forgotten: false })
    });
    let mut device = built.unwrap_or_else(|error| panic!("{changes}: {error}"));
    catch_unwind(AssertUnwindSafe(|| {
        age(&mut device);
        torture(&mut device as &mut dyn Device, 5, 4_000, 10);
    }))
    .is_err()
}

#[test]
fn the_oracle_sees_what_every_mapping_can_do_wrong() {
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = Vec::new();
    for (name, changes) in &mappings() {
        let context = Context { rng: Rng::new(1, "tiny") };
        let mut needs = Needs::default();
        let built = tiny(changes).build_around(&context, |inner| {
            needs = inner.needs();
            inner
        });
        drop(built);
        let mut bugs = vec![Bug::SkippedInvalidation, Bug::ForgottenPage];
        bugs.push(if needs.pools > 0 { Bug::WrongMergeOrder } else { Bug::StaleMap });
        if needs.before_erase_pages > 0 {
            bugs.push(Bug::SkippedSettle);
        }
        missed.extend(bugs.into_iter().filter(|&bug| !is_caught(changes, bug)).map(|b| (*name, b)));
    }
    std::panic::set_hook(quiet);
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
