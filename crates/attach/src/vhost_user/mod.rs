//! A block device for another process's virtual machine: vhost-user and virtio-blk.
//!
//! `message` and `block` are pure; `backend` knows the queues but no socket and no clock. The
//! frontend of that name and the travel clock share all of it.

pub mod backend;
pub mod block;
pub(crate) mod chain;
pub(crate) mod inbox;
pub mod memory;
pub mod message;
