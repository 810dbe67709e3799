//! The SSD model against what can be computed without it: write amplification and timing.

mod drive;
mod theory;
mod timing;
mod waf;
