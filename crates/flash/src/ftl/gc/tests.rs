//! Each policy against a hand-made pool.

use super::*;
use crate::ftl::flash::Frontier;
use crate::ftl::gc::GcPolicy;
use crate::ssd::geometry::GeometryParams;

/// Eight full blocks of four pages; block `i` keeps `valid[i]` valid pages, oldest first.
fn pool(valid: [u32; 8]) -> (Flash, Vec<u32>) {
    let params = GeometryParams {
        channels: 1,
        dies_per_package: 1,
        planes_per_die: 1,
        blocks_per_plane: 8,
        pages_per_block: 4,
        ..GeometryParams::default()
    };
    let mut flash = Flash::new(params.check().unwrap(), Frontier::COMMON, false);
    for lpn in 0..32 {
        flash.allocate(0, Frontier::HOST, lpn, 0).unwrap();
    }
    for (block, keep) in valid.into_iter().enumerate() {
        (keep..4).for_each(|page| flash.invalidate(block as u32 * 4 + page));
    }
    let sealed = std::mem::take(&mut flash.newly_sealed);
    (flash, sealed)
}

fn picks(name: &str, valid: [u32; 8], count: usize) -> Vec<u32> {
    let (mut flash, sealed) = pool(valid);
    let context = Context { rng: Rng::new(1, name), pools: 1 };
    let mut policy = GcPolicy::from_name(name).unwrap().build(&context);
    sealed.into_iter().for_each(|block| policy.sealed(0, block));
    let pick = |_| {
        let block = policy.pick(0, 0..8, &flash).unwrap();
        flash.begin_collection(block);
        block
    };
    (0..count).map(pick).collect()
}

#[test]
fn greedy_takes_the_emptiest_and_the_lowest_of_equals() {
    assert_eq!(picks("greedy", [4, 3, 1, 2, 1, 4, 4, 0], 4), [7, 2, 4, 3]);
}

#[test]
fn fifo_takes_the_oldest() {
    assert_eq!(picks("fifo", [4, 0, 0, 0, 0, 0, 0, 0], 3), [0, 1, 2]);
}

#[test]
fn a_window_of_all_is_greedy_by_age() {
    assert_eq!(picks("windowed", [4, 3, 1, 2, 1, 4, 4, 0], 4), [7, 2, 4, 3]);
}

#[test]
fn cost_benefit_prefers_the_older_of_equals_and_an_old_block_to_a_slightly_emptier_young_one() {
    assert_eq!(picks("cost-benefit", [2, 2, 2, 2, 2, 2, 2, 2], 2), [0, 1]);
    assert_eq!(picks("cost-benefit", [3, 4, 4, 4, 4, 4, 4, 2], 1), [0]);
    assert_eq!(picks("cost-benefit", [4, 4, 4, 4, 4, 4, 4, 0], 1), [7]);
}

#[test]
fn every_policy_takes_each_sealed_block_once_and_then_none() {
    for name in GcPolicy::NAMES {
        let mut all = picks(name, [1, 2, 3, 4, 1, 2, 3, 4], 8);
        all.sort_unstable();
        assert_eq!(all, (0..8).collect::<Vec<_>>(), "{name}");
        let (flash, _) = pool([4; 8]);
        let context = Context { rng: Rng::new(1, name), pools: 1 };
        let mut policy = GcPolicy::from_name(name).unwrap().build(&context);
        let mut empty = flash.clone();
        (0..8).for_each(|block| empty.begin_collection(block));
        assert_eq!(policy.pick(0, 0..8, &empty), None, "{name}");
    }
}
