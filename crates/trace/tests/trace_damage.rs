//! Damaged traces: one clear error with its place, never a panic, never a silent end.

mod support;

use support::{FIXTURES, fixture, read_all, read_bytes};
use trace::TracePlace;

/// What reading `bytes` says; `None` when it reads.
fn error_of(bytes: &[u8], format: &str) -> Option<trace::TraceError> {
    read_bytes(bytes, Some(&format!("\"{format}\""))).err()
}

fn say(text: &str, format: &str) -> String {
    error_of(text.as_bytes(), format).map_or_else(|| "no error".into(), |e| e.to_string())
}

/// Formats whose last column tells a whole line from a cut one.
const SELF_DELIMITING: [&str; 5] = ["blkparse", "mqsim", "disksim", "wiscsee", "fiu"];

#[test]
fn text_cut_at_any_byte_is_an_error_at_the_cut_or_whole() {
    for (file, format) in FIXTURES.iter().filter(|f| std::str::from_utf8(&fixture(f.0)).is_ok()) {
        let whole = fixture(file);
        for cut in 1..whole.len() {
            let text = &whole[..cut];
            let tail = text.rsplit(|&b| b == b'\n').next().unwrap();
            let lines = text.iter().filter(|&&b| b == b'\n').count() as u64;
            let error = error_of(text, format);
            if tail.is_empty() {
                assert_eq!(error, None, "{file} cut at {cut}, a line end");
                continue;
            }
            if whole[cut] == b'\n' && SELF_DELIMITING.contains(format) {
                assert_eq!(error, None, "{file} cut at {cut}, only the newline is missing");
                continue;
            }
            let Some(error) = error else {
                // Blanks, blkparse's summary and its events of no interest may end anywhere.
                let harmless = *format == "blkparse" && !is_queue_event(tail);
                assert!(harmless, "{file} cut at {cut} reads silently");
                continue;
            };
            let TracePlace::Text { line, column, .. } = error.place else {
                panic!("{file} cut at {cut}: no line in {error}");
            };
            assert_eq!(line, lines + 1, "{file} cut at {cut}: {error}");
            assert!(column <= tail.len() + 1, "{file} cut at {cut}: {error}");
        }
    }
}

/// A line of blkparse that makes a request, or could still have become one.
fn is_queue_event(tail: &[u8]) -> bool {
    let words = String::from_utf8_lossy(tail);
    let words: Vec<&str> = words.split_whitespace().collect();
    words.len() > 5 && words[0].starts_with('8') && words[5] == "Q"
}

#[test]
fn binary_cut_inside_a_record_names_the_byte() {
    for (file, format, length) in
        [("sample-v1.vscsi", "vscsi", 32), ("sample-v2.vscsi", "vscsi", 40)]
    {
        let whole = fixture(file);
        for cut in 1..whole.len() {
            let error = error_of(&whole[..cut], format);
            match cut % length {
                0 => assert_eq!(error, None, "{file} cut at {cut}"),
                _ => assert_eq!(error.unwrap().place, TracePlace::Byte(cut as u64), "{file}"),
            }
        }
    }
    let whole = fixture("sample-le.blktrace");
    let error = error_of(&whole[..whole.len() - 5], "blktrace").unwrap();
    assert_eq!(
        error.to_string(),
        "test, byte 495: the file ends 43 bytes into a blktrace event of 48 bytes and its payload; \
         expected a complete file; copy it again (format blktrace)"
    );
}

#[test]
fn any_changed_byte_reads_or_errs_but_never_panics() {
    for (file, format) in FIXTURES {
        let whole = fixture(file);
        for at in 0..whole.len() {
            for byte in [0, b'\n', b' ', b'9', b'-', b',', 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = byte;
                let _ = error_of(&bytes, format);
                let _ = read_bytes(&bytes, None);
            }
        }
    }
}

#[test]
fn a_wrong_field_is_quoted_with_its_column_and_what_belongs_there() {
    let cases = [
        ("1 0 8 8 2\n", "mqsim", "test:1:9: \"2\"; expected 0 for a write or 1 for a read"),
        ("1 0 8 8 0\n-5 0 8 8 0\n", "mqsim", "test:2:1: \"-5\"; expected a time in whole nano"),
        ("1 0 8\n", "mqsim", "test:1:6: the line ends too early; expected a number of sectors"),
        ("1 0 8 8 0 9\n", "mqsim", "test:1:11: \"9\"; expected the end of the line"),
        (
            "1 0 99999999999999999999 8 0\n",
            "mqsim",
            "test:1:5: \"99999999999999999999\"; expected a s",
        ),
        ("1 0 18014398509481984 8 0\n", "mqsim", "expected a sector number below 2^54"),
        ("1 0 8 4294967296 0\n", "mqsim", "test:1:7: \"4294967296\"; expected a number of sectors"),
        ("1.5 0 8 8 g\n", "disksim", "test:1:11: \"g\"; expected flags in hexadecimal, bit 0 set"),
        ("99999999999999.0 0 8 8 0\n", "disksim", "expected a time in milliseconds"),
        ("1,h,0,Wipe,0,512,9\n", "msr", "test:1:7: \"Wipe\"; expected Read or Write"),
        ("1,h,0,Read,0,99999999999999,9\n", "msr", "expected a length in bytes below 2^41"),
        ("999999999999999999,h,0,Read,0,1,9\n", "msr", "expected a time in ticks of 100 ns"),
        ("0,1,512,x,0.1\n", "spc", "test:1:9: \"x\"; expected R or W"),
        ("0,1,512,w,\n", "spc", "test:1:11: the line ends too early; expected a time in seconds"),
        ("1.5,0.1,RW,0,0,512\n", "systor", "test:1:9: \"RW\"; expected R, W or nothing"),
        ("4294967296,R,0,512,1\n", "alibaba", "test:1:1: \"4294967296\"; expected a device number"),
        ("1.5,8,8,0,1\n", "tencent", "test:1:1: \"1.5\"; expected a time in whole seconds"),
        ("1,8,8,2,1\n", "tencent", "test:1:7: \"2\"; expected 0 for a read or 1 for a write"),
        ("1,18014398509481984,8,0,1\n", "tencent", "expected a sector number below 2^54"),
        ("1,8,4294967296,0,1\n", "tencent", "test:1:5: \"4294967296\"; expected a number of sec"),
        ("1 2 a 8 8 D 6 0 00\n", "fiu", "test:1:11: \"D\"; expected R or W"),
        ("1 2 a 8 8 W 4096 0 00\n", "fiu", "\"4096\"; expected a device's major number below"),
        ("1 2 a 8 8 W 6 0 00\n", "fiu", "test:1:17: \"00\"; expected an MD5 hash of 32 hexad"),
        ("5 8 0\n", "arc", "test:1:6: the line ends too early; expected a request number"),
        (
            "1 X read 0 512 0.1 0 True\n",
            "wiscsee",
            "\"X\"; expected D for an issue or C for a compl",
        ),
        ("1 D read 0 512 0.1 0 Maybe\n", "wiscsee", "\"Maybe\"; expected True or False"),
        ("fio version 4 iolog\n", "iolog", "expected \"fio version 2 iolog\" or \"fio version 3"),
        (
            "fio version 3 iolog\n1 /a read 0 512\n",
            "iolog",
            "test:2:3: \"/a\"; expected a file that",
        ),
        (
            "fio version 3 iolog\n1 /a wait 0 0\n",
            "iolog",
            "test:2:6: \"wait\"; expected read, write",
        ),
        ("8,0 0 1 0.0 1 Q W 8 + 8\n", "blkparse", "expected a name in brackets, such as [fio]"),
        ("8,0 0 1 0.0 1 Q WX 8 + 8 [a]\n", "blkparse", "test:1:17: \"WX\"; expected flags such as"),
        (
            "8,0 0 1 0.0 1 Q W 8 + x [a]\n",
            "blkparse",
            "test:1:23: \"x\"; expected a number of sect",
        ),
        ("hello\n", "blkparse", "expected an event (a device such as 8,0 first) or blkparse's"),
    ];
    for (text, format, expected) in cases {
        let error = say(text, format);
        assert!(error.contains(expected), "{text:?}: {error}");
        assert!(error.ends_with(&format!("(format {format})")), "{error}");
    }
}

#[test]
fn a_nul_byte_is_shown_as_a_replacement_and_refused() {
    let error = say("1 0 8\0 8 0\n", "mqsim");
    assert!(error.contains("\"8\u{fffd}\"; expected a sector number"), "{error}");
    let error = say("8,0 0 1 0.0 1 Q W 8 + 8 [a\0b]\n", "blkparse");
    assert!(error.contains("expected a name in brackets"), "{error}");
}

#[test]
fn a_line_without_an_end_does_not_fill_the_memory() {
    for length in [70_000, 1_000_000] {
        let text = format!("1 0 8 8 0\n1 0 {}", "8".repeat(length));
        let error = say(&text, "mqsim");
        assert!(error.contains("test:2:1: a line longer than 65536 bytes"), "{error}");
        let error = say(&format!("{text}\n"), "mqsim");
        assert!(error.contains("test:2:1: a line longer than 65536 bytes"), "{error}");
    }
}

#[test]
fn a_damaged_line_does_not_hide_the_format() {
    for (file, format) in FIXTURES.iter().filter(|f| f.1 != "vscsi" && f.1 != "blktrace") {
        let mut text = String::from_utf8(fixture(file)).unwrap();
        text.push_str("@\n");
        let error = read_bytes(text.as_bytes(), None).err().unwrap().to_string();
        let lines = text.lines().count();
        assert!(error.starts_with(&format!("test:{lines}:")), "{file}: {error}");
        assert!(error.ends_with(&format!("(format {format})")), "{file}: {error}");
    }
}

#[test]
fn damage_in_a_compressed_stream_is_told_from_damage_in_the_trace() {
    let mut packed = zstd::encode_all(fixture("sample.blkparse").as_slice(), 3).unwrap();
    let middle = packed.len() / 2;
    packed[middle] ^= 0x55;
    // A flipped bit may still decompress; then the trace itself is wrong.
    if let Err(error) = read_bytes(&packed, None) {
        let error = error.to_string();
        assert!(error.contains("the zstd stream is") || error.contains("test:"), "{error}");
    }
    let garbage = [0x1f, 0x8b, 8, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
    let error = read_bytes(&garbage, None).err().unwrap().to_string();
    assert!(error.contains("the gzip stream is"), "{error}");
}

#[test]
fn windows_line_ends_and_blank_lines_read() {
    let (_, records) = read_bytes(b"1 0 8 8 0\r\n\r\n  \n2 0 8 8 1\r\n", None).unwrap();
    assert_eq!(records.len(), 2);
}

#[test]
fn the_mark_of_utf_8_is_passed_over_and_utf_16_is_named() {
    let marked = [b"\xef\xbb\xbf", &fixture("sample.msr")[..]].concat();
    let (trace, records) = read_bytes(&marked, None).unwrap();
    assert_eq!(trace.format().name(), "msr");
    assert_eq!(records, read_all("sample.msr").unwrap().1);
    let error = say("\u{feff}1 0 8 8 0\n1 0 wrong 8 0\n", "disksim");
    assert!(error.contains("test:2:5"), "{error}");
    let wide: Vec<u8> = "1 0 8 8 0\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let error = read_bytes(&[b"\xff\xfe", &wide[..]].concat(), None).err().unwrap().to_string();
    assert!(error.contains("UTF-16") && error.contains("iconv"), "{error}");
}
