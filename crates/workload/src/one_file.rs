//! Where the one file of a benchmark lies.

use config::ConfigError;
use sim::{Bytes, SECTOR_BYTES};

use crate::Context;

/// First sector of a file from the share `start` of the device on, at a multiple of `step` sectors;
/// given are the sectors of the file and of what lies behind it.
///
/// # Errors
/// When they do not fit the device.
pub(crate) fn first_sector(
    context: &Context,
    start: f64,
    step: u64,
    (file, behind): (u64, u64),
) -> Result<u64, ConfigError> {
    let device = context.limits.sectors();
    let first = (device as f64 * start) as u64 / step * step;
    if first + file + behind <= device {
        return Ok(first);
    }
    let message = format!(
        "a file of {} from {} on does not fit the device of {}: lower total or start",
        Bytes(file * SECTOR_BYTES),
        Bytes(first * SECTOR_BYTES),
        context.limits.capacity
    );
    Err(ConfigError::new("total", message))
}
