//! The phone book: the only place where models are listed.
//!
//! One line here gives a model its TOML name, its schema, its `blocklab explain` text, its docs
//! page and its run through the contract tests.

use sim::{Device, Workload};

use crate::config::ConfigError;
use crate::device::{Context, null};
use crate::trace::{
    Format, alibaba, arc, blkparse, blktrace, disksim, iolog, mqsim, msr, spc, systor, vscsi,
    wiscsee,
};
use crate::workload::replay::{Pace, back_to_back, closed_loop, timestamps};
use crate::workload::{self, bonnie, fio, ie, iozone, pc, trace};

sim::registry! {
    /// A block device.
    pub enum DeviceModel("device") in "device/":
        Context => Result<Box<dyn Device>, ConfigError> = {
        Null = "null" => null,
    }
}

sim::registry! {
    /// Anything that issues requests.
    pub enum WorkloadModel("workload") in "workload/":
        workload::Context => Result<Box<dyn Workload + Send>, ConfigError> = {
        Bonnie = "bonnie" => bonnie,
        Fio = "fio" => fio,
        Ie = "ie" => ie,
        Iozone = "iozone" => iozone,
        Pc = "pc" => pc,
        Trace = "trace" => trace,
    }
}

sim::registry! {
    /// A trace format. Of formats that recognise a trace with equal certainty, the first wins.
    pub enum TraceFormat("trace") in "trace/":
        crate::trace::Context => Box<dyn Format> = {
        Blkparse = "blkparse" => blkparse,
        Blktrace = "blktrace" => blktrace,
        Iolog = "iolog" => iolog,
        Msr = "msr" => msr,
        Spc = "spc" => spc,
        Disksim = "disksim" => disksim,
        Mqsim = "mqsim" => mqsim,
        Systor = "systor" => systor,
        Alibaba = "alibaba" => alibaba,
        Vscsi = "vscsi" => vscsi,
        Arc = "arc" => arc,
        Wiscsee = "wiscsee" => wiscsee,
    }
}

sim::registry! {
    /// When a replayed trace issues its next request.
    pub enum Replay("replay") in "workload/replay/": () => Result<Box<dyn Pace>, ConfigError> = {
        Timestamps = "timestamps" => timestamps,
        ClosedLoop = "closed-loop" => closed_loop,
        BackToBack = "back-to-back" => back_to_back,
    }
}
