//! What a part tells Linux's block layer about itself, beside what its model decides.

use config::{ConfigError, Size};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sim::{Bytes, SECTOR_BYTES};

/// The table `[block]` of a part: how the drive presents itself to a host. No time depends on it.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Block {
    /// What it calls itself, at most 40 printable ASCII characters. Default: the part's title.
    pub model: Option<String>,
    /// Its serial number, at most 20 printable ASCII characters without spaces. Default: the
    /// export's name, or else the part's.
    pub serial: Option<String>,
    /// Linux's `rotational`. Default: what the model is.
    pub rotational: Option<bool>,
    /// Unit of addressing: 512 B to 4 KiB. Default: 512 B.
    pub logical_block: Option<Size>,
    /// Unit of writing without a read before it. Default: the model's preferred transfer.
    pub physical_block: Option<Size>,
    /// Longest request the host may send. Default: what the frontend can carry.
    pub request_max: Option<Size>,
    /// Unit in which discards are worth while. Default: the model's preferred transfer.
    pub discard_granularity: Option<Size>,
}

/// Longest model name (NVMe and ATA) and serial number (virtio-blk, NVMe and ATA).
const MODEL_CHARACTERS_MAX: usize = 40;
const SERIAL_CHARACTERS_MAX: usize = 20;
/// The table of a part that it is.
pub(crate) const BLOCK: &str = "block";
/// A page: no block device of Linux addresses in larger units without further options.
const LOGICAL_BYTES_MAX: u64 = 4096;
const PHYSICAL_BYTES_MAX: u64 = 1 << 20;
const REQUEST_BYTES_MAX: u64 = 32 << 20;

impl Block {
    /// Is it something that a device of `capacity` can say?
    pub(crate) fn check(&self, capacity: Bytes) -> Result<(), ConfigError> {
        text("model", self.model.as_deref(), MODEL_CHARACTERS_MAX, b' ')?;
        text("serial", self.serial.as_deref(), SERIAL_CHARACTERS_MAX, b'!')?;
        let logical = self.logical_block.map_or(SECTOR_BYTES, |size| size.0.0);
        power_of_two("logical_block", self.logical_block, SECTOR_BYTES, LOGICAL_BYTES_MAX)?;
        power_of_two("physical_block", self.physical_block, logical, PHYSICAL_BYTES_MAX)?;
        power_of_two("discard_granularity", self.discard_granularity, logical, 1 << 30)?;
        if !capacity.0.is_multiple_of(logical) {
            let what = format!("the device's {} bytes are no multiple of {logical}", capacity.0);
            return Err(ConfigError::new("logical_block", what));
        }
        let fits = |size: Size| {
            size.0.0 >= LOGICAL_BYTES_MAX
                && size.0.0 <= REQUEST_BYTES_MAX
                && size.0.0.is_multiple_of(LOGICAL_BYTES_MAX)
        };
        match self.request_max {
            Some(size) if !fits(size) => {
                let what = format!("{}; expected a multiple of 4KiB, up to 32MiB", size.0);
                Err(ConfigError::new("request_max", what))
            }
            _ => Ok(()),
        }
    }
}

fn text(key: &str, value: Option<&str>, most: usize, from: u8) -> Result<(), ConfigError> {
    let Some(value) = value else { return Ok(()) };
    let printable = value.bytes().all(|byte| (from..=b'~').contains(&byte));
    if printable && !value.trim().is_empty() && value.len() <= most {
        return Ok(());
    }
    let spaces = if from == b' ' { "" } else { ", without spaces" };
    let what = format!("`{value}`; expected 1 to {most} printable ASCII characters{spaces}");
    Err(ConfigError::new(key, what))
}

fn power_of_two(key: &str, size: Option<Size>, least: u64, most: u64) -> Result<(), ConfigError> {
    let Some(Size(size)) = size else { return Ok(()) };
    if size.0.is_power_of_two() && (least..=most).contains(&size.0) {
        return Ok(());
    }
    let what = format!("{size}; expected a power of two from {} to {}", Bytes(least), Bytes(most));
    Err(ConfigError::new(key, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        let block: Block = toml::from_str(text).unwrap();
        let error = block.check(Bytes::from_mib(1));
        error.map_or_else(|error| error.to_string(), |()| "accepted".into())
    }

    #[test]
    fn a_drive_may_say_what_linux_can_take() {
        for good in
            ["", "serial = \"WD-1\"", "logical_block = \"4KiB\"", "request_max = \"127KiB\""]
        {
            let expected = if good.contains("127") { "request_max: " } else { "accepted" };
            assert!(refused(good).starts_with(expected), "{good}: {}", refused(good));
        }
        for (bad, key) in [
            ("serial = \"two words\"", "serial: "),
            ("serial = \"123456789012345678901\"", "serial: "),
            ("model = \"\"", "model: "),
            ("logical_block = \"8KiB\"", "logical_block: "),
            ("logical_block = \"4KiB\"\nphysical_block = \"512B\"", "physical_block: "),
            ("discard_granularity = \"3KiB\"", "discard_granularity: "),
        ] {
            assert!(refused(bad).starts_with(key), "{bad}: {}", refused(bad));
        }
        let odd = Block { logical_block: Some(Size(Bytes(4096))), ..Block::default() };
        assert!(odd.check(Bytes(512)).is_err());
        assert!(toml::from_str::<Block>("serail = \"x\"").is_err());
    }
}
