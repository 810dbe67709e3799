//! Any text as what was measured on a drive: fio's JSON, a table, a table of SNIA's PTS, a table of
//! write amplification. What is read can be run as a load.
#![no_main]

/// The verbs' own modules, with all that `measured` declares: what is added there is here, too.
#[allow(dead_code, unused_imports)]
#[path = "../../crates/cli/src/verb"]
mod verb {
    mod in_toml;
    mod measured;

    /// Nothing is run here: without the command line's signals and progress.
    mod run {
        use study::{Failure, Options, PlannedStudy, Results, Watch};

        pub(super) fn interruptible(
            plan: &PlannedStudy,
            options: &Options,
            watch: &Watch,
        ) -> Result<Results, Failure> {
            study::run(plan, options, watch)
        }
    }

    pub(super) fn read(text: &str) {
        if let Ok(Some(rows)) = measured::amplification::of_text(text) {
            for row in rows.uniform {
                let used = row.used.bytes(1e12);
                assert!(used.is_finite() && used > 0.0 && row.waf > 0.0, "{row:?}");
            }
        }
        let Ok((points, _)) = measured::files::of_text(text) else { return };
        for point in points {
            assert!(point.bytes() > 0, "{point:?}");
            assert!((1..=4096).contains(&point.iodepth), "{point:?}");
            assert!((1..=4096).contains(&point.numjobs), "{point:?}");
            let numbers = point.measured.iter().flatten();
            let offered = point.offered.map(|offered| offered.iops);
            assert!(offered.or(point.measured[0]).is_some(), "{point:?}");
            assert!(offered.is_none_or(|iops| (1.0..=1e9).contains(&iops)), "{point:?}");
            assert!(numbers.into_iter().all(|n| n.is_finite() && *n > 0.0), "{point:?}");
        }
    }
}

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    verb::read(&String::from_utf8_lossy(bytes));
});
