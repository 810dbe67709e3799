//! What programs outside may name, with its types: a simulator that uses [`models::Drive`] compiles
//! with any later version of the same major number if this does. Adding is free; what is renamed,
//! removed or takes another type fails here, and needs a new major number.

#![allow(clippy::type_complexity, reason = "a signature is spelled out to be compared")]

use models::{
    BadRequest, Bytes, Completion, Counters, Device, Drive, DriveBuilder, Failure, Lba, Limits,
    LostWrite, Nanos, Op, PowerLoss, Request, RequestId, parts,
};

/// A function of exactly this type.
macro_rules! promised {
    ($($name:path: $signature:ty;)*) => { $(let _: $signature = $name;)* };
}

#[test]
fn functions_have_their_names_and_types() {
    promised! {
        parts: fn() -> &'static [(&'static str, &'static str)];
        Drive::part: fn(&str) -> DriveBuilder;
        Drive::toml: fn(&str) -> DriveBuilder;
        DriveBuilder::seed: fn(DriveBuilder, u64) -> DriveBuilder;
        DriveBuilder::set: fn(DriveBuilder, &str, &str) -> DriveBuilder;
        DriveBuilder::filled: fn(DriveBuilder, u32) -> DriveBuilder;
        DriveBuilder::overwritten: fn(DriveBuilder, u32) -> DriveBuilder;
        DriveBuilder::build: fn(&DriveBuilder) -> Result<Drive, Failure>;
        DriveBuilder::restore: fn(&DriveBuilder, &[u8]) -> Result<Drive, Failure>;
        Drive::limits: fn(&Drive) -> Limits;
        Drive::now: fn(&Drive) -> Nanos;
        Drive::in_flight: fn(&Drive) -> usize;
        Drive::submit: fn(&mut Drive, Nanos, Request) -> Result<RequestId, BadRequest>;
        Drive::next_event: fn(&Drive) -> Option<Nanos>;
        Drive::advance: fn(&mut Drive, Nanos) -> Vec<Completion>;
        Drive::power_fail: fn(&mut Drive, Nanos) -> PowerLoss;
        Drive::counters: fn(&Drive) -> Counters;
        Drive::save: fn(&Drive) -> Vec<u8>;
        Request::read: fn(Lba, u32) -> Request;
        Request::write: fn(Lba, u32) -> Request;
        Request::discard: fn(Lba, u32) -> Request;
        Request::flush: fn() -> Request;
        Request::new: fn(Op, Lba, u32) -> Request;
        Request::with_fua: fn(Request) -> Request;
        Request::bytes: fn(&Request) -> Bytes;
        Request::end: fn(&Request) -> Lba;
        Limits::sectors: fn(&Limits) -> u64;
        Limits::check: fn(&Limits, &Request) -> Result<(), BadRequest>;
        Counters::get: fn(&Counters, &str) -> u64;
        Counters::since: fn(&Counters, &Counters) -> Counters;
        Nanos: fn(u64) -> Nanos;
        Nanos::from_micros: fn(u64) -> Nanos;
        Nanos::from_millis: fn(u64) -> Nanos;
        Nanos::from_secs: fn(u64) -> Nanos;
        Nanos::as_secs_f64: fn(Nanos) -> f64;
        Nanos::as_micros_f64: fn(Nanos) -> f64;
        Nanos::since: fn(Nanos, Nanos) -> Nanos;
        Nanos::saturating_add: fn(Nanos, Nanos) -> Nanos;
        Bytes: fn(u64) -> Bytes;
        Bytes::sectors: fn(Bytes) -> u64;
        Lba: fn(u64) -> Lba;
        Lba::bytes: fn(Lba) -> Bytes;
        RequestId: fn(u64) -> RequestId;
    }
}

#[test]
fn fields_have_their_names_and_types() {
    let _ = |limits: Limits| {
        let _: (Bytes, u32, u32) = (limits.capacity, limits.block_bytes, limits.queue_depth_max);
        let _: (bool, bool, bool) = (limits.rotational, limits.write_cache, limits.discard);
    };
    let _ = |request: Request| {
        let _: (RequestId, Lba, u32, Op) = (request.id, request.lba, request.sectors, request.op);
        let _: (bool, u16, u32, bool) =
            (request.fua, request.stream, request.process, request.sync);
    };
    let _ = |done: Completion| -> (RequestId, Nanos) { (done.id, done.at) };
    let _ = |lost: LostWrite| -> (RequestId, Lba, u32) { (lost.id, lost.lba, lost.sectors) };
    let _ = |loss: PowerLoss| -> (Vec<LostWrite>, Vec<RequestId>) { (loss.lost, loss.forgotten) };
    let _ = [Op::Read, Op::Write, Op::Flush, Op::Discard];
}

/// A drive may move to another thread, and whatever is told of it can be shown and compared.
#[test]
fn types_do_what_a_simulator_needs_of_them() {
    fn moves<T: Send>() {}
    fn is_told<T: Clone + PartialEq + std::fmt::Debug>() {}
    fn is_an_error<T: std::error::Error + Send + Sync + 'static>() {}
    fn is_ordered<T: Copy + Ord + std::hash::Hash + std::fmt::Debug>() {}
    moves::<Drive>();
    moves::<Box<dyn Device>>();
    is_told::<DriveBuilder>();
    is_told::<Completion>();
    is_told::<PowerLoss>();
    is_an_error::<Failure>();
    is_an_error::<BadRequest>();
    is_ordered::<Nanos>();
    is_ordered::<Lba>();
    is_ordered::<RequestId>();
}
