//! Engines of fio.

pub(crate) use workload::fio::SYNCHRONOUS;
pub(super) use workload::fio::USUAL;
