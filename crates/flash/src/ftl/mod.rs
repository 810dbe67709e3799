//! Flash translation layers: mapping logic only, no clock.
//!
//! A [`mapping`] decides which page holds which logical page, the [`collector`] frees blocks with
//! the help of a [`gc`] policy and a [`wear`] policy, [`allocation`] chooses planes, and
//! [`flash`] keeps the books of what is written where. All of them only emit plans.

pub mod allocation;
pub mod collector;
pub mod flash;
pub mod gc;
pub mod mapping;
pub mod wear;
