//! How a device presents itself to a host: what its part says, or what its model implies.

use sim::Limits;
use study::{Block, BuiltPart};

/// Longest model name and serial number, as the standards have them.
const MODEL_CHARACTERS_MAX: usize = 40;
const SERIAL_CHARACTERS_MAX: usize = 20;
/// Linux's sectors.
const SECTOR_BYTES: u32 = 512;
/// What a model prefers to transfer says as much about the physical block, up to here.
const PHYSICAL_BYTES_MAX: u32 = 64 << 10;

/// What a host is told about a device. Frontends pass on what their protocol has a place for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Identity {
    /// What it calls itself: at most 40 printable ASCII characters.
    pub model: String,
    /// Its serial number: at most 20 printable ASCII characters without spaces.
    pub serial: String,
    /// Linux's `rotational`.
    pub rotational: bool,
    /// Unit of addressing in bytes: a power of two from 512 on.
    pub logical_block_bytes: u32,
    /// Unit of writing without a read before it in bytes: a power of two.
    pub physical_block_bytes: u32,
    /// Longest request in bytes; `None` leaves it to the frontend.
    pub request_bytes_max: Option<u32>,
    /// Unit of discards in bytes, a power of two; of no meaning when there are none.
    pub discard_granularity_bytes: u32,
}

impl Identity {
    /// The identity of `part` under the clients' name for it.
    pub fn new(name: &str, part: &BuiltPart) -> Identity {
        let stem = std::path::Path::new(&part.part.name).file_stem();
        let stem = stem.unwrap_or_default().to_string_lossy();
        let known = if name.is_empty() { &*stem } else { name };
        let title = if part.part.title.is_empty() { &*stem } else { &part.part.title };
        Identity::of(&part.block, &part.device.limits(), title, known)
    }

    /// The same of a device that is of no part, or of what its part says.
    pub fn of(block: &Block, limits: &Limits, title: &str, name: &str) -> Identity {
        let bytes = |size: config::Size| size.0.0 as u32;
        let logical = block.logical_block.map_or(SECTOR_BYTES, bytes);
        let preferred = limits.block_bytes.next_power_of_two().clamp(logical, PHYSICAL_BYTES_MAX);
        Identity {
            model: block.model.clone().unwrap_or_else(|| {
                plain(title, ' ').chars().take(MODEL_CHARACTERS_MAX).collect::<String>()
            }),
            serial: block
                .serial
                .clone()
                .unwrap_or_else(|| plain(name, '-').chars().take(SERIAL_CHARACTERS_MAX).collect()),
            rotational: block.rotational.unwrap_or(limits.rotational),
            logical_block_bytes: logical,
            physical_block_bytes: block.physical_block.map_or(preferred, bytes),
            request_bytes_max: block.request_max.map(bytes),
            discard_granularity_bytes: block.discard_granularity.map_or(preferred, bytes),
        }
    }
}

/// `text` with everything that is not a printable ASCII character, or a space, replaced.
fn plain(text: &str, instead: char) -> String {
    text.chars().map(|c| if c.is_ascii_graphic() { c } else { instead }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_part_does_not_say_the_model_does() {
        let part = study::build_part("wd-80g-5400", &[], 1).unwrap();
        let identity = Identity::new("", &part);
        assert_eq!(identity.serial, "wd-80g-5400");
        assert_eq!(identity.model, "80 GB 2.5 inch disk, 5400 rpm, two surfa");
        assert!(identity.rotational && identity.request_bytes_max.is_none());
        assert_eq!(identity.logical_block_bytes, 512);
        assert_eq!(Identity::new("slow disk", &part).serial, "slow-disk");
    }

    #[test]
    fn what_the_part_says_holds() {
        let sets = [
            "block.serial=A1",
            "block.model=\"X 25\"",
            "block.rotational=true",
            "block.logical_block=4KiB",
            "block.physical_block=16KiB",
            "block.request_max=128KiB",
            "block.discard_granularity=1MiB",
        ];
        let part = study::build_part("mqsim-f", &sets.map(String::from), 1).unwrap();
        let expected = Identity {
            model: "X 25".into(),
            serial: "A1".into(),
            rotational: true,
            logical_block_bytes: 4096,
            physical_block_bytes: 16384,
            request_bytes_max: Some(128 << 10),
            discard_granularity_bytes: 1 << 20,
        };
        assert_eq!(Identity::new("other", &part), expected);
    }
}
