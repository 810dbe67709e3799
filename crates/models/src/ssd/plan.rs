//! Plans: what an FTL wants from the flash. *FTLs decide, NAND times.*

/// What a flash operation does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Kind {
    /// Sense a page and transfer it out.
    #[default]
    Read,
    /// Transfer a page in and program it.
    Program,
    /// Read a page and program it to another page of the same plane, without the bus.
    CopyBack,
    /// Erase a block.
    Erase,
}

/// On whose behalf a flash operation runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Cause {
    /// The host asked for it.
    #[default]
    Host,
    /// Garbage collection.
    Gc,
    /// Wear levelling.
    Wear,
    /// Reading or writing mapping tables.
    Map,
    /// Merging log blocks into data blocks.
    Merge,
}

impl Kind {
    /// Every kind, in the order of tables indexed by `kind as usize`.
    pub const ALL: [Kind; 4] = [Kind::Read, Kind::Program, Kind::CopyBack, Kind::Erase];

    /// The name used in counters and spans.
    pub const fn name(self) -> &'static str {
        ["read", "program", "copyback", "erase"][self as usize]
    }
}

impl Cause {
    /// Every cause, in the order of tables indexed by `cause as usize`.
    pub const ALL: [Cause; 5] = [Cause::Host, Cause::Gc, Cause::Wear, Cause::Map, Cause::Merge];

    /// The name used in counters and spans.
    pub const fn name(self) -> &'static str {
        ["host", "gc", "wear", "map", "merge"][self as usize]
    }
}

/// No page: the `from` of a first write, the owner of a page without valid data.
pub const NONE: u32 = u32::MAX;

/// One flash operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlashOp {
    /// What to do.
    pub kind: Kind,
    /// Why.
    pub cause: Cause,
    /// Sectors that cross the bus.
    pub sectors: u16,
    /// The page; for an erase the first page of the block.
    pub ppn: u32,
    /// Where the data was before: the source of a copy-back, the superseded page of a program,
    /// or [`NONE`].
    pub from: u32,
    /// The logical page of the data; [`NONE`] for an erase.
    pub lpn: u32,
}

/// Operation counts by kind and cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpCounts(pub [[u64; 5]; 4]);

impl OpCounts {
    /// Operations of that kind and cause.
    pub fn get(&self, kind: Kind, cause: Cause) -> u64 {
        self.0[kind as usize][cause as usize]
    }

    /// Page programs of that cause, copy-backs included.
    pub fn programs(&self, cause: Cause) -> u64 {
        self.get(Kind::Program, cause) + self.get(Kind::CopyBack, cause)
    }
}

sim::snapshot_fields!(OpCounts { 0 });

/// Operations in stages: those of a stage run in parallel, and a stage starts when the one before
/// it is done.
#[derive(Clone, Default, Debug)]
pub struct Plan {
    /// The operations, stage after stage.
    pub ops: Vec<FlashOp>,
    /// For every finished stage but the last, one past its last operation.
    pub stage_ends: Vec<u32>,
    /// The plane whose free blocks have become few, if any.
    pub collect: Option<u32>,
    /// What was planned since the drive was built.
    pub counts: OpCounts,
}

impl sim::Snapshot for Plan {
    fn save(&self, to: &mut sim::Saver) {
        self.counts.save(to);
    }
    fn restore(&mut self, from: &mut sim::Loader) -> Result<(), sim::SnapshotError> {
        self.counts.restore(from)
    }
}

impl Plan {
    /// Forget the operations, keep the counts.
    #[inline]
    pub fn clear(&mut self) {
        self.ops.clear();
        self.stage_ends.clear();
        self.collect = None;
    }

    /// Add an operation to the present stage.
    #[inline]
    pub fn push(&mut self, op: FlashOp) {
        self.counts.0[op.kind as usize][op.cause as usize] += 1;
        self.ops.push(op);
    }

    /// Begin a new stage, unless the present one is empty.
    pub fn then(&mut self) {
        let end = self.ops.len() as u32;
        if end > 0 && self.stage_ends.last() != Some(&end) {
            self.stage_ends.push(end);
        }
    }
}
