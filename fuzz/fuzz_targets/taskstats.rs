//! Any bytes read as what the kernel tells of tasks.
#![no_main]

use guest::record::{files, taskstats};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    for sums in [false, true] {
        if let Ok(tasks) = taskstats::tasks(bytes, sums) {
            assert!(tasks.len() * 16 <= bytes.len());
        }
    }
    let _ = (taskstats::family(bytes), taskstats::task(bytes), taskstats::number(bytes));
    let text = String::from_utf8_lossy(bytes);
    text.lines().filter_map(files::page).for_each(drop);
});
