//! The superblock: who this device is, what it knows of the others, and since when.

use super::field::{Reader, Writer};
use super::page::{Damage, PAGE_BYTES, PageAddress, PageKind, open, seal, version};
use crate::types::{DEVICES, Mode};

/// Generations remembered before the current one.
pub const HISTORY: usize = 16;

/// A bit of `incompat`: blocks of data are summed by XXH64, not by CRC-32C.
pub const XXH64_SUMS: u32 = 1;
/// Bits of `incompat` that this version knows.
const INCOMPAT_KNOWN: u32 = XXH64_SUMS;

/// What the array knows of one member.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Membership {
    /// The array was made without it.
    #[default]
    Never = 0,
    /// A full member: it holds all that was promised.
    Member = 1,
    /// Left out since the generation `base`.
    Out = 2,
}

/// Random ids of the array's past. A new one is drawn whenever a member is left out, before
/// anything is promised without it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Generations {
    /// The generation this device's data belongs to; 0 while it is being filled.
    pub current: u128,
    /// The generation since which the bitmap records what a left-out leg lacks; 0 when none is.
    pub base: u128,
    /// Earlier ones, newest first; 0 ends the list.
    pub history: [u128; HISTORY],
}

sim::snapshot_enum!(Membership { Never, Member, Out });
sim::snapshot_fields!(Generations { current, base, history });

impl Generations {
    /// Begin the generation `id` because a member is being left out.
    pub fn begin(&mut self, id: u128) {
        if self.base == 0 {
            self.base = self.current;
        }
        self.history.rotate_right(1);
        self.history[0] = self.current;
        self.current = id;
    }
}

/// Sizes and positions that never change after creation.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Geometry {
    /// Blocks of 4 KiB offered to the host.
    pub blocks: u64,
    /// Blocks per extent of the activity log.
    pub extent_blocks: u32,
    /// Blocks per bit of the out-of-sync bitmap.
    pub region_blocks: u32,
    /// Pages of the log ring.
    pub log_pages: u32,
}

sim::snapshot_fields!(Geometry { blocks, extent_blocks, region_blocks, log_pages });

/// Extents of an array: the activity log numbers them with 32 bits.
pub const EXTENTS_MAX: u64 = 1 << 32;

impl Geometry {
    /// Extents of the activity log.
    pub fn extents(&self) -> u64 {
        self.blocks.div_ceil(self.extent_blocks.into())
    }
}

/// The newest superblock of a device that was complete on it when somebody wrote this down.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Seen {
    /// Identity of the medium; 0 where nothing is known.
    pub identity: u128,
    /// Number of the update.
    pub update: u64,
    /// The start that wrote it.
    pub run: u64,
}

sim::snapshot_fields!(Seen { identity, update, run });

impl Seen {
    /// The number of the next update of a slot whose device has `last`: greater than both, and it
    /// replaces other copies than that one's.
    pub const fn next_update(self, last: u64) -> u64 {
        let next = if last > self.update { last + 1 } else { self.update + 1 };
        next + (next % 2 == last % 2) as u64
    }
}

/// One superblock. Four copies are kept; a write replaces the oldest two at a time.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Superblock {
    /// The array's id.
    pub array: u128,
    /// This device's slot: 0 and 1 are the legs, 2 the witness.
    pub device: u8,
    /// Identity of the medium, drawn at creation: a second device with the same one is a clone.
    pub identity: u128,
    /// Features a reader may ignore, may ignore when it only reads, must know.
    pub features: [u32; 3],
    /// Sizes.
    pub geometry: Geometry,
    /// Counts superblocks of this slot, also over a change of the medium: the valid copy with the
    /// greatest one is current.
    pub update: u64,
    /// Counts starts of the array.
    pub incarnation: u64,
    /// See [`Generations`].
    pub generations: Generations,
    /// What is known of each device, this one included.
    pub members: [Membership; DEVICES],
    /// The mode the array runs in.
    pub mode: Mode,
    /// Stopped in order: nothing to recover.
    pub clean: bool,
    /// A flush may have been acknowledged with one copy: a lone leg may lack it.
    pub armed_relaxed: bool,
    /// A flush may rely on the witness: a lone leg without it may lack something.
    pub armed_witness: bool,
    /// Log records of this device before this number are void.
    pub log_first: u64,
    /// Random id of the start that wrote this; 0 before the first.
    pub run: u64,
    /// What was complete on each device when this was written.
    pub seen: [Seen; DEVICES],
}

sim::snapshot_fields!(Superblock {
    array,
    device,
    identity,
    features,
    geometry,
    update,
    incarnation,
    generations,
    members,
    mode,
    clean,
    armed_relaxed,
    armed_witness,
    log_first,
    run,
    seen,
});

impl Superblock {
    /// This one, as other devices remember it.
    pub const fn as_seen(&self) -> Seen {
        Seen { identity: self.identity, update: self.update, run: self.run }
    }

    /// The page for copy number `page`'s place on this device.
    pub fn encode(&self, page: u64) -> Box<[u8; PAGE_BYTES]> {
        let mut w = Writer::default();
        w.u8(self.device);
        w.u8(self.mode as u8);
        w.u8(u8::from(self.clean));
        w.u8(u8::from(self.armed_relaxed) | u8::from(self.armed_witness) << 1);
        self.features.iter().for_each(|&bits| w.u32(bits));
        w.u128(self.identity);
        w.u64(self.geometry.blocks);
        w.u32(self.geometry.extent_blocks);
        w.u32(self.geometry.region_blocks);
        w.u32(self.geometry.log_pages);
        self.members.iter().for_each(|&member| w.u8(member as u8));
        w.u8(0);
        w.u64(self.update);
        w.u64(self.incarnation);
        w.u64(self.log_first);
        w.u128(self.generations.current);
        w.u128(self.generations.base);
        self.generations.history.iter().for_each(|&id| w.u128(id));
        w.u64(self.run);
        for seen in &self.seen {
            w.u128(seen.identity);
            w.u64(seen.update);
            w.u64(seen.run);
        }
        let place = PageAddress { device: self.device, page };
        seal(PageKind::Superblock, self.array, place, &w.0)
    }

    /// Read the copy at `place`. The array is not known before: it is what the page says.
    ///
    /// # Errors
    /// The first thing wrong with the page.
    pub fn decode(place: PageAddress, page: &[u8]) -> Result<Superblock, Damage> {
        let (array, body) = open(PageKind::Superblock, place, page)?;
        let mut r = Reader::new(body);
        let device = r.below(DEVICES as u8, "device", "0 or 1 for a leg, 2 for the witness")?;
        let mode = match r.below(3, "mode", "0 strict, 1 log, 2 relaxed")? {
            0 => Mode::Strict,
            1 => Mode::Log,
            _ => Mode::Relaxed,
        };
        let clean = r.below(2, "clean", "0 or 1")? == 1;
        let armed = r.below(4, "armed", "two flags")?;
        let features = [r.u32("compat")?, r.u32("ro_compat")?, 0];
        let offset = r.offset();
        let incompat = r.u32("incompat")?;
        if incompat & !INCOMPAT_KNOWN != 0 {
            let expected = "no feature this version lacks: use a newer blocklab";
            return Err(Damage::Field {
                name: "incompat",
                offset,
                value: incompat.into(),
                expected,
            });
        }
        let identity = r.u128("identity")?;
        let geometry = geometry(&mut r)?;
        let mut members = [Membership::Never; DEVICES];
        for member in &mut members {
            *member = match r.below(3, "member", "0 never, 1 member, 2 out")? {
                0 => Membership::Never,
                1 => Membership::Member,
                _ => Membership::Out,
            };
        }
        r.u8("reserved")?;
        let [update, incarnation, log_first] =
            [r.u64("update")?, r.u64("incarnation")?, r.u64("log_first")?];
        let generations = generations(&mut r)?;
        let (run, seen) = if version(page) < 2 { Default::default() } else { seen(&mut r)? };
        Ok(Superblock {
            array,
            device,
            identity,
            features: [features[0], features[1], incompat],
            geometry,
            members,
            mode,
            clean,
            armed_relaxed: armed & 1 == 1,
            armed_witness: armed & 2 == 2,
            update,
            incarnation,
            log_first,
            generations,
            run,
            seen,
        })
    }
}

fn geometry(r: &mut Reader<'_>) -> Result<Geometry, Damage> {
    let at = r.offset();
    let geometry = Geometry {
        blocks: r.u64("blocks")?,
        extent_blocks: r.u32("extent_blocks")?,
        region_blocks: r.u32("region_blocks")?,
        log_pages: r.u32("log_pages")?,
    };
    let wrong = |name, offset, value, expected| {
        Err(Damage::Field { name, offset: at + offset, value, expected })
    };
    if geometry.blocks == 0 || geometry.blocks >= 1 << 48 {
        return wrong("blocks", 0, geometry.blocks, "1 to 2^48 - 1");
    }
    for (name, offset, value) in [
        ("extent_blocks", 8, geometry.extent_blocks),
        ("region_blocks", 12, geometry.region_blocks),
    ] {
        if value == 0 {
            return wrong(name, offset, 0, "at least 1");
        }
    }
    if geometry.extents() > EXTENTS_MAX {
        let expected = "at least a 2^32nd of all blocks";
        return wrong("extent_blocks", 8, geometry.extent_blocks.into(), expected);
    }
    if geometry.log_pages < 4 {
        return wrong("log_pages", 16, geometry.log_pages.into(), "at least 4");
    }
    Ok(geometry)
}

fn generations(r: &mut Reader<'_>) -> Result<Generations, Damage> {
    let mut generations = Generations {
        current: r.u128("generation")?,
        base: r.u128("base")?,
        ..Generations::default()
    };
    for id in &mut generations.history {
        *id = r.u128("history")?;
    }
    Ok(generations)
}

/// What version 2 added.
fn seen(r: &mut Reader<'_>) -> Result<(u64, [Seen; DEVICES]), Damage> {
    let run = r.u64("run")?;
    let mut all = [Seen::default(); DEVICES];
    for seen in &mut all {
        *seen = Seen {
            identity: r.u128("seen identity")?,
            update: r.u64("seen update")?,
            run: r.u64("seen run")?,
        };
    }
    Ok((run, all))
}

/// The current one of a device's copies: valid, with the greatest update number.
///
/// # Errors
/// What is wrong with each copy, when none is valid.
pub fn newest(
    copies: impl IntoIterator<Item = Result<Superblock, Damage>>,
) -> Result<Superblock, Vec<Damage>> {
    let (mut best, mut damages) = (None::<Superblock>, Vec::new());
    for copy in copies {
        match copy {
            Ok(copy) if best.as_ref().is_none_or(|best| best.update < copy.update) => {
                best = Some(copy);
            }
            Ok(_) => {}
            Err(damage) => damages.push(damage),
        }
    }
    best.ok_or(damages)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn sample() -> Superblock {
        let mut generations = Generations { current: 5, ..Generations::default() };
        generations.begin(6);
        Superblock {
            array: 0xabc,
            device: 1,
            identity: 0x1234,
            features: [0; 3],
            geometry: Geometry {
                blocks: 1 << 28,
                extent_blocks: 256,
                region_blocks: 16,
                log_pages: 65536,
            },
            update: 9,
            incarnation: 3,
            generations,
            members: [Membership::Member, Membership::Out, Membership::Never],
            mode: Mode::Relaxed,
            clean: false,
            armed_relaxed: true,
            armed_witness: false,
            log_first: 77,
            run: 12,
            seen: [4, 9, 0].map(|update| Seen { identity: update.into(), update, run: 12 }),
        }
    }

    const HERE: PageAddress = PageAddress { device: 1, page: 0 };

    #[test]
    fn what_is_written_is_read() {
        let superblock = sample();
        assert_eq!(Superblock::decode(HERE, &superblock.encode(0)[..]).unwrap(), superblock);
        assert_eq!((superblock.generations.base, superblock.generations.history[0]), (5, 5));
    }

    #[test]
    fn update_numbers_go_on_and_never_replace_the_last() {
        let seen = |update| Seen { update, ..Seen::default() };
        let next =
            [(4, 4), (4, 3), (3, 4), (2, 5), (2, 6)].map(|(last, at)| seen(at).next_update(last));
        assert_eq!(next, [5, 5, 6, 7, 7]);
    }

    #[test]
    fn nonsense_in_a_field_is_named() {
        let mut superblock = sample();
        superblock.geometry.extent_blocks = 0;
        let text = Superblock::decode(HERE, &superblock.encode(0)[..]).unwrap_err().to_string();
        assert_eq!(text, "byte 72: extent_blocks is 0, expected at least 1");
        let mut fine = sample();
        (fine.geometry.blocks, fine.geometry.extent_blocks) = (1 << 36, 16);
        assert_eq!(Superblock::decode(HERE, &fine.encode(0)[..]).unwrap(), fine);
        fine.geometry.blocks += 1;
        let text = Superblock::decode(HERE, &fine.encode(0)[..]).unwrap_err().to_string();
        assert_eq!(text, "byte 72: extent_blocks is 16, expected at least a 2^32nd of all blocks");
        let mut later = sample();
        later.features[2] = 4;
        let text = Superblock::decode(HERE, &later.encode(0)[..]).unwrap_err().to_string();
        assert!(text.contains("incompat is 4") && text.contains("newer blocklab"), "{text}");
    }

    #[test]
    fn any_one_good_copy_is_enough_and_the_newest_wins() {
        let copies: Vec<_> = (0..4).map(|n| Superblock { update: n, ..sample() }).collect();
        for rotten in 0..4 {
            let read = copies.iter().enumerate().map(|(page, copy)| {
                let mut bytes = copy.encode(page as u64);
                bytes[100] ^= u8::from(page == rotten);
                Superblock::decode(PageAddress { page: page as u64, ..HERE }, &bytes[..])
            });
            assert_eq!(newest(read).unwrap().update, if rotten == 3 { 2 } else { 3 });
        }
        let blank = (0..4).map(|page| Superblock::decode(PageAddress { page, ..HERE }, &[0; 4096]));
        assert_eq!(newest(blank).unwrap_err().len(), 4);
    }
}
