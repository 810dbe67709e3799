//! What people write and what they are told about it: quantities with units, the parameters of
//! models, and errors.
//!
//! An error is born as a [`ConfigError`], which names a key of the thing being built. Whoever knows
//! the file makes it a [`Failure`], the one error people see.

pub mod bounded;
pub mod device;
mod error;
mod failure;
pub mod names;
pub mod parameters;
mod quantity;
mod told;

pub use error::{ConfigError, check_share};
pub use failure::{Cause, Failure, FilePlace, Kind};
pub use quantity::{Duration, Rate, Size};
pub use told::{printable, quoted, say, unwritten, warn};
