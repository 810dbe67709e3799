//! Snapshot boot, as far as it needs no machine: what an image looks like on a device, where its
//! pages go, and what the processor is told before the jump. Its shells are the suspend tool in
//! `guest` and the loader in `boot/loader`.
#![no_std]
