//! The parts an SSD is made of, below its flash translation layer.

pub mod ageing;
pub mod buffer;
pub mod controller;
pub mod counted;
pub mod event;
pub mod geometry;
pub mod host;
pub mod moved;
pub mod nand;
pub mod oracle;
pub mod pace;
pub mod plan;
pub mod throttle;
pub mod timing;
