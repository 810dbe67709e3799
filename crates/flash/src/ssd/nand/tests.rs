use sim::EventHeap;

use super::*;
use crate::ssd::geometry::GeometryParams;
use crate::ssd::plan::NONE;
use crate::ssd::timing::NandParams;

fn nand() -> Nand {
    let geometry = GeometryParams::default().check().unwrap();
    Nand::new(geometry, NandParams::default().check().unwrap())
}

#[test]
fn only_a_program_whose_data_are_in_outlives_a_power_failure() {
    let (mut nand, mut events) = (nand(), EventHeap::new());
    let op = FlashOp::program(Cause::Host, 0, NONE, 7, nand.geometry.page_sectors);
    nand.enqueue(op, 0, Class::Write, false);
    nand.kick(0, Nanos::ZERO, &mut events);
    let phases = nand.timing.phases(&nand.geometry, op);
    let ending = |at: u64| nand.clone().power_fail(Nanos(at)).0.len();
    assert_eq!([phases.bus_in - 1, phases.bus_in].map(ending), [0, 1]);
}

#[test]
fn a_transfer_in_has_an_event_only_where_somebody_waits_for_it() {
    let (mut nand, mut events) = (nand(), EventHeap::new());
    let sectors = nand.geometry.page_sectors;
    let plane_pages = nand.geometry.pages_per_block.get() * nand.geometry.blocks_per_plane.get();
    let die_pages = plane_pages * nand.geometry.planes_per_die.get();
    let other = (1..nand.geometry.dies()).find(|&die| nand.geometry.channel_of_die(die) == 0);
    for die in [0, other.expect("two dies on a channel")] {
        let op = FlashOp::program(Cause::Host, die * die_pages, NONE, die, sectors);
        nand.enqueue(op, die, Class::Write, false);
    }
    nand.kick(0, Nanos::ZERO, &mut events);
    assert_eq!(events.len(), 1, "the end of the program");
    nand.kick(other.unwrap(), Nanos(1), &mut events);
    assert_eq!(events.len(), 2, "and the end of its transfer");
}
