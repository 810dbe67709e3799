//! Errors that name the key.

use std::fmt;

/// A configuration that cannot be built: which key, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConfigError {
    /// Dotted path of the offending key below the thing being built, such as
    /// `geometry.planes_per_die`; empty when no single key is to blame.
    pub key: String,
    /// What is wrong, what was expected, and what to do.
    pub message: String,
}

impl ConfigError {
    /// An error about `key`.
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> ConfigError {
        ConfigError { key: key.into(), message: message.into() }
    }

    /// The same error seen from one table further out.
    #[must_use]
    pub fn within(mut self, table: &str) -> ConfigError {
        self.key = if self.key.is_empty() { table.into() } else { format!("{table}.{}", self.key) };
        self
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key.is_empty() {
            return f.write_str(&self.message);
        }
        write!(f, "{}: {}", self.key, self.message)
    }
}

impl std::error::Error for ConfigError {}

/// A probability in configuration.
///
/// # Errors
/// Names the key when it is not from 0 to 1.
pub fn check_share(key: &str, share: f64) -> Result<(), ConfigError> {
    if (0.0..=1.0).contains(&share) {
        return Ok(());
    }
    Err(ConfigError::new(key, format!("expected a share from 0 to 1, got {share}")))
}
