//! Closed forms and exact costs of the demand-loaded mappings.

use std::collections::BTreeMap;

use config::device::Context;
use sim::{Completions, Counters, Device, Lba, Nanos, Request, Rng};

use crate::device::ssd::Params;

/// Sectors of the pages of these drives: 2 KiB, or 512 entries of 4 bytes.
const SECTORS: u64 = 4;

/// A filled drive with `logical` logical pages on 4 planes, and so many times the flash.
pub(super) struct Drive {
    device: Box<dyn Device>,
    logical: u64,
    now: Nanos,
    before: Counters,
}

impl Drive {
    pub(super) fn new(mapping: &str, logical: u64, times: u64) -> Drive {
        let text = format!(
            "{mapping}\n[over_provisioning]\nlive_percent = {}\n[geometry]\nchannels = 2\n\
             packages_per_channel = 1\ndies_per_package = 1\nplanes_per_die = 2\n\
             blocks_per_plane = {}\npages_per_block = 64\npage = '2KiB'\n",
            100.0 / times as f64,
            logical * times / 256,
        );
        let table: BTreeMap<String, toml::Value> = toml::from_str(&text).expect("TOML");
        let params = toml::Value::try_from(table).expect("a table").try_into::<Params>();
        let context = Context { rng: Rng::new(1, "closed form") };
        let params = params.unwrap_or_else(|error| panic!("{text}: {error}"));
        let mut device = params.build(&context).unwrap_or_else(|error| panic!("{text}: {error}"));
        let capacity = device.limits().sectors() / SECTORS;
        assert_eq!(capacity, logical, "{text}");
        device.apply(&Request::write(Lba(0), (capacity * SECTORS) as u32));
        Drive { device, logical, now: Nanos::ZERO, before: Counters::default() }
    }

    /// Serve one request of whole pages alone.
    pub(super) fn serve(&mut self, page: u64, pages: u64, write: bool) {
        let (lba, sectors) = (Lba(page * SECTORS), (pages * SECTORS) as u32);
        let request =
            if write { Request::write(lba, sectors) } else { Request::read(lba, sectors) };
        self.device.submit(self.now, request).expect("the drive is idle");
        let mut out = Completions::new();
        while out.done.is_empty() {
            self.now = self.device.next_event().expect("a request is inside");
            self.device.advance(self.now, &mut out);
        }
    }

    /// Uniform single-page requests, that share of them writes.
    pub(super) fn uniform(&mut self, rng: &mut Rng, requests: u64, write_percent: u64) {
        for _ in 0..requests {
            let write = rng.below(100) < write_percent;
            self.serve(rng.below(self.logical), 1, write);
        }
    }

    /// Discard every page.
    pub(super) fn discard_all(&mut self) {
        self.device.apply(&Request::discard(Lba(0), (self.logical * SECTORS) as u32));
    }

    /// Count from here.
    pub(super) fn mark(&mut self) {
        self.before = Counters::default();
        self.device.counters(&mut self.before);
    }

    /// What was counted since the mark.
    pub(super) fn count(&self, name: &str) -> f64 {
        let mut now = Counters::default();
        self.device.counters(&mut now);
        (now.get(name) - self.before.get(name)) as f64
    }

    /// RAM of the mapping at present.
    pub(super) fn ram(&self) -> u64 {
        let mut now = Counters::default();
        self.device.counters(&mut now);
        now.levels.iter().find(|(name, _)| name == "map_ram_bytes").expect("every drive has it").1
    }
}

pub(super) fn assert_near(what: &str, measured: f64, expected: f64, tolerance: f64) {
    let error = (measured / expected - 1.0).abs();
    assert!(error <= tolerance, "{what}: {measured:.4}, expected {expected:.4}");
}

/// The table of f = M / (M / w + C) for a plain LRU; M and C are an eighth of the specification's.
/// With a protected half, uniform accesses only ever throw out of the other.
#[test]
fn dftl_hits_and_writes_map_pages_as_often_as_its_equations_say() {
    for (m, c, write_percent, protected) in [
        (64, 1024, 100, 0),
        (64, 256, 100, 0),
        (64, 64, 100, 0),
        (256, 1024, 100, 0),
        (64, 256, 50, 0),
        (64, 1024, 100, 50),
    ] {
        let mapping =
            format!("mapping.dftl = {{ cache = '{}B', protected_percent = {protected} }}", 8 * c);
        let mut drive = Drive::new(&mapping, m * 512, 10);
        let mut rng = Rng::new(3, "dftl");
        drive.uniform(&mut rng, 20 * c, write_percent);
        drive.mark();
        drive.uniform(&mut rng, 100_000, write_percent);
        let what = format!("M = {m}, C = {c}, {write_percent} % writes, {protected} % protected");
        let misses = drive.count("map_lookups") - drive.count("map_hits");
        let (m, c, w) = (m as f64, c as f64, write_percent as f64 / 100.0);
        let hits = 1e5 * c / (m * 512.0);
        let noise = 3.0 / hits.sqrt();
        assert_near(&format!("{what}: hits"), drive.count("map_hits"), hits, noise.max(0.03));
        let f = drive.count("flash_programs.map") / misses;
        let unprotected = c * (100 - protected) as f64 / 100.0;
        assert_near(&format!("{what}: f"), f, m / (m / w + unprotected), 0.03);
        assert_eq!(drive.count("flash_reads.map"), misses + drive.count("flash_programs.map"));
        assert_eq!(drive.count("flash_programs.gc"), 0.0, "{what}: nothing was collected");
    }
}

/// `RAM = 8 C + M x bits(pages)`: here 128 entries and 64 pages of 17-bit PPNs.
#[test]
fn dftl_counts_its_ram() {
    let mut drive = Drive::new("mapping.dftl.cache = '1KiB'", 32_768, 4);
    assert_eq!(drive.ram(), 64 * 17 / 8);
    (0..500).for_each(|page| drive.serve(page * 7, 1, page % 2 == 0));
    assert_eq!(drive.ram(), 8 * 128 + 64 * 17 / 8);
}

/// Changed entries of one map page go to flash together; reused ones survive a scan.
#[test]
fn dftl_batches_and_keeps_what_is_used_again() {
    let mut drive = Drive::new("mapping.dftl.cache = '64B'", 32_768, 4);
    drive.mark();
    (0..8).for_each(|page| drive.serve(page, 1, true));
    assert_eq!(drive.count("flash_reads.map"), 8.0);
    // The first eviction cleans all eight; the other seven are free.
    (0..8).for_each(|page| drive.serve(1024 + page, 1, false));
    assert_eq!(drive.count("flash_programs.map"), 1.0);
    assert_eq!(drive.count("flash_reads.map"), 8.0 + 8.0 + 1.0);
    // Used twice: page 1024 is protected while a scan goes by.
    drive.serve(1024, 1, false);
    (0..100).for_each(|page| drive.serve(4096 + page, 1, false));
    drive.mark();
    drive.serve(1024, 1, false);
    assert_eq!(drive.count("map_hits"), 1.0);
}
