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

sim::snapshot_enum!(Kind { Read, Program, CopyBack, Erase });
sim::snapshot_enum!(Cause { Host, Gc, Wear, Map, Merge });

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

/// Flash work after a power failure, in place of a plan: it runs before anything else does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rebuilt {
    /// Spare areas read.
    pub spare_reads: u64,
    /// Whole pages read.
    pub page_reads: u64,
    /// Pages written to bring the mapping on flash up to date. They are charged to the time of
    /// the rebuild only.
    pub page_writes: u64,
}

/// One flash operation.
///
/// Two words rather than six fields: operations are copied from the plan to the NAND model right
/// after they are built, and a copy that reads narrow stores back as wide loads stalls the core.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct FlashOp {
    /// ppn << 32 | sectors << 16 | cause << 8 | pSLC flags << 2 | kind
    what: u64,
    /// lpn << 32 | from
    data: u64,
}

impl FlashOp {
    /// Numbers that [`FlashOp::mode`] stays below.
    pub const MODES: usize = 16;

    /// Sense `ppn`, which holds `lpn`, and transfer `sectors` of it.
    #[inline]
    pub fn read(cause: Cause, ppn: u32, lpn: u32, sectors: u32) -> FlashOp {
        FlashOp::new(Kind::Read, cause, ppn, NONE, lpn, sectors)
    }

    /// Program `lpn` to `ppn`. `from` is the page that held it before, or [`NONE`].
    #[inline]
    pub fn program(cause: Cause, ppn: u32, from: u32, lpn: u32, sectors: u32) -> FlashOp {
        FlashOp::new(Kind::Program, cause, ppn, from, lpn, sectors)
    }

    /// Move `lpn` from one page to another of the same plane without the bus.
    #[inline]
    pub fn copy_back(cause: Cause, ppn: u32, from: u32, lpn: u32) -> FlashOp {
        FlashOp::new(Kind::CopyBack, cause, ppn, from, lpn, 0)
    }

    /// Erase the block whose first page is `ppn`.
    #[inline]
    pub fn erase(cause: Cause, ppn: u32) -> FlashOp {
        FlashOp::new(Kind::Erase, cause, ppn, NONE, NONE, 0)
    }

    #[inline]
    fn new(kind: Kind, cause: Cause, ppn: u32, from: u32, lpn: u32, sectors: u32) -> FlashOp {
        let low = u64::from(sectors & 0xffff) << 16 | (cause as u64) << 8 | kind as u64;
        FlashOp { what: u64::from(ppn) << 32 | low, data: u64::from(lpn) << 32 | u64::from(from) }
    }

    /// What to do.
    #[inline]
    pub fn kind(&self) -> Kind {
        // Not from the table of all: this costs nothing.
        match self.what & 3 {
            0 => Kind::Read,
            1 => Kind::Program,
            2 => Kind::CopyBack,
            _ => Kind::Erase,
        }
    }

    /// This operation, whose block (`page`) and whose source's block (`from`) are used as pSLC.
    #[inline]
    pub(crate) fn in_pslc(self, page: bool, from: bool) -> FlashOp {
        let flags = u64::from(page) << 2 | u64::from(from) << 3;
        FlashOp { what: self.what | flags, ..self }
    }

    /// The kind and the pSLC flags as a number below [`FlashOp::MODES`]: operations alike in it
    /// take equal times and may share a multi-plane group.
    #[inline]
    pub fn mode(&self) -> usize {
        (self.what & 15) as usize
    }

    /// True when the block of the page is used as pSLC.
    #[inline]
    pub fn is_pslc(&self) -> bool {
        self.what & 4 != 0
    }

    /// True when the block of the source is used as pSLC.
    #[inline]
    pub fn is_from_pslc(&self) -> bool {
        self.what & 8 != 0
    }

    /// Why.
    #[inline]
    pub fn cause(&self) -> Cause {
        // Only `new` writes the byte, or `restore`, which checks it.
        Cause::ALL[(self.what >> 8 & 7) as usize]
    }

    /// Sectors that cross the bus.
    #[inline]
    pub fn sectors(&self) -> u32 {
        (self.what >> 16 & 0xffff) as u32
    }

    /// The page; for an erase the first page of the block.
    #[inline]
    pub fn ppn(&self) -> u32 {
        (self.what >> 32) as u32
    }

    /// Where the data was before: the source of a copy-back, the superseded page of a program, or
    /// [`NONE`].
    #[inline]
    pub fn from(&self) -> u32 {
        self.data as u32
    }

    /// The logical page of the data; [`NONE`] for an erase.
    #[inline]
    pub fn lpn(&self) -> u32 {
        (self.data >> 32) as u32
    }
}

impl std::fmt::Debug for FlashOp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (kind, cause) = (self.kind().name(), self.cause().name());
        write!(f, "{cause} {kind} of page {}", self.ppn())?;
        match (self.lpn(), self.from()) {
            (NONE, _) => Ok(()),
            (lpn, NONE) => write!(f, " (lpn {lpn})"),
            (lpn, from) => write!(f, " (lpn {lpn}, before at {from})"),
        }
    }
}

impl sim::Snapshot for FlashOp {
    fn save(&self, to: &mut sim::Saver) {
        (self.what, self.data).save(to);
    }
    fn restore(&mut self, from: &mut sim::Loader) -> Result<(), sim::SnapshotError> {
        let mut words = (0, 0);
        words.restore(from)?;
        (self.what, self.data) = words;
        if (self.what >> 8 & 0xff) < Cause::ALL.len() as u64 && (self.what & 0xff) < 16 {
            Ok(())
        } else {
            Err(sim::SnapshotError::Damaged("a flash operation is damaged".into()))
        }
    }
}

/// Operation counts by kind and cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpCounts(pub [[u64; 5]; 4]);

impl OpCounts {
    /// Operations of that kind and cause.
    pub fn get(&self, kind: Kind, cause: Cause) -> u64 {
        self.0[kind as usize][cause as usize]
    }

    /// An operation that was planned turned out to need no flash.
    pub(crate) fn take_back(&mut self, op: FlashOp) {
        self.0[op.kind() as usize][op.cause() as usize] -= 1;
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
    /// Planes that gave up a free block.
    pub collect: Vec<u32>,
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
        self.collect.clear();
    }

    /// Add an operation to the present stage.
    #[inline]
    pub fn push(&mut self, op: FlashOp) {
        self.counts.0[op.kind() as usize][op.cause() as usize] += 1;
        self.ops.push(op);
    }

    /// Add operations of one kind and cause to the present stage.
    #[inline]
    pub fn push_all(
        &mut self,
        kind: Kind,
        cause: Cause,
        ops: impl ExactSizeIterator<Item = FlashOp>,
    ) {
        self.counts.0[kind as usize][cause as usize] += ops.len() as u64;
        let checked = |op: &FlashOp| debug_assert!(op.kind() == kind && op.cause() == cause);
        self.ops.extend(ops.inspect(checked));
    }

    /// Begin a new stage, unless the present one is empty.
    pub fn then(&mut self) {
        let end = self.ops.len() as u32;
        if end > 0 && self.stage_ends.last() != Some(&end) {
            self.stage_ends.push(end);
        }
    }
}
