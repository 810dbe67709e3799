//! Small drives without time for exact costs and closed forms.

use config::device::Context;
use sim::{Completions, Counters, Device, Lba, Nanos, Request, Rng};

use crate::device::ssd::Params;

/// A drive and what it counted.
pub(crate) struct Drive {
    device: Box<dyn Device>,
    sectors: u64,
    now: Nanos,
}

/// What was counted during a part of a run.
pub(crate) struct Counted(Counters);

impl Counted {
    pub(crate) fn get(&self, name: &str) -> u64 {
        self.0.get(name)
    }
    /// The most logical blocks merged for one log block since the drive was built.
    pub(crate) fn associativity_max(&self) -> u64 {
        level(&self.0, "log_associativity_max")
    }
    pub(crate) fn copies(&self) -> u64 {
        self.get("flash_programs.merge")
    }
    pub(crate) fn erases(&self) -> u64 {
        self.get("flash_erases.merge")
    }
    /// Switch, partial and full merges.
    pub(crate) fn merges(&self) -> [u64; 3] {
        ["switch", "partial", "full"].map(|kind| self.get(&format!("merges.{kind}")))
    }
}

fn level(counters: &Counters, name: &str) -> u64 {
    counters.levels.iter().find(|(n, _)| n == name).expect("the drive has that level").1
}

fn params(text: &str) -> Params {
    toml::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

impl Drive {
    /// The drive that a text describes.
    pub(crate) fn build(text: &str) -> Drive {
        let context = Context { rng: Rng::new(1, "drive") };
        let device = params(text).build(&context).unwrap_or_else(|error| panic!("{text}: {error}"));
        let sectors = u64::from(device.limits().block_bytes) / 512;
        Drive { device, sectors, now: Nanos::ZERO }
    }

    /// `data` logical blocks of `b` pages on one plane of `blocks` blocks.
    pub(crate) fn one_plane(mapping: &str, data: u32, b: u32, blocks: u32) -> Drive {
        Drive::planes(1, mapping, data, b, blocks)
    }

    /// `data` logical blocks on `planes` planes of `blocks` blocks each.
    pub(crate) fn planes(planes: u32, mapping: &str, data: u32, b: u32, blocks: u32) -> Drive {
        Drive::with_timing("none", planes, mapping, data, b, blocks)
    }

    /// Like [`Drive::one_plane`], but with time: 25 us to read, 200 us to program, 2 ms to erase.
    pub(crate) fn timed(mapping: &str, data: u32, b: u32, blocks: u32) -> Drive {
        let mapping = format!("{mapping}\nnand.erase = '2ms'");
        Drive::with_timing("event", 1, &mapping, data, b, blocks)
    }

    fn with_timing(
        timing: &str,
        planes: u32,
        mapping: &str,
        data: u32,
        b: u32,
        blocks: u32,
    ) -> Drive {
        let capacity = data * b * 512;
        let oracle = capacity < 1 << 20;
        Drive::build(&format!(
            "{mapping}\ntiming = '{timing}'\noracle = {oracle}\n\
             over_provisioning.capacity = '{capacity}B'\ncollection.separate = false\n\
             [geometry]\nchannels = {planes}\npackages_per_channel = 1\ndies_per_package = 1\n\
             planes_per_die = 1\nblocks_per_plane = {blocks}\npages_per_block = {b}\n\
             page = '512B'\n"
        ))
    }

    /// The drive of the paper, 85 % of it logical.
    pub(crate) fn paper(mapping: &str) -> Drive {
        Drive::build(mapping)
    }

    /// What is said when the paper's drive cannot be built.
    pub(crate) fn refused(mapping: &str) -> String {
        let context = Context { rng: Rng::new(1, "drive") };
        match params(mapping).build(&context) {
            Ok(_) => panic!("{mapping} was accepted"),
            Err(error) => error.to_string(),
        }
    }

    pub(crate) fn pages(&self) -> u64 {
        self.device.limits().sectors() / self.sectors
    }

    /// Write every page in order.
    pub(crate) fn fill(&mut self) {
        (0..self.pages()).for_each(|lpn| self.write(lpn));
    }

    pub(crate) fn write(&mut self, lpn: u64) {
        let request = Request::write(Lba(lpn * self.sectors), self.sectors as u32);
        self.device.apply(&request);
    }

    /// Write the first `sectors` sectors of a page.
    pub(crate) fn write_part(&mut self, lpn: u64, sectors: u32) {
        self.serve(Request::write(Lba(lpn * self.sectors), sectors));
    }

    /// Do a request, and wait until nothing is left to do.
    fn serve(&mut self, request: Request) {
        self.device.submit(self.now, request).expect("the drive is idle");
        let mut out = Completions::new();
        self.device.advance(self.now, &mut out);
        while let Some(next) = self.device.next_event() {
            self.now = next;
            self.device.advance(next, &mut out);
        }
    }

    /// Read a page.
    pub(crate) fn read(&mut self, lpn: u64) {
        let request = Request::read(Lba(lpn * self.sectors), self.sectors as u32);
        self.serve(request);
    }

    /// Discard every page.
    pub(crate) fn discard_all(&mut self) {
        let sectors = self.device.limits().sectors();
        self.device.apply(&Request::discard(Lba(0), sectors as u32));
    }

    /// Write `pages` pages from `lpn` on with one request.
    pub(crate) fn write_run(&mut self, lpn: u64, pages: u64) {
        let lba = Lba(lpn * self.sectors);
        self.device.apply(&Request::write(lba, (pages * self.sectors) as u32));
    }

    /// Write a page, wait until nothing is left to do, and
    /// give the latency.
    pub(crate) fn timed_write(&mut self, lpn: u64) -> Nanos {
        let lba = Lba(lpn * self.sectors);
        let request = Request::write(lba, self.sectors as u32);
        self.device.submit(self.now, request).expect("the drive is idle");
        let mut out = Completions::new();
        let (issued, mut ended) = (self.now, None);
        while let Some(next) = self.device.next_event() {
            self.now = next;
            self.device.advance(next, &mut out);
            ended = ended.or(out.done.first().map(|_| next));
        }
        ended.expect("the write ends").since(issued)
    }

    pub(crate) fn ram(&self) -> u64 {
        level(&self.counters(), "map_ram_bytes")
    }

    pub(crate) fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        self.device.counters(&mut counters);
        counters
    }

    pub(crate) fn counted(&mut self, run: impl FnOnce(&mut Drive)) -> Counted {
        let before = self.counters();
        run(self);
        Counted(self.counters().since(&before))
    }
}

/// Write amplification of uniform single-page overwrites of a full drive: counted over the latter
/// half of so many. Pages `skip` does not want are not written.
pub(crate) fn uniform_overwrites(
    mut drive: Drive,
    overwrites: u64,
    skip: impl Fn(u64) -> bool,
) -> f64 {
    let pages = drive.pages();
    let mut rng = Rng::new(7, "uniform");
    drive.fill();
    let mut overwrite = |drive: &mut Drive, count: u64| {
        for _ in 0..count {
            let lpn = rng.below(pages);
            if !skip(lpn) {
                drive.write(lpn);
            }
        }
    };
    overwrite(&mut drive, overwrites / 2);
    let counted = drive.counted(|drive| overwrite(drive, overwrites / 2));
    1.0 + counted.copies() as f64 / counted.get("flash_programs.host") as f64
}

/// Overwriting 64 logical blocks of four planes in order turns log blocks into data blocks and
/// copies nothing.
pub(crate) fn assert_order_switches_only(mapping: &str, blocks: u32) {
    let mut drive = Drive::planes(4, mapping, 64, 8, blocks);
    drive.fill();
    drive.fill();
    let counted = drive.counted(Drive::fill);
    assert_eq!(counted.merges(), [64, 0, 0], "{mapping}");
    assert_eq!((counted.copies(), counted.erases()), (0, 64), "{mapping}");
}

mod tests {
    use super::*;

    #[test]
    fn a_drive_that_was_discarded_is_written_as_a_new_one() {
        for mapping in [
            "mapping = 'block'",
            "mapping.block.variant = 'nftl-1'",
            "mapping.block.variant.nftl-n.replacements = 2",
            "mapping.bast.log_blocks = 8",
            "mapping.fast.log_blocks = 8",
            "mapping.fast = { scope = 'naive_global', log_blocks = 8 }",
            "mapping.kast.log_blocks = 8",
            "mapping.last.log_blocks = 12",
            "mapping.reconfigurable = { group_blocks = 4, group_logs = 2, log_blocks = 8 }",
        ] {
            let mut drive = Drive::planes(4, mapping, 64, 8, 32);
            drive.fill();
            drive.discard_all();
            let counted = drive.counted(Drive::fill);
            let updates = (counted.get("update_pure"), counted.get("update_wasted"));
            assert_eq!((counted.get("write_data"), updates), (64 * 8, (0, 0)), "{mapping}");
            assert_eq!((counted.copies(), counted.merges()), (0, [0, 0, 0]), "{mapping}");
        }
    }
}
