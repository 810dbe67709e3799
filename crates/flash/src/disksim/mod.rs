//! The SSD extension of DiskSim 4.0 as published rules, for comparison with its printed results.

pub mod element;
