//! Booting an image in QEMU, by counted instructions, until the kernel's init runs.

mod guest;
mod queue;
mod rom;
mod uefi;

use std::path::Path;

use attach::{KeptPages, PrivateFolder};
use config::Failure;
use workload::boot_recording::Recording;

use crate::image::{self, Firmware, Image, Recipe};
use queue::Queue;

pub use guest::Limits;

/// What one boot gave.
#[derive(Clone, Debug)]
pub struct Boot {
    /// For the workload `boot`.
    pub recording: Recording,
    /// Instructions from reset to the loader's first command; under UEFI, to where the firmware
    /// begins to read the loader.
    pub before_instructions: u64,
    /// Reads before that one.
    pub before_reads: u64,
    /// Reads after the load's end, which are not in the recording.
    pub after_reads: u64,
    /// Instructions from reset to the kernel's entry, where a shim of ours counts them.
    pub entry_instructions: Option<u64>,
    /// Instructions from reset to the first one of the init, waiting for the disk included.
    pub init_instructions: u64,
    /// Reads that waited for this machine's disk: with none it is the same again to the
    /// instruction.
    pub waits: u64,
}

impl Boot {
    /// What to say of a boot that waited for this machine.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        (self.waits > 0).then(|| {
            let waits = self.waits;
            format!("{waits} reads waited for this machine: not the same to the instruction")
        })
    }
}

/// How often a guest is booted until none of its reads waits for this machine's disk. On a busy
/// machine one or another does.
const TRIES: usize = 3;
/// With more of them, in a hundred reads, this machine has no way to answer at once.
const WAITS_PER_CENT: u64 = 20;

/// Boot `image`.
///
/// # Errors
/// When QEMU is missing, or the guest does not reach its init in time: its last lines.
pub fn boot(image: &Image, limits: Limits) -> Result<Boot, Failure> {
    let _kept = KeptPages::of(&image.path)?;
    let mut best = boot_once(image, limits)?;
    for _ in 1..TRIES {
        let reads = best.recording.reads.len() as u64;
        if best.waits == 0 || best.waits * 100 > reads * WAITS_PER_CENT {
            break;
        }
        let again = boot_once(image, limits)?;
        if again.waits < best.waits {
            best = again;
        }
    }
    Ok(best)
}

fn boot_once(image: &Image, limits: Limits) -> Result<Boot, Failure> {
    let seen = guest::run(image, limits)?;
    let own = match image.recipe.firmware {
        Firmware::Bios => rom::INSTRUCTIONS,
        // Those of the starter are not known to the instruction.
        Firmware::Uefi => 0,
    };
    let queue = Queue::parse(&seen.trace, own)?;
    let marks = Marks::parse(&seen.console)?;
    let start = marks
        .init
        .checked_sub(queue.end_instructions)
        .ok_or_else(|| Failure::bug(format!("init ran at {}, before it was loaded", marks.init)))?;
    Ok(Boot {
        before_instructions: queue.begin_instructions,
        before_reads: queue.before_reads,
        after_reads: queue.after_reads,
        entry_instructions: marks.entry,
        init_instructions: marks.init,
        waits: queue.waits,
        recording: Recording {
            kernel: image.kernel.clone(),
            variant: image.recipe.name(),
            file_bytes: image.file_bytes,
            reads: queue.reads,
            last_instructions: queue.last_instructions,
            start_instructions: start,
        },
    })
}

/// Boot `kernel` stored as `recipe` says, from an image that is made for it and removed.
///
/// # Errors
/// Those of [`image::make`] and [`boot`].
pub fn boot_recipe(kernel: &Path, recipe: &Recipe, limits: Limits) -> Result<Boot, Failure> {
    let folder = PrivateFolder::for_large_files()?;
    boot(&image::make(kernel, recipe, &folder.path.join("disk"))?, limits)
}

/// What the guest's code of ours wrote to the debug console: a letter and a count each.
#[derive(PartialEq, Eq, Debug)]
struct Marks {
    entry: Option<u64>,
    init: u64,
}

impl Marks {
    fn parse(console: &[u8]) -> Result<Marks, Failure> {
        let (mut entry, mut init) = (None, None);
        let mut rest = console;
        while let Some((letter, after)) = rest.split_first() {
            let count = after.first_chunk().map(|bytes: &[u8; 8]| u64::from_le_bytes(*bytes));
            match (letter, count) {
                (b'K', Some(count)) => entry = Some(count),
                (b'U', Some(count)) => init = Some(count),
                // SeaBIOS writes its messages there, too.
                _ => {
                    rest = after;
                    continue;
                }
            }
            rest = &after[8..];
        }
        let init = init.ok_or_else(|| Failure::machine("the guest's init said nothing"))?;
        Ok(Marks { entry, init })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_found_among_messages() {
        let mut console = b"ok\n".to_vec();
        console.push(b'K');
        console.extend(667_300_000u64.to_le_bytes());
        console.push(b'U');
        console.extend(2_240_000_000u64.to_le_bytes());
        let marks = Marks::parse(&console).unwrap();
        assert_eq!(marks, Marks { entry: Some(667_300_000), init: 2_240_000_000 });
        assert!(Marks::parse(&console[..16]).is_err());
        assert!(Marks::parse(b"U123").is_err());
    }
}
