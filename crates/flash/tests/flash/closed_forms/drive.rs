//! Drives for comparison with closed forms, and random writes to them.

use sim::{Counters, Device, Lba, Request, Rng};

/// Build a device from TOML.
pub(crate) fn build(text: &str) -> Box<dyn Device> {
    crate::support::build(text, "device")
}

/// Counters of a device so far.
pub(crate) fn counters(device: &dyn Device) -> Counters {
    let mut counters = Counters::default();
    device.counters(&mut counters);
    counters
}

/// A share `space` of the pages gets a share `writes` of the writes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HotCold {
    pub(crate) space: f64,
    pub(crate) writes: f64,
}

/// An experiment in write amplification: one plane, one open block shared by host and moved
/// pages, no time.
#[derive(Clone, Debug)]
pub(crate) struct Waf<'a> {
    /// TOML of the victim policy, such as `gc = 'greedy'`.
    pub(crate) gc: &'a str,
    /// Live pages over pages in sealed blocks.
    pub(crate) rho: f64,
    /// Sealed blocks at the moment a victim is chosen.
    pub(crate) blocks: u32,
    /// Pages per block.
    pub(crate) pages: u32,
    /// Uniform when absent.
    pub(crate) hot: Option<HotCold>,
    /// Host writes before and while counting, in multiples of the logical space.
    pub(crate) rounds: (u64, u64),
}

impl Waf<'_> {
    /// The drive. When a victim is chosen one block is the free reserve and one has just been
    /// opened for the write that found the plane low, so `blocks` sealed blocks need two more.
    pub(crate) fn drive(&self) -> Box<dyn Device> {
        let live = self.live();
        build(&format!(
            "[ssd]\ntiming = 'none'\n{}\nover_provisioning = {{ capacity = '{}B' }}\n\
             collection = {{ start_free_percent = 0, separate = false }}\n[ssd.geometry]\n\
             channels = 1\npackages_per_channel = 1\ndies_per_package = 1\nplanes_per_die = 1\n\
             blocks_per_plane = {}\npages_per_block = {}\npage = '512B'\n",
            self.gc,
            live * 512,
            self.blocks + 2,
            self.pages,
        ))
    }

    fn live(&self) -> u64 {
        (self.rho * f64::from(self.blocks) * f64::from(self.pages)).round() as u64
    }

    fn page(&self, rng: &mut Rng, live: u64) -> u64 {
        let Some(HotCold { space, writes }) = self.hot else { return rng.below(live) };
        let hot = (space * live as f64).round() as u64;
        if rng.chance(writes) { rng.below(hot) } else { hot + rng.below(live - hot) }
    }

    /// Write amplification in steady state.
    pub(crate) fn run(&self, seed: u64) -> f64 {
        let (mut device, live) = (self.drive(), self.live());
        let mut rng = Rng::new(seed, "waf");
        device.apply(&Request::write(Lba(0), live as u32));
        let mut write = |device: &mut dyn Device, rounds: u64| {
            for _ in 0..rounds * live {
                device.apply(&Request::write(Lba(self.page(&mut rng, live)), 1));
            }
        };
        write(&mut *device, self.rounds.0);
        let before = counters(&*device);
        write(&mut *device, self.rounds.1);
        let counted = counters(&*device).since(&before);
        let (host, moved) = (counted.get("flash_programs.host"), counted.get("flash_programs.gc"));
        assert_eq!(host, self.rounds.1 * live, "every host write is one program");
        (host + moved) as f64 / host as f64
    }
}
