//! The NAND oracle: a slow, obvious model of the flash that checks every operation.
//!
//! Real NAND would accept many of a wrong FTL's plans and lose data silently. The oracle knows
//! what every page holds, as (logical page, version), and refuses:
//!
//! * a program on a page that is not erased, or below one already programmed in its block;
//! * a read of a page that does not hold the wanted (logical page, version);
//! * a copy-back across planes, or of a page that does not hold what it should;
//! * an erase of a block that still holds the newest version of something.

use super::geometry::Geometry;
use super::plan::{Cause, FlashOp, Kind, NONE};

/// What a page holds: a logical page and its version.
type Content = (u32, u32);
const ERASED: Content = (NONE, 0);

/// Checks operations in the order in which the flash executes them.
#[derive(Clone, Debug)]
pub struct Oracle {
    geometry: Geometry,
    pages: Vec<Content>,
    /// First page that may still be programmed, per block.
    next_page: Vec<u32>,
    /// Version of each id (logical page or page of the mapping table) that was written last.
    newest: Vec<u32>,
    /// Versions given out per id. Runs ahead of `newest` when a power failure takes writes back.
    issued: Vec<u32>,
    /// Version of each logical page whose program has ended, and where it is.
    durable: Vec<(u32, u32)>,
    /// Version each planned page will hold.
    planned: Vec<u32>,
    /// 1 for each id that holds data: written, and not discarded since.
    holds_data: Vec<u8>,
}

sim::snapshot_fields!(Oracle { pages, next_page, newest, issued, durable, planned, holds_data });

impl Oracle {
    /// An oracle for an erased drive with `ids` logical pages and pages of the mapping table.
    pub fn new(geometry: Geometry, ids: u32) -> Oracle {
        let pages = geometry.pages() as usize;
        Oracle {
            geometry,
            pages: vec![ERASED; pages],
            next_page: vec![0; geometry.blocks() as usize],
            newest: vec![0; ids as usize],
            issued: vec![0; ids as usize],
            durable: vec![(0, NONE); ids as usize],
            planned: vec![0; pages],
            holds_data: vec![0; ids as usize],
        }
    }

    /// An operation was planned. Called in planned order, before it is executed.
    ///
    /// # Errors
    /// What is wrong with the plan.
    pub fn planned(&mut self, op: FlashOp) -> Result<(), String> {
        match op.kind() {
            Kind::Program | Kind::CopyBack => {
                let version = match op.cause() {
                    Cause::Host | Cause::Map => self.new_version(op.lpn()),
                    // A move carries the version that the source holds or will hold.
                    _ => self.planned[op.from() as usize],
                };
                self.planned[op.ppn() as usize] = version;
                let same_plane =
                    self.geometry.plane_of(op.ppn()) == self.geometry.plane_of(op.from());
                if op.kind() == Kind::CopyBack && !same_plane {
                    return Err(format!("copy-back across planes: {op:?}"));
                }
            }
            // A spare area says which copy it belongs to: reading an old one is no mistake.
            Kind::Read if op.lpn() != NONE && op.sectors() > 0 => {
                let (wanted, planned) =
                    (self.newest[op.lpn() as usize], self.planned[op.ppn() as usize]);
                if matches!(op.cause(), Cause::Host | Cause::Map) && wanted != planned {
                    return Err(format!("read of version {planned} instead of {wanted}: {op:?}"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn new_version(&mut self, id: u32) -> u32 {
        self.issued[id as usize] += 1;
        self.newest[id as usize] = self.issued[id as usize];
        self.holds_data[id as usize] = 1;
        self.newest[id as usize]
    }

    /// A host read of `lpn` was planned as `ops`.
    ///
    /// # Errors
    /// When the page holds data and nothing reads it.
    pub fn answered(&self, lpn: u32, ops: &[FlashOp]) -> Result<(), String> {
        let reads = |op: &FlashOp| op.cause() == Cause::Host && op.lpn() == lpn;
        if self.holds_data[lpn as usize] == 0 || ops.iter().any(reads) {
            Ok(())
        } else {
            Err(format!("lpn {lpn} holds data, but a read of it reads no page"))
        }
    }

    /// An operation ended.
    ///
    /// # Errors
    /// What real flash, or the data's owner, would object to.
    pub fn executed(&mut self, op: FlashOp) -> Result<(), String> {
        match op.kind() {
            Kind::Read => self.holds(op.ppn(), op.lpn(), op),
            Kind::Program => self.program(op),
            Kind::CopyBack => {
                self.holds(op.from(), op.lpn(), op)?;
                let carried = self.pages[op.from() as usize].1;
                let planned = self.planned[op.ppn() as usize];
                if carried != planned {
                    return Err(format!(
                        "copy-back moves version {carried}, not {planned}: {op:?}"
                    ));
                }
                self.program(op)
            }
            Kind::Erase => self.erase(op),
        }
    }

    fn holds(&self, ppn: u32, lpn: u32, op: FlashOp) -> Result<(), String> {
        let (holder, version) = self.pages[ppn as usize];
        let wanted = self.planned[ppn as usize];
        if (holder, version) == (lpn, wanted) {
            Ok(())
        } else {
            Err(format!(
                "page {ppn} holds (lpn {holder}, version {version}), not version {wanted}: {op:?}"
            ))
        }
    }

    fn program(&mut self, op: FlashOp) -> Result<(), String> {
        let (block, page) = self.geometry.block_page(op.ppn());
        let next = &mut self.next_page[block as usize];
        if page < *next {
            return Err(format!("block {block} expects page {next} or later: {op:?}"));
        }
        *next = page + 1;
        let version = self.planned[op.ppn() as usize];
        self.pages[op.ppn() as usize] = (op.lpn(), version);
        let durable = &mut self.durable[op.lpn() as usize];
        // A copy on another die may have ended before the program that it copies.
        let copied = !matches!(op.cause(), Cause::Host | Cause::Map) && version == durable.0;
        if version > durable.0 || copied {
            *durable = (version, op.ppn());
        }
        Ok(())
    }

    fn erase(&mut self, op: FlashOp) -> Result<(), String> {
        let (block, _) = self.geometry.block_page(op.ppn());
        for ppn in op.ppn()..op.ppn() + self.geometry.pages_per_block.get() {
            let (lpn, version) = self.pages[ppn as usize];
            if lpn != NONE && self.durable[lpn as usize] == (version, ppn) {
                return Err(format!(
                    "the erase of block {block} destroys the last durable copy of lpn {lpn} \
                     (version {version})"
                ));
            }
            self.pages[ppn as usize] = ERASED;
        }
        self.next_page[block as usize] = 0;
        Ok(())
    }

    /// The host discarded a page: its copies may be erased.
    pub fn discarded(&mut self, lpn: u32) {
        let version = self.new_version(lpn);
        self.durable[lpn as usize] = (version, NONE);
        self.holds_data[lpn as usize] = 0;
    }

    /// The power failed. Pages that were handed out but not programmed are burnt; every id must
    /// be found where `lookup` says, in its last durable version. A discarded page may be back in
    /// any version.
    ///
    /// # Errors
    /// The first page that is not.
    pub fn power_failed(&mut self, mut lookup: impl FnMut(u32) -> u32) -> Result<(), String> {
        for id in 0..self.newest.len() as u32 {
            let (version, ppn) = self.durable[id as usize];
            let found = lookup(id);
            let held = match found {
                NONE => (id, version),
                _ => self.pages[found as usize],
            };
            let same = match (found, ppn) {
                (NONE, _) => ppn == NONE,
                (_, NONE) => held.0 == id,
                _ => held == (id, version),
            };
            if !same {
                return Err(format!(
                    "after the power failure lpn {id} is sought at {found}, but its durable \
                     version {version} is at {ppn}"
                ));
            }
            self.newest[id as usize] = held.1;
            self.holds_data[id as usize] = u8::from(found != NONE);
            if found != NONE {
                self.durable[id as usize] = (held.1, found);
                self.planned[found as usize] = held.1;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssd::geometry::GeometryParams;

    fn oracle() -> Oracle {
        Oracle::new(GeometryParams::default().check().unwrap(), 100)
    }

    fn run(oracle: &mut Oracle, op: FlashOp) -> Result<(), String> {
        oracle.planned(op)?;
        oracle.executed(op)
    }

    #[test]
    fn correct_plans_pass() {
        let mut o = oracle();
        run(&mut o, FlashOp::program(Cause::Host, 0, NONE, 7, 4)).unwrap();
        run(&mut o, FlashOp::read(Cause::Host, 0, 7, 4)).unwrap();
        run(&mut o, FlashOp::copy_back(Cause::Gc, 64, 0, 7)).unwrap();
        run(&mut o, FlashOp::erase(Cause::Gc, 0)).unwrap();
        run(&mut o, FlashOp::read(Cause::Host, 64, 7, 4)).unwrap();
    }

    #[test]
    fn every_kind_of_wrong_plan_is_refused() {
        let mut o = oracle();
        run(&mut o, FlashOp::program(Cause::Host, 0, NONE, 7, 4)).unwrap();
        let wrong = [
            (FlashOp::program(Cause::Host, 0, NONE, 8, 4), "expects page 1 or later"),
            (FlashOp::program(Cause::Gc, 0, 0, 7, 4), "expects page 1 or later"),
            (FlashOp::read(Cause::Host, 0, 8, 4), "instead of"),
            (FlashOp::copy_back(Cause::Gc, 131_072 * 2, 0, 7), "across planes"),
            (FlashOp::erase(Cause::Gc, 0), "last durable copy of lpn 7"),
        ];
        for (op, expected) in wrong {
            let error = run(&mut o.clone(), op).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        // A stale read: the page was overwritten elsewhere.
        run(&mut o, FlashOp::program(Cause::Host, 1, 0, 7, 4)).unwrap();
        let error = run(&mut o, FlashOp::read(Cause::Host, 0, 7, 4)).unwrap_err();
        assert!(error.contains("read of version 1 instead of 2"), "{error}");
    }
}
