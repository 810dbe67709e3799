//! What elevators count, and which metrics follow.

use sim::metric::{Counted, Counter, Formula, Metric};

/// What the queue counts above any policy. A bio is what a process asked for, a request what goes
/// to the device.
pub(crate) static QUEUE: Counted = Counted {
    counters: &[
        Counter::new("enqueued", "bios", "bios that came in"),
        Counter::new("splits", "bios", "pieces that bios were split into, less the bios"),
        Counter::new("merged_back", "bios", "bios that joined a request at its end"),
        Counter::new("merged_front", "bios", "bios that joined a request at its beginning"),
        Counter::new("merged_requests", "requests", "requests that joined another one"),
        Counter::new("dequeued", "requests", "requests given to the device"),
        Counter::new("dequeued_reads", "requests", "those of them that are reads"),
        Counter::new("dequeued_writes", "requests", "those of them that are writes"),
        Counter::new("flushes", "requests", "flushes given to the device"),
        Counter::new("waited_for_request", "bios", "bios that waited for a free request"),
        Counter::new("share.*.requests", "requests", "of a process, in order of appearance"),
        Counter::new("share.*.sectors", "sectors", "the same"),
        Counter::new("share.*.service_ns", "ns", "time its requests were at the device"),
        Counter::new("share.*.process", "process", "who it is"),
    ],
    metrics: &[
        Metric::count(
            "elevator_bios",
            "bios",
            "bios that came to an elevator while measuring (enqueued)",
            "enqueued",
        ),
        Metric::count(
            "elevator_requests",
            "requests",
            "requests that an elevator gave to its device while measuring (dequeued)",
            "dequeued",
        ),
        Metric::count(
            "elevator_merged_back",
            "bios",
            "bios that joined a request at its end while measuring",
            "merged_back",
        ),
        Metric::count(
            "elevator_merged_front",
            "bios",
            "bios that joined a request at its beginning while measuring",
            "merged_front",
        ),
        Metric {
            name: "elevator_requests_per_bio",
            unit: "1",
            meaning: "requests to the device per bio; less than 1 where bios were merged",
            formula: Formula::Ratio("dequeued", &["enqueued"]),
        },
    ],
};

/// What policies that wait for a process count.
pub(crate) static ANTICIPATION: Counted = Counted {
    counters: &[
        Counter::new("anticipations_won", "waits", "waits at whose end a request had come"),
        Counter::new("anticipations_lost", "waits", "waits in vain"),
        Counter::new("idled_ns", "ns", "time the device was kept idle for that"),
    ],
    metrics: &[
        Metric::count(
            "anticipations_won",
            "waits",
            "waits of an elevator for a process that then asked, while measuring",
            "anticipations_won",
        ),
        Metric::count("anticipations_lost", "waits", "the same in vain", "anticipations_lost"),
        Metric {
            name: "elevator_idled_ms",
            unit: "ms",
            meaning: "time that an elevator kept its device idle for a process, while measuring",
            formula: Formula::Scaled("idled_ns", 1_000_000),
        },
    ],
};

/// What policies with deadlines count.
pub(crate) static EXPIRY: Counted = Counted {
    counters: &[
        Counter::new("expired", "requests", "requests sent as their time was up"),
        Counter::new("aged", "requests", "those of a lower class sent as they had waited too long"),
    ],
    metrics: &[],
};
