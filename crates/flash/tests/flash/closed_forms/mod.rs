//! The SSD model against what can be computed without it: write amplification and timing.

mod buffered;
mod counted;
mod drive;
mod rest;
mod theory;
mod timing;
mod waf;
