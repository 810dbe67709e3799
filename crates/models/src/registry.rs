//! The phone book: the only place where models are listed.
//!
//! One line here gives a model its TOML name, its schema, its `blocklab explain` text, its docs
//! page and its run through the contract tests.

use sim::{Device, Workload};

use crate::config::ConfigError;
use crate::device::{
    Context, disksim_ssd, elevator, hdd, md_write_behind, mirror, null, raid1, server, ssd,
};
use crate::ftl::allocation::{self, Allocator, dynamic, static_};
use crate::ftl::gc::{self, Gc, cost_benefit, d_choices, fifo, greedy, random, windowed};
use crate::ftl::mapping::{
    self, bast, block, cdftl, dftl, fast, fdp, kast, last, leaftl, multi_stream, page, pslc,
    reconfigurable, sftl, superblock, tpftl, wadpm, zns,
};
use crate::ftl::wear::{self, Wear, none, wear_dynamic, wear_static};
use crate::trace::{
    Format, alibaba, arc, blkparse, blktrace, disksim, iolog, mqsim, msr, spc, systor, vscsi,
    wiscsee,
};
use crate::workload::replay::{Pace, back_to_back, closed_loop, timestamps};
use crate::workload::{self, bonnie, customers, fio, ie, iozone, pc, trace};

sim::registry! {
    /// A block device.
    pub enum DeviceModel("device") in "device/":
        Context => Result<Box<dyn Device>, ConfigError> = {
        Null = "null" => null,
        Ssd = "ssd" => ssd,
        Hdd = "hdd" => hdd,
        DisksimSsd = "disksim-ssd" => disksim_ssd,
        Server = "server" => server,
        Raid1 = "raid1" => raid1,
        MdWriteBehind = "md-write-behind" => md_write_behind,
        Mirror = "mirror" => mirror,
        Elevator = "elevator" => elevator,
    }
}

pub use elevators::ElevatorPolicy;

/// A module of its own: `none` is also a wear policy.
mod elevators {
    use crate::config::ConfigError;
    use crate::elevator::{
        Built, Context, anticipatory, bfq, cfq, deadline, kyber, mq_deadline, none, noop,
    };

    sim::registry! {
        /// The order in which an elevator sends requests to its device.
        pub enum ElevatorPolicy("policy") in "elevator/":
            Context => Result<Built, ConfigError> = {
            Noop = "noop" => noop,
            Deadline = "deadline" => deadline,
            Anticipatory = "anticipatory" => anticipatory,
            Cfq = "cfq" => cfq,
            None = "none" => none,
            MqDeadline = "mq-deadline" => mq_deadline,
            Kyber = "kyber" => kyber,
            Bfq = "bfq" => bfq,
        }
    }
}

sim::registry! {
    /// How an FTL finds pages.
    pub enum MappingScheme("mapping") in "ftl/mapping/":
        mapping::Context => mapping::Built = {
        Page = "page" => page,
        MultiStream = "multi-stream" => multi_stream,
        Fdp = "fdp" => fdp,
        Pslc = "pslc" => pslc,
        Zns = "zns" => zns,
        Wadpm = "wadpm" => wadpm,
        Dftl = "dftl" => dftl,
        Sftl = "sftl" => sftl,
        Cdftl = "cdftl" => cdftl,
        Tpftl = "tpftl" => tpftl,
        Leaftl = "leaftl" => leaftl,
        Block = "block" => block,
        Bast = "bast" => bast,
        Fast = "fast" => fast,
        Kast = "kast" => kast,
        Last = "last" => last,
        Superblock = "superblock" => superblock,
        Reconfigurable = "reconfigurable" => reconfigurable,
    }
}

sim::registry! {
    /// Which plane takes the next page.
    pub enum Allocation("allocation") in "ftl/allocation/":
        allocation::Context => Result<Allocator, ConfigError> = {
        Static = "static" => static_,
        Dynamic = "dynamic" => dynamic,
    }
}

sim::registry! {
    /// Which block the collector empties next.
    pub enum GcPolicy("gc") in "ftl/gc/": gc::Context => Box<dyn Gc> = {
        Greedy = "greedy" => greedy,
        Fifo = "fifo" => fifo,
        Random = "random" => random,
        DChoices = "d-choices" => d_choices,
        Windowed = "windowed" => windowed,
        CostBenefit = "cost-benefit" => cost_benefit,
    }
}

sim::registry! {
    /// How wear is levelled.
    pub enum WearPolicy("wear") in "ftl/wear/": wear::Context => Box<dyn Wear> = {
        None = "none" => none,
        Dynamic = "dynamic" => wear_dynamic,
        Static = "static" => wear_static,
    }
}

sim::registry! {
    /// Anything that issues requests.
    pub enum WorkloadModel("workload") in "workload/":
        workload::Context => Result<Box<dyn Workload + Send>, ConfigError> = {
        Bonnie = "bonnie" => bonnie,
        Customers = "customers" => customers,
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

/// A slot of the registry: one choice that TOML makes by name.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// Its name in paths such as `gc.greedy`.
    pub slot: &'static str,
    /// (name, source text) of every entry, in registry order.
    pub entries: &'static [(&'static str, &'static str)],
    /// JSON Schema of the choice, parameters included.
    pub schema: fn() -> schemars::Schema,
}

macro_rules! slots {
    ($( $model:ty ),+ $(,)?) => {
        &[ $( Slot {
            slot: <$model>::SLOT,
            entries: <$model>::ENTRIES,
            schema: || schemars::schema_for!($model),
        }, )+ ]
    };
}

/// Every slot, in the order of the documents: what `blocklab list` shows and `blocklab explain`
/// explains.
pub const SLOTS: &[Slot] = slots![
    DeviceModel,
    ElevatorPolicy,
    MappingScheme,
    Allocation,
    GcPolicy,
    WearPolicy,
    WorkloadModel,
    TraceFormat,
    Replay,
];
