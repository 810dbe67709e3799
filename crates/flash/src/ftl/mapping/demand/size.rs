//! How much RAM a cache of table entries has.

use std::fmt;

use config::{ConfigError, Size};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ftl::mapping::{Context, bits};

/// RAM for cached table entries: a size such as `"64KiB"`, or a share of what a complete page map
/// needs such as `"10%"`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct CacheSize(pub String);

impl Default for CacheSize {
    fn default() -> CacheSize {
        CacheSize("10%".into())
    }
}

impl fmt::Display for CacheSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl CacheSize {
    /// Bytes on that drive; at least `least`, which `what` needs.
    ///
    /// # Errors
    /// When the text is neither a size nor a share, or too little.
    pub fn bytes(&self, context: &Context, least: u64, what: &str) -> Result<u64, ConfigError> {
        let entry = u64::from(bits(context.geometry.pages()));
        let table = (u64::from(context.logical_pages) * entry).div_ceil(8);
        let wrong = |message: String| ConfigError::new("cache", message);
        let bytes = match self.0.trim().strip_suffix('%') {
            None => Size::parse(&self.0).map(|size| size.0.0).map_err(|error| {
                wrong(format!("{error}; a share of a page map's RAM, such as \"10%\", will do too"))
            })?,
            Some(number) => {
                let percent = number.trim().parse::<f64>().ok();
                let percent = percent.filter(|p| (0.0..=1000.0).contains(p)).ok_or_else(|| {
                    wrong(format!("expected 0% to 1000% or a size, got \"{}\"", self.0))
                })?;
                (table as f64 * percent / 100.0) as u64
            }
        };
        if bytes < least {
            let percent = (least as f64 * 1e5 / table as f64).ceil() / 1e3;
            return Err(wrong(format!(
                "\"{}\" is {bytes} bytes of the {table} of a page map: expected at least {least} \
                 bytes (\"{percent}%\"), {what}",
                self.0
            )));
        }
        Ok(bytes)
    }
}
