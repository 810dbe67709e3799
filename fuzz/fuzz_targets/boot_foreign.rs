//! Any text read as what other tools write of a boot: it becomes a record that can be drawn.
#![no_main]

use boot::timeline::{foreign, page, perfetto, ranking};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let _ = guest::record::units::lines(text);
    if let Some(Ok(record)) = foreign::parse(text) {
        assert!(!record.units.is_empty());
        assert!(!ranking::lines(&record, 10).is_empty());
        perfetto::trace(&record);
        page::page(&[("a".into(), record)]);
    }
});
