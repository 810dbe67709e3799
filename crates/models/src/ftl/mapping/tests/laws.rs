//! The laws and the power cuts.

use sim::{Device, Rng};

use super::{age, mappings, tiny, torture};
use crate::device::Context;

fn build(changes: &str) -> Box<dyn Device> {
    let context = Context { rng: Rng::new(1, "tiny") };
    let mut device =
        tiny(changes).build(&context).unwrap_or_else(|error| panic!("{changes}: {error}"));
    age(&mut *device);
    device
}

#[test]
fn every_mapping_obeys_the_laws() {
    for (name, changes) in &mappings() {
        sim::laws::check_all(name, &|| build(changes), 0..2);
    }
}

#[test]
fn every_mapping_obeys_the_laws_behind_a_buffer() {
    for (name, changes) in &mappings() {
        let buffered = format!("buffer = {{ capacity = '32KiB' }}\n{changes}");
        sim::laws::check_all(name, &|| build(&buffered), 0..1);
    }
}

#[test]
fn a_buffer_that_sorts_obeys_the_laws_and_loses_nothing() {
    let sorting = "buffer = { capacity = '64KiB', destage_order = 'sorted', \
                   destage_above_percent = 50 }\nmapping.leaftl.error_bound = 4";
    sim::laws::check_all("leaftl, sorted", &|| build(sorting), 0..2);
    torture(&mut *build(sorting), 1, 6_000, 20);
}

#[test]
fn every_mapping_is_rebuilt_after_any_power_cut() {
    for (name, changes) in &mappings() {
        println!("{name}");
        let mut device = build(changes);
        torture(&mut *device, 1, 6_000, 20);
    }
}

/// The bar of the FTL family: `make test-long`.
#[test]
#[ignore = "ten million operations per mapping"]
fn ten_million_operations_per_mapping_lose_nothing() {
    for (name, changes) in &mappings() {
        let mut device = build(changes);
        torture(&mut *device, 2, 10_000_000, 1);
        println!("{name}: 10 million operations");
    }
}
