//! Any text read as the record of a boot; what is read can be ranked and drawn.
#![no_main]

use boot::timeline::record::Record;
use boot::timeline::{page, perfetto, ranking};

libfuzzer_sys::fuzz_target!(|text: &str| {
    if let Ok(record) = Record::parse(text) {
        let lines = ranking::lines(&record, 10);
        assert!(lines.len() > 1);
        perfetto::trace(&record);
        page::page(&[("a".into(), record.clone()), ("b".into(), record)]);
    }
});
