//! Every trace format: exact fields, detection, and what damaged traces say.

mod support;

use sim::{Lba, Nanos, Op, Request};
use support::{FIXTURES, fixture, read_all, read_as, read_bytes};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// (time ns, op, sector, sectors, device name) of every record.
fn table(name: &str) -> Vec<(Option<u64>, Op, u64, u32, String)> {
    let (trace, records) = read_all(name).unwrap();
    let row = |r: &trace::Record| {
        let time = r.time.map(|t| t.0);
        (time, r.request.op, r.request.lba.0, r.request.sectors, trace.device_name(r.device))
    };
    records.iter().map(row).collect()
}

fn row(
    time: u64,
    op: Op,
    lba: u64,
    sectors: u32,
    device: &str,
) -> (Option<u64>, Op, u64, u32, String) {
    (Some(time), op, lba, sectors, device.into())
}

#[test]
fn every_fixture_is_recognised() {
    for (file, format) in FIXTURES {
        let (trace, records) = read_all(file).unwrap();
        assert_eq!(trace.format().name(), *format, "{file}");
        assert!(records.len() >= 3, "{file}: {}", records.len());
    }
}

/// Lines of no other format read as one of these, and theirs read as no other: detection does not
/// depend on how sure each is.
#[test]
fn lines_of_tencent_and_fiu_are_their_own() {
    let alone = ["tencent", "fiu"];
    for (file, format) in FIXTURES {
        for (_, other) in FIXTURES {
            if other == format || !(alone.contains(format) || alone.contains(other)) {
                continue;
            }
            let read = read_bytes(&fixture(file), Some(&format!("\"{other}\"")));
            assert!(read.is_err(), "{file} reads as {other}");
        }
    }
}

#[test]
fn a_response_of_no_time_is_none() {
    let (_, records) = read_bytes(b"1,h,0,Read,0,512,0\n2,h,0,Read,0,512,3\n", None).unwrap();
    let responses: Vec<_> = records.iter().map(|r| r.response).collect();
    assert_eq!(responses, [None, Some(Nanos(300))]);
}

#[test]
fn blkparse_queue_events_say_what_was_asked() {
    let expected = [
        row(0, Op::Read, 10264, 8, "8,0"),
        row(MS, Op::Write, 2048, 16, "8,0"),
        row(MS + 400, Op::Write, 2064, 8, "8,0"),
        row(2 * MS, Op::Flush, 0, 0, "8,0"),
        row(2 * MS, Op::Write, 2072, 8, "8,0"),
        row(3 * MS, Op::Flush, 0, 0, "8,0"),
        row(4 * MS, Op::Discard, 4096, 1024, "8,16"),
    ];
    assert_eq!(table("sample.blkparse"), expected);
    let (_, records) = read_all("sample.blkparse").unwrap();
    let fua: Vec<bool> = records.iter().map(|r| r.request.fua).collect();
    assert_eq!(fua, [false, false, false, false, true, false, false]);
    let processes: Vec<u32> = records.iter().map(|r| r.request.process).collect();
    assert_eq!(processes, [1201, 305, 305, 305, 305, 305, 1202]);
}

#[test]
fn blkparse_dispatch_events_say_what_the_device_got() {
    let (_, records) = read_as("sample.blkparse", r#"{"blkparse":{"action":"D"}}"#).unwrap();
    let got: Vec<_> = records.iter().map(|r| (r.request.op, r.request.sectors)).collect();
    let expected = [(Op::Read, 8), (Op::Write, 24), (Op::Flush, 0), (Op::Write, 8), (Op::Flush, 0)];
    assert_eq!(got, expected);
    assert_eq!(records[0].time, Some(Nanos::ZERO), "times count from the first request");
    assert_eq!(records[1].time, Some(Nanos(1_002_000 - 28_695)));
}

#[test]
fn passthrough_commands_of_blkparse_are_left_out_and_its_times_passed_over() {
    let event =
        |time: u32, rest: &str| format!("  8,0    1  {time}     0.00{time}  1201  {rest}\n");
    let text = [
        event(1, "D   R 56 (12 00 00 00 38 ..) [inquiry]"),
        event(2, "D  RM 10264 + 8 (   3912) [fio]"),
        event(3, "C   R (12 00 ..) [0]"),
        event(4, "D FWS (     12) [fio]"),
        event(5, "C  RM 10264 + 8 (     41) [0]"),
    ];
    let read = |action: &str| {
        let format = format!(r#"{{"blkparse":{{"action":"{action}"}}}}"#);
        let (trace, records) = read_bytes(text.concat().as_bytes(), Some(&format)).unwrap();
        let requests: Vec<_> = records.iter().map(|r| r.request.sectors).collect();
        (requests, trace.remarks())
    };
    let left_out = vec!["left out 1 passthrough commands".to_string()];
    assert_eq!(read("D"), (vec![8, 0], left_out.clone()));
    assert_eq!(read("C"), (vec![8], left_out));
    // What is neither is damage.
    for rest in ["D   R 8 + 8 (12 00) [fio]", "D   R 56 (12 00 [fio]"] {
        let error = read_bytes(event(1, rest).as_bytes(), Some(r#"{"blkparse":{"action":"D"}}"#));
        let error = error.map(drop).unwrap_err().to_string();
        assert!(error.contains("expected a name in brackets"), "{rest}: {error}");
    }
}

#[test]
fn times_that_go_back_are_told() {
    let remarks = |times: &[u64]| {
        let lines = times.iter().map(|time| format!("{time} 0 8 8 0\n"));
        let text: String = lines.collect();
        read_bytes(text.as_bytes(), Some(r#""mqsim""#)).unwrap().0.remarks()
    };
    // Events of several CPUs lie a little before each other.
    assert_eq!(remarks(&[0, 2 * MS, MS, 3 * MS]), Vec::<String>::new());
    let told = remarks(&[0, 9 * MS, 2 * MS, 8 * MS, 10 * MS]);
    let said = "2 requests lie before an earlier one in time, by up to 7ms; ";
    assert!(told.len() == 1 && told[0].starts_with(said), "{told:?}");
}

#[test]
fn completions_give_responses() {
    let (_, queued) = read_as("sample.blkparse", r#"{"blkparse":{"responses":true}}"#).unwrap();
    let responses: Vec<_> = queued.iter().map(|r| r.response.map(|n| n.0)).collect();
    let expected = [128_695, 52_000, 51_600, 101_000, 202_000, 101_000, 200_000];
    assert_eq!(responses, expected.map(Some));
    let dispatched = r#"{"blktrace":{"action":"D","responses":true}}"#;
    let (_, records) = read_as("sample-le.blktrace", dispatched).unwrap();
    let responses: Vec<_> = records.iter().map(|r| r.response.map(|n| n.0)).collect();
    assert_eq!(responses, [Some(100_000), Some(50_000), Some(44_000)]);
    let (_, records) = read_as("sample.wiscsee", r#"{"wiscsee":{"responses":true}}"#).unwrap();
    let responses: Vec<_> = records.iter().map(|r| r.response.map(|n| n.0)).collect();
    assert_eq!(responses, [Some(122_793), Some(124_368), None]);
}

#[test]
fn blktrace_in_both_byte_orders() {
    let expected = [
        row(0, Op::Read, 10264, 8, "8,0"),
        row(199_000, Op::Flush, 0, 0, "8,0"),
        row(199_000, Op::Write, 2048, 16, "8,0"),
        row(399_000, Op::Discard, 4096, 1024, "8,16"),
    ];
    assert_eq!(table("sample-le.blktrace"), expected);
    assert_eq!(table("sample-be.blktrace"), expected);
    let (_, records) = read_all("sample-be.blktrace").unwrap();
    assert!(records[2].request.fua && records[2].request.process == 305);
}

#[test]
fn iolog_versions_2_and_3() {
    let v2 = [
        row(0, Op::Write, 8, 16, "/dev/sda"),
        row(500 * US, Op::Read, 0, 8, "/dev/sda"),
        row(750 * US, Op::Flush, 0, 0, "/dev/sda"),
        row(750 * US, Op::Discard, 2048, 128, "/dev/sda"),
    ];
    assert_eq!(table("sample-v2.iolog"), v2);
    // Without a `wait`, and with the first one too far behind, requests have no time.
    let log = |reads: usize, end: &str| {
        let reads = "/d read 0 4096\n".repeat(reads);
        let text = format!("fio version 2 iolog\n/d add\n/d open\n{reads}{end}");
        read_bytes(text.as_bytes(), None).unwrap().1
    };
    let waits = "/d wait 500 0\n/d read 0 4096\n";
    for (records, known) in [(log(3, ""), 0), (log(1 << 16, waits), 1), (log(9, waits), 10)] {
        assert_eq!(records.iter().filter(|record| record.time.is_some()).count(), known);
    }
    let v3 = [
        row(0, Op::Read, 120, 8, "/data/a"),
        row(1272 * US, Op::Write, 1512, 16, "/data/b"),
        row(2377 * US, Op::Flush, 0, 0, "/data/a"),
        row(3547 * US, Op::Discard, 960, 8, "/data/b"),
    ];
    assert_eq!(table("sample-v3.iolog"), v3);
}

#[test]
fn formats_in_bytes_cover_the_sectors_they_touch() {
    let msr = [
        row(0, Op::Read, 749_016, 64, "1"),
        row(1_332_052_600, Op::Write, 607_390, 8, "1"),
        // 1000 bytes from the start of a sector touch two.
        row(2_332_061_600, Op::Write, 5512, 2, "0"),
    ];
    assert_eq!(table("sample.msr"), msr);
    let (trace, records) = read_all("sample.msr").unwrap();
    assert_eq!(records[0].response, Some(Nanos(41_300)));
    assert_eq!(trace.origin(), Some(Nanos(12_816_637_200_306_162_900)));
    let alibaba = [
        row(0, Op::Write, 17_173_304, 32, "419"),
        row(46 * US, Op::Read, 115_449_856, 704, "725"),
        row(9233 * US, Op::Write, 17_173_336, 8, "419"),
    ];
    assert_eq!(table("sample.alibaba"), alibaba);
    let systor = [
        row(0, Op::Write, 94_352, 16, "0"),
        row(3_792_500, Op::Read, 8, 1, "3"),
        row(933_792_000, Op::Read, 0, 128, "0"),
    ];
    assert_eq!(table("sample.systor"), systor);
    let (trace, records) = read_all("sample.systor").unwrap();
    let left_out = "left out 1 requests without an answer, whose kind is not recorded";
    assert_eq!(trace.remarks(), [left_out]);
    let responses: Vec<_> = records.iter().map(|r| r.response).collect();
    assert_eq!(responses, [Some(Nanos(279_000)), None, Some(Nanos(10 * MS))]);
}

#[test]
fn formats_in_sectors() {
    let spc = [
        row(0, Op::Write, 303_567, 7, "0"),
        row(26_214_000, Op::Read, 55_590, 6, "1"),
        row(78_643_000, Op::Write, 240_840, 1, "0"),
    ];
    assert_eq!(table("sample.spc"), spc);
    let disksim = [
        row(0, Op::Write, 20_228_336, 8, "0"),
        row(384_373_000, Op::Read, 6_397_360, 496, "0"),
        row(386_811_123, Op::Write, 6_397_856, 472, "2"),
    ];
    assert_eq!(table("sample.disksim"), disksim);
    let mqsim = [
        row(0, Op::Write, 264_719_034, 16, "4"),
        row(315_000, Op::Read, 197_570_570, 16, "3"),
        row(431_000, Op::Write, 93_230_992, 32, "13"),
    ];
    assert_eq!(table("sample.mqsim"), mqsim);
    let wiscsee = [
        row(0, Op::Read, 584, 8, "0"),
        row(196_695, Op::Write, 648, 16, "0"),
        row(MS, Op::Discard, 0, 2048, "0"),
    ];
    assert_eq!(table("sample.wiscsee"), wiscsee);
    let tencent = [
        row(0, Op::Read, 9_310_912, 8, "1283"),
        row(0, Op::Write, 42_949_120, 64, "1576"),
        row(3_000 * MS, Op::Write, 9_310_920, 16, "1283"),
    ];
    assert_eq!(table("sample.tencent"), tencent);
    let fiu = [
        row(0, Op::Write, 904_265_560, 8, "6,0"),
        row(40_200, Op::Write, 508_194_840, 8, "6,0"),
        row(999_877, Op::Read, 26_216, 16, "8,16"),
    ];
    assert_eq!(table("sample.fiu"), fiu);
    let processes: Vec<u32> =
        read_all("sample.fiu").unwrap().1.iter().map(|r| r.request.process).collect();
    assert_eq!(processes, [4892, 2522, 1882]);
}

#[test]
fn arc_says_that_it_lacks_flags_and_times() {
    let (trace, records) = read_all("sample.arc").unwrap();
    let got: Vec<_> =
        records.iter().map(|r| (r.time, r.request.lba.0, r.request.sectors)).collect();
    assert_eq!(got, [(None, 1_936_993, 8), (None, 793_041, 16), (None, 2_051_307, 64)]);
    assert!(trace.remarks()[0].contains("no read/write flag: every request is a read"));
    let all = r#"{"arc":{"write_share":1.0,"block":"4KiB"}}"#;
    let (trace, records) = read_as("sample.arc", all).unwrap();
    assert_eq!(records[1].request, Request::write(Lba(793_041 * 8), 128));
    assert!(trace.remarks()[0].contains("a seeded 1 are writes"));
    for wrong in ["1.3", "-3", "30"] {
        let wrong = format!(r#"{{"arc":{{"write_share":{wrong}}}}}"#);
        let error = serde_json::from_str::<trace::TraceFormat>(&wrong).unwrap_err().to_string();
        assert!(error.contains("expected a share from 0 to 1"), "{error}");
    }
}

#[test]
fn vscsi_versions_1_and_2() {
    let v1 = [
        row(0, Op::Write, 42_932_745, 1, "0"),
        row(250 * US, Op::Read, 1000, 8, "0"),
        row(400 * US, Op::Flush, 0, 0, "0"),
        row(1000 * US, Op::Read, 77, 13, "0"),
    ];
    assert_eq!(table("sample-v1.vscsi"), v1);
    let (trace, _) = read_all("sample-v1.vscsi").unwrap();
    assert_eq!(trace.remarks(), ["left out 1 SCSI commands that move no blocks"]);
    let (_, records) = read_all("sample-v2.vscsi").unwrap();
    let responses: Vec<_> = records.iter().map(|r| r.response.unwrap().0 / US).collect();
    assert_eq!(responses, [55, 1200, 7]);
    assert_eq!(records[2].request, Request::write(Lba(9), 1));
}

#[test]
fn a_forced_format_overrules_the_content() {
    // Whole milliseconds are legal DiskSim, but look like MQSim.
    let text = b"1000 0 8 8 0\n2000 0 16 8 1\n";
    let (trace, records) = read_bytes(text, None).unwrap();
    assert_eq!((trace.format().name(), records[1].time), ("mqsim", Some(Nanos(1000))));
    let (_, records) = read_bytes(text, Some(r#""disksim""#)).unwrap();
    assert_eq!(records[1].time, Some(Nanos(1000 * MS)));
    // Any time with a point is milliseconds; the first one may be 0.
    let text = b"0 0 8 8 0\n0.52 0 16 8 1\n";
    let (trace, records) = read_bytes(text, None).unwrap();
    assert_eq!((trace.format().name(), records[1].time), ("disksim", Some(Nanos(520 * US))));
}

/// The same lines are milliseconds to DiskSim, and then there are 200 requests a second.
#[test]
fn whole_milliseconds_taken_for_nanoseconds_are_told() {
    for (step, told) in [(5, true), (5_000_000, false)] {
        let lines: String = (0..200).map(|n| format!("{} 0 {} 8 0\n", n * step, 8 * n)).collect();
        let (trace, _) = read_bytes(lines.as_bytes(), None).unwrap();
        let remarks = trace.remarks();
        assert_eq!(remarks.iter().any(|it| it.contains("disksim")), told, "{remarks:?}");
    }
}

#[test]
fn an_unknown_format_lists_the_known_ones() {
    let error = read_bytes(b"hello, world\n", None).map(drop).unwrap_err().to_string();
    assert!(error.contains("the format cannot be told from \"hello, world\""), "{error}");
    assert!(error.contains("one of blkparse, blktrace, iolog"), "{error}");
    let error = read_bytes(b"", None).map(drop).unwrap_err().to_string();
    assert_eq!(error, "test: the file is empty: it holds no trace");
}

#[test]
fn fixtures_survive_compression() {
    use std::io::Write;
    for (file, _) in FIXTURES {
        let plain = fixture(file);
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        gz.write_all(&plain).unwrap();
        let zst = zstd::encode_all(plain.as_slice(), 3).unwrap();
        let (_, expected) = read_all(file).unwrap();
        for packed in [gz.finish().unwrap(), zst] {
            let (_, records) = read_bytes(&packed, None).unwrap();
            assert_eq!(records, expected, "{file}");
            // A cut anywhere in the compressed stream is an error, never a silent end.
            for cut in [packed.len() / 2, packed.len() - 1] {
                let error = read_bytes(&packed[..cut], None).map(drop).unwrap_err().to_string();
                assert!(error.contains("stream is cut off"), "{file} at {cut}: {error}");
            }
        }
    }
}

#[test]
fn what_is_written_reads_back() {
    use trace::{Context, TraceFormat};
    let (_, records) = read_all("sample.blkparse").unwrap();
    let context = Context { rng: sim::Rng::new(1, "test"), responses: false };
    let mut written = Vec::new();
    for name in TraceFormat::NAMES {
        let format = TraceFormat::from_name(name).unwrap().build(&context);
        let Some(mut writer) = format.writer() else { continue };
        let carries = writer.carries();
        let kept: Vec<_> = records.iter().filter(|r| carries.takes(&r.request)).collect();
        let mut text = Vec::new();
        writer.begin(&mut text);
        kept.iter().for_each(|record| writer.record(record, Some("postmark"), &mut text));
        writer.end(&mut text);
        let (trace, back) = read_bytes(&text, None).unwrap();
        assert_eq!(trace.format().name(), *name, "its own writing is recognised");
        assert_eq!(back.len(), kept.len(), "{name}");
        for (back, kept) in back.iter().zip(kept) {
            let unit = carries.time_ns.unwrap();
            assert_eq!(back.time.unwrap().0, kept.time.unwrap().0 / unit * unit, "{name}");
            let (a, b) = (back.request, kept.request);
            assert_eq!((a.op, a.lba, a.sectors), (b.op, b.lba, b.sectors), "{name}");
            assert_eq!(a.fua, b.fua && carries.fua, "{name}");
            assert_eq!(a.process, if carries.process { b.process } else { 0 }, "{name}");
            assert!(!carries.device || back.device == kept.device, "{name}");
            let called = trace.process_name(b.process);
            assert!(*name != "blkparse" || called.as_deref() == Some("postmark"), "{called:?}");
        }
        written.push(*name);
    }
    assert_eq!(written, ["blkparse", "iolog", "msr", "disksim", "mqsim"]);
}
