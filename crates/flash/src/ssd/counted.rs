//! What a drive counts and which metrics follow.

use sim::metric::{Counted, Counter, Formula, Metric};

/// What every flash drive counts: pages of the host, operations and bytes by cause.
pub static FLASH: Counted = Counted {
    counters: &[
        Counter::new("host_reads", "pages", "pages read by the host, wholly or in part"),
        Counter::new("host_reads_unwritten", "pages", "those of them that were never written"),
        Counter::new("host_writes", "pages", "pages written by the host, wholly or in part"),
        Counter::new("host_bytes_written", "bytes", "bytes of these pages that the host wrote"),
        Counter::new("flash_reads.*", "pages", "flash page reads, by cause"),
        Counter::new(
            "flash_programs.*",
            "pages",
            "flash page programs, copy-backs included, by cause",
        ),
        Counter::new("flash_copybacks.*", "pages", "those of them that were copy-backs, by cause"),
        Counter::new("flash_bytes_programmed.*", "bytes", "bytes programmed into flash, by cause"),
        Counter::new("flash_erases.*", "blocks", "flash block erases, by cause"),
        Counter::new("flash_blocks_opened", "blocks", "free blocks that were begun to be written"),
        Counter::new("gc_pages_moved", "pages", "valid pages moved by garbage collection"),
        Counter::new("gc_blocks_collected", "blocks", "blocks emptied by garbage collection"),
        Counter::new("retried_reads", "pages", "flash page reads that were repeated"),
        Counter::new("read_retries", "reads", "repetitions of flash page reads"),
        Counter::new("map_lookups", "pages", "pages of the host whose mapping was asked for"),
        Counter::new("map_hits", "pages", "those of them that RAM answered"),
        Counter::new("map_double_reads", "pages", "pages read whose mapping had to be read first"),
        Counter::new("map_ram_bytes", "bytes", "RAM the mapping takes"),
        Counter::new("map_rebuild_ns", "ns", "time that the last rebuild of the mapping took"),
    ],
    metrics: &[
        Metric {
            name: "waf",
            unit: "1",
            meaning: "write amplification: bytes programmed, copy-backs included, per byte the \
                      host wrote",
            formula: amplification("flash_bytes_programmed.*"),
        },
        part("waf_host", "flash_bytes_programmed.host", "the part of `waf` caused by host writes"),
        part("waf_gc", "flash_bytes_programmed.gc", "the part of `waf` caused by collection"),
        part("waf_wear", "flash_bytes_programmed.wear", "the part caused by wear levelling"),
        part("waf_map", "flash_bytes_programmed.map", "the part caused by writing the mapping"),
        part("waf_merge", "flash_bytes_programmed.merge", "the part of `waf` caused by merges"),
        part(
            "waf_parity",
            "flash_bytes_programmed.parity",
            "the part caused by `nand.parity_every`",
        ),
        Metric::count(
            "host_pages_written",
            "pages",
            "flash pages the host wrote to while measuring, wholly or in part",
            "host_writes",
        ),
        Metric::count(
            "flash_reads",
            "pages",
            "flash page reads while measuring, all causes",
            "flash_reads.*",
        ),
        Metric::count(
            "flash_programs",
            "pages",
            "flash page programs while measuring, copy-backs included, all causes",
            "flash_programs.*",
        ),
        Metric::count(
            "flash_erases",
            "blocks",
            "flash block erases while measuring, all causes",
            "flash_erases.*",
        ),
        Metric::count(
            "flash_blocks_opened",
            "blocks",
            "free blocks that were begun to be written while measuring; in steady state as many as \
             were erased",
            "flash_blocks_opened",
        ),
        Metric::count(
            "gc_pages_moved",
            "pages",
            "valid pages moved by garbage collection while measuring",
            "gc_pages_moved",
        ),
        Metric::count(
            "retried_reads",
            "pages",
            "flash page reads that were repeated while measuring; with `nand.retry`",
            "retried_reads",
        ),
        Metric {
            name: "reads_unwritten_ratio",
            unit: "share",
            meaning: "share of the pages read that were never written",
            formula: Formula::Ratio("host_reads_unwritten", &["host_reads"]),
        },
        Metric {
            name: "map_hit_ratio",
            unit: "share",
            meaning: "share of mapping lookups that RAM answered",
            formula: Formula::Ratio("map_hits", &["map_lookups"]),
        },
        Metric {
            name: "map_double_read_ratio",
            unit: "share",
            meaning: "share of the pages read whose mapping had to be read first",
            formula: Formula::Ratio("map_double_reads", &["host_reads"]),
        },
        Metric {
            name: "map_ram_kib_mean",
            unit: "KiB",
            meaning: "RAM the mapping took, mean over the measured time",
            formula: Formula::Mean("map_ram_bytes", 1 << 10),
        },
        Metric {
            name: "map_ram_kib_max",
            unit: "KiB",
            meaning: "RAM the mapping took, largest while measuring",
            formula: Formula::Highest("map_ram_bytes", 1 << 10),
        },
        Metric {
            name: "map_rebuild_ms",
            unit: "ms",
            meaning: "time to rebuild the mapping after a power cut; with `run.power_cut`",
            formula: Formula::AfterPowerCut("map_rebuild_ns", 1_000_000),
        },
    ],
};

/// All pages that were written somewhere. What the host wrote is counted when it is taken in.
const PAGES_PLACED: &[&str] = &["write_data", "update_pure", "update_wasted"];

/// Where mapping schemes put what the host writes.
pub static PLACED: Counted = Counted {
    counters: &[
        Counter::new("write_data", "pages", "pages written in their place, in a data block"),
        Counter::new("update_pure", "pages", "pages written elsewhere, as they held data"),
        Counter::new(
            "update_wasted",
            "pages",
            "pages written elsewhere only as they came out of order",
        ),
    ],
    metrics: &[
        Metric {
            name: "update_pure_ratio",
            unit: "share",
            meaning: "share of the pages written that went elsewhere than into their data block, \
                      as they had been written before",
            formula: Formula::Ratio("update_pure", PAGES_PLACED),
        },
        Metric {
            name: "update_wasted_ratio",
            unit: "share",
            meaning: "the same, of pages never written before that came out of order",
            formula: Formula::Ratio("update_wasted", PAGES_PLACED),
        },
        Metric {
            name: "update_wasted_share",
            unit: "share",
            meaning: "`update_wasted_ratio` as a share of both",
            formula: Formula::Ratio("update_wasted", &["update_pure", "update_wasted"]),
        },
    ],
};

/// A part of the write amplification.
pub const fn part(name: &'static str, programmed: &'static str, meaning: &'static str) -> Metric {
    Metric { name, unit: "1", meaning, formula: amplification(programmed) }
}

const fn amplification(programmed: &'static str) -> Formula {
    Formula::Ratio(programmed, &["host_bytes_written"])
}
