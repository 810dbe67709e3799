//! No further blocks: the data block is rewritten.

use sim::snapshot_fields;

use crate::ftl::flash::Flash;
use crate::ftl::mapping::log_block::{Job, Logs, Store, StoredLog, Update};

#[derive(Clone)]
pub(super) struct InPlace {}

snapshot_fields!(InPlace {});

impl Logs for InPlace {
    const SWITCHES: bool = false;
    const REWRITES: bool = true;

    fn append(&mut self, _store: &mut Store, _flash: &mut Flash, update: Update) -> Option<u32> {
        unreachable!("page {} is rewritten with its block", update.lpn);
    }

    fn wants(&self, _pool: usize) -> bool {
        false
    }

    fn withdraw(&mut self, _pool: usize) {}

    fn holds(&self, _store: &Store, _lbn: u32) -> bool {
        false
    }

    fn next_job(&mut self, _store: &mut Store, _flash: &mut Flash, _pool: usize) -> Option<Job> {
        None
    }

    fn merged(&mut self, _store: &mut Store, _flash: &mut Flash, _lbn: u32) {}

    fn emptied(&mut self, _store: &Store, log: u32) {
        unreachable!("there is no log block {log}");
    }

    fn clear(&mut self) {}

    fn found(&mut self, _store: &mut Store, _flash: &mut Flash, log: StoredLog) {
        unreachable!("there is no log block {}", log.block);
    }

    fn ram_bits(&self, _store: &Store) -> u64 {
        0
    }
}
