//! Shares of the mapping table in percent, checked.

use config::ConfigError;

/// Any share but none.
pub(super) fn percent(key: &str, value: f64) -> Result<f64, ConfigError> {
    if value > 0.0 && value <= 100.0 {
        return Ok(value);
    }
    Err(ConfigError::new(key, format!("expected above 0 to 100, got {value}")))
}

/// One that is not above the largest of its window.
pub(super) fn up_to_max(key: &str, value: f64, max: f64) -> Result<(), ConfigError> {
    if value > 0.0 && value <= max {
        return Ok(());
    }
    Err(ConfigError::new(key, format!("expected above 0 to max ({max}), got {value}")))
}
