//! Reading the fixtures of `tests/traces`.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::io::Cursor;

use sim::Rng;
use trace::{Context, Record, Trace, TraceError, TraceFormat, open};

/// Every fixture and its format.
pub(crate) const FIXTURES: &[(&str, &str)] = &[
    ("sample.blkparse", "blkparse"),
    ("sample-le.blktrace", "blktrace"),
    ("sample-be.blktrace", "blktrace"),
    ("sample-v2.iolog", "iolog"),
    ("sample-v3.iolog", "iolog"),
    ("sample.msr", "msr"),
    ("sample.spc", "spc"),
    ("sample.disksim", "disksim"),
    ("sample.mqsim", "mqsim"),
    ("sample.systor", "systor"),
    ("sample.alibaba", "alibaba"),
    ("sample-v1.vscsi", "vscsi"),
    ("sample-v2.vscsi", "vscsi"),
    ("sample.arc", "arc"),
    ("sample.wiscsee", "wiscsee"),
    ("sample.tencent", "tencent"),
    ("sample.fiu", "fiu"),
];

/// The bytes of a fixture.
pub(crate) fn fixture(name: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces/");
    std::fs::read(format!("{folder}{name}")).unwrap()
}

/// All records of a fixture, its format recognised.
pub(crate) fn read_all(name: &str) -> Result<(Trace, Vec<Record>), TraceError> {
    read_bytes(&fixture(name), None)
}

/// All records of a fixture, read as `format` (JSON).
pub(crate) fn read_as(name: &str, format: &str) -> Result<(Trace, Vec<Record>), TraceError> {
    read_bytes(&fixture(name), Some(format))
}

/// All records of a trace in memory, called `test` in errors.
pub(crate) fn read_bytes(
    bytes: &[u8],
    format: Option<&str>,
) -> Result<(Trace, Vec<Record>), TraceError> {
    let format: Option<TraceFormat> = format.map(|json| serde_json::from_str(json).unwrap());
    let context = Context { rng: Rng::new(1, "test"), responses: false };
    let read = Box::new(Cursor::new(bytes.to_vec()));
    let mut trace = open("test", read, format.as_ref(), &context)?;
    let mut records = Vec::new();
    while trace.fill(&mut records)? {}
    Ok((trace, records))
}
