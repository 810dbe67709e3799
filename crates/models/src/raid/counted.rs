//! What mirrors count, and which metrics follow.

use sim::metric::{Counted, Counter, Formula, Metric};

const MIB: u64 = 1 << 20;

/// What any mirror counts: data with one copy only.
pub(crate) static EXPOSURE: Counted = Counted {
    counters: &[
        Counter::new("exposed_bytes", "bytes", "bytes acknowledged that one leg does not hold yet"),
        Counter::new("exposed_bytes_max", "bytes", "the same, most at any time so far"),
    ],
    metrics: &[
        Metric {
            name: "exposed_mib_mean",
            unit: "MiB",
            meaning: "acknowledged by a mirror with one copy only, mean over the measured time",
            formula: Formula::Mean("exposed_bytes", MIB),
        },
        Metric {
            name: "exposed_mib_max",
            unit: "MiB",
            meaning: "the same, most at any time since the device was new",
            formula: Formula::Last("exposed_bytes_max", MIB),
        },
    ],
};

/// What md counts besides.
pub(crate) static MD: Counted = Counted {
    counters: &[
        Counter::new("behind_synchronous", "requests", "writes that waited for both legs"),
        Counter::new("behind_overlaps", "requests", "writes that waited for one behind them"),
        Counter::new("flushes_exposed", "requests", "flushes answered while a leg lacked data"),
        Counter::new(
            "slower_first_milli",
            "1/1000",
            "largest ratio of a write's time on the first leg to that on the second",
        ),
        Counter::new(
            "slower_second_milli",
            "1/1000",
            "largest ratio of a write's time on the second leg to that on the first",
        ),
        Counter::new("behind_max", "requests", "most writes behind at once"),
        Counter::new(
            "flushed_exposed_bytes_max",
            "bytes",
            "most that a flush covered on one leg only",
        ),
    ],
    metrics: &[
        Metric {
            name: "flushed_exposed_mib_max",
            unit: "MiB",
            meaning: "most that a completed flush covered though one leg of the mirror lacked it",
            formula: Formula::Last("flushed_exposed_bytes_max", MIB),
        },
        Metric {
            name: "slower_first_max",
            unit: "1",
            meaning: "largest ratio of a write's time on the first leg to that on the second",
            formula: Formula::Last("slower_first_milli", 1000),
        },
        Metric {
            name: "slower_second_max",
            unit: "1",
            meaning: "largest ratio of a write's time on the second leg to that on the first",
            formula: Formula::Last("slower_second_milli", 1000),
        },
    ],
};

/// What the mirror of `blocklab mirror` counts besides.
pub(crate) static MIRROR: Counted = Counted {
    counters: &[
        Counter::new("early_acks", "requests", "writes answered before both legs held them"),
        Counter::new("logged_acks", "requests", "flushes and FUA writes answered by a log"),
        Counter::new("log_records", "records", "records appended to logs"),
        Counter::new("hedges", "requests", "late reads that the other leg was asked for, too"),
        Counter::new("leg_reads", "requests", "reads of the legs"),
        Counter::new("freezes", "freezes", "times a leg counted as frozen"),
        Counter::new("drops", "devices", "times a device was left out"),
        Counter::new("joins", "devices", "times a device was taken back"),
        Counter::new("copied_blocks", "blocks", "blocks copied to a leg that came back"),
        Counter::new("checkpoints", "checkpoints", "checkpoints of the metadata"),
        Counter::new("failed_requests", "requests", "requests that failed, as no leg was left"),
        Counter::new("ram_bytes_max", "bytes", "most data held in memory at any time so far"),
        Counter::new("fast_owes_bytes", "bytes", "what the fast leg was not given yet"),
        Counter::new("slow_owes_bytes", "bytes", "what the slow leg was not given yet"),
    ],
    metrics: &[Metric::count(
        "mirror_freezes",
        "freezes",
        "times a leg of a mirror counted as frozen while measuring",
        "freezes",
    )],
};
