//! The laws and the power cuts.

use config::ConfigError;
use config::device::Context;
use sim::{Device, Rng};

use super::{age, mappings, shaped, tiny, torture};
use crate::device::ssd::Params;

fn build(changes: &str) -> Box<dyn Device> {
    aged(&tiny(changes)).unwrap_or_else(|error| panic!("{changes}: {error}"))
}

fn aged(params: &Params) -> Result<Box<dyn Device>, ConfigError> {
    let context = Context { rng: Rng::new(1, "tiny") };
    let mut device = params.build(&context)?;
    age(&mut *device);
    Ok(device)
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

#[test]
fn every_mapping_works_on_a_drive_whose_sizes_are_no_powers_of_two() {
    let geometry = "channels = 3\npackages_per_channel = 1\ndies_per_package = 1\n\
                    planes_per_die = 3\nblocks_per_plane = 61\npages_per_block = 15\npage = '1KiB'";
    for (name, changes) in &mappings() {
        println!("{name}");
        // What has to fit the planes or the blocks of the other shape.
        let changes = changes.replace("zone_planes = 2", "zone_planes = 3");
        let mut device =
            aged(&shaped(&changes, geometry)).unwrap_or_else(|e| panic!("{name}: {e}"));
        torture(&mut *device, 3, 3_000, 10);
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
