//! Replaying traces: when requests are issued, and where they go.

use std::fmt::Write as _;
use std::io::{Cursor, Read};

use models::registry::{DeviceModel, WorkloadModel};
use sim::{Completion, Lba, Limits, Nanos, NoProbe, Probe, Request, Rng, Stop, Workload, simulate};
use workload::Context;

/// Records every issue, and the most requests in flight.
#[derive(Default)]
struct Log {
    issued: Vec<(u64, Request)>,
    in_flight: usize,
    deepest: usize,
}

impl Probe for Log {
    fn on_issue(&mut self, now: Nanos, request: &Request) {
        self.issued.push((now.0, *request));
        self.in_flight += 1;
        self.deepest = self.deepest.max(self.in_flight);
    }
    fn on_complete(&mut self, _request: &Request, _issued: Nanos, _completion: Completion) {
        self.in_flight -= 1;
    }
}

fn limits() -> Limits {
    null().limits()
}

fn null() -> Box<dyn sim::Device> {
    // 1 MiB, 10 us per request.
    let model: DeviceModel = toml::from_str("[null]\ncapacity = \"1MiB\"").unwrap();
    model.build(&config::device::Context { rng: Rng::new(1, "null") }).unwrap()
}

fn build(trace: &str, options: &str) -> Result<Box<dyn Workload + Send>, String> {
    let text = format!("[trace]\nfile = \"t.trace\"\n{options}");
    let model: WorkloadModel = toml::from_str(&text).map_err(|e| e.to_string())?;
    let bytes = trace.as_bytes().to_vec();
    let open = |name: &str| -> std::io::Result<Box<dyn Read + Send>> {
        assert_eq!(name, "t.trace");
        Ok(Box::new(Cursor::new(bytes.clone())))
    };
    let context = Context { rng: Rng::new(1, "workload"), limits: limits(), open: &open };
    model.build(&context).map_err(|e| e.to_string())
}

/// Replay and return (issue time, request) of every request, the depth reached and the notes.
fn replay(trace: &str, options: &str, start: u64) -> Result<(Log, Vec<String>), String> {
    let mut workload = build(trace, options)?;
    let mut log = Log::default();
    simulate(&mut *null(), &mut workload, Nanos(start), Stop::default(), &mut log)
        .map_err(|e| e.to_string())?;
    Ok((log, workload.notes()))
}

/// `count` requests of 4 KiB, 1 us apart, MQSim format.
fn burst(count: u64) -> String {
    (0..count).fold(String::new(), |mut text, i| {
        let _ = writeln!(text, "{} 0 {} 8 1", 5_000_000 + i * 1000, i * 8);
        text
    })
}

fn times(log: &Log) -> Vec<u64> {
    log.issued.iter().map(|issue| issue.0).collect()
}

#[test]
fn timestamps_count_from_the_first_request_and_scale() {
    let (log, notes) = replay(&burst(4), "", 0).unwrap();
    assert_eq!(times(&log), [0, 1000, 2000, 3000]);
    assert!(notes.is_empty(), "{notes:?}");
    let half = "replay.timestamps.scale = 0.5";
    assert_eq!(times(&replay(&burst(4), half, 0).unwrap().0), [0, 500, 1000, 1500]);
    // From the recording's own start, 5 ms before.
    let from_start = "replay.timestamps.from_start = true";
    let (log, _) = replay(&burst(2), from_start, 7).unwrap();
    assert_eq!(times(&log), [5_000_007, 5_001_007]);
    let both = "replay.timestamps = { from_start = true, scale = 0.5 }\nfirst = 1";
    assert_eq!(times(&replay(&burst(2), both, 0).unwrap().0), [2_500_500]);
    let epoch = "1700000000000000000 0 0 8 1\n";
    let error = replay(epoch, from_start, 0).err().unwrap();
    assert!(error.contains("1700000000s after the trace's time 0"), "{error}");
    // What no clock of ours holds is refused.
    let late = "1000 0 0 8 1\n3200000000000000000 0 0 8 1\n";
    let error = replay(late, "", 0).err().unwrap();
    assert!(error.contains("line 2: it comes more than 100 years after the first"), "{error}");
    // A run that starts late shifts everything.
    assert_eq!(times(&replay(&burst(3), half, 777).unwrap().0), [777, 1277, 1777]);
}

#[test]
fn times_that_go_back_issue_in_order() {
    let text = "100 0 0 8 1\n900 0 8 8 1\n500 0 16 8 1\n50 0 24 8 1\n1000 0 32 8 1\n";
    let (log, notes) = replay(text, "", 0).unwrap();
    assert_eq!(times(&log), [0, 800, 800, 800, 900]);
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(notes[0].contains("1 requests lie before the first one in time"), "{notes:?}");
}

#[test]
fn a_closed_loop_reaches_its_depth_and_never_exceeds_it() {
    for depth in [1, 3, 16] {
        let options = format!("replay.closed-loop.depth = {depth}");
        let (log, _) = replay(&burst(64), &options, 0).unwrap();
        assert_eq!((log.deepest, log.issued.len()), (depth, 64));
        // 10 us per request, `depth` at a time.
        assert_eq!(log.issued.last().unwrap().0, 63 / depth as u64 * 10_000);
    }
}

#[test]
fn back_to_back_waits_for_the_completion_and_the_pause() {
    let (log, _) = replay(&burst(3), "replay = \"back-to-back\"", 0).unwrap();
    assert_eq!(times(&log), [0, 10_000, 20_000]);
    let pause = "replay.back-to-back.pause = \"5us\"";
    let (log, _) = replay(&burst(3), pause, 1_000_000).unwrap();
    assert_eq!(times(&log), [1_000_000, 1_015_000, 1_030_000]);
}

/// A recording of a device that takes 100 us for a read and 290 us for a write: (us, process,
/// action, flags, sector).
const RECORDED: [(u64, u32, &str, &str, u64); 15] = [
    (0, 1, "Q", "R", 0),
    (10, 2, "Q", "W", 100),
    (12, 2, "Q", "W", 200),
    (14, 2, "Q", "W", 300),
    (100, 0, "C", "R", 0),
    (130, 1, "Q", "R", 8),
    (230, 0, "C", "R", 8),
    (240, 3, "Q", "WS", 400),
    (260, 1, "Q", "R", 16),
    (300, 0, "C", "W", 100),
    (305, 0, "C", "W", 200),
    (310, 2, "Q", "W", 500),
    (360, 0, "C", "R", 16),
    (500, 4, "Q", "R", 600),
    (530, 0, "C", "WS", 400),
];

fn recorded() -> String {
    RECORDED.iter().fold(String::new(), |mut text, (us, pid, action, flags, sector)| {
        let name = if *action == "C" { "0" } else { "p" };
        let _ =
            writeln!(text, "8,0 0 1 0.000{us:03}000 {pid} {action} {flags} {sector} + 8 [{name}]");
        text
    })
}

#[test]
fn dependencies_keep_computing_time_and_leave_out_the_old_devices_time() {
    let near = "replay.dependencies.handover = \"50us\"";
    let (log, notes) = replay(&recorded(), near, 0).unwrap();
    let issued: Vec<_> = log.issued.iter().map(|(at, r)| (at / 1000, r.lba.0)).collect();
    assert_eq!(
        issued,
        [
            (0, 0),
            (10, 100), // nothing before it: its recorded time
            (12, 200), // as long after the one before as it was
            (14, 300),
            (27, 500), // had no room until 200 was written, at 22 now
            (40, 8),   // 30 us of computing
            (60, 400), // woken by another process's answer, at 50 now
            (80, 16),
            (500, 600),
        ]
    );
    assert!(notes.iter().any(|n| n.contains("4 of 9 requests follow a completion")), "{notes:?}");
    // Without a handover only those count that a process waited for itself.
    let own = "replay.dependencies.handover = \"0us\"";
    let issued: Vec<_> = replay(&recorded(), own, 1_000_000).unwrap().0.issued;
    let at = |lba| issued.iter().find(|(_, r)| r.lba.0 == lba).unwrap().0 - 1_000_000;
    assert_eq!((at(400), at(500), at(16)), (240_000, 14_000 + 296_000, 80_000));
}

#[test]
fn dependencies_share_the_cores_that_they_are_given() {
    // Two processes compute for 1 ms each after an answer to both, apart when they were recorded.
    let text = "8,0 0 1 0.000000 1 Q R 0 + 8 [p]\n8,0 0 1 0.000000 2 Q R 8 + 8 [p]\n\
                8,0 0 1 0.005000 0 C R 0 + 8 [0]\n8,0 0 1 0.006000 1 Q R 16 + 8 [p]\n\
                8,0 0 1 0.009000 0 C R 8 + 8 [0]\n8,0 0 1 0.010000 2 Q R 24 + 8 [p]\n\
                8,0 0 1 0.012000 0 C R 16 + 8 [0]\n8,0 0 1 0.013000 0 C R 24 + 8 [0]\n";
    let last = |cores: &str| {
        let options = format!("[trace.replay.dependencies]\n{cores}");
        let issued = replay(text, &options, 0).unwrap().0.issued;
        issued.iter().map(|(at, _)| at / 1000).collect::<Vec<_>>()
    };
    assert_eq!(last(""), [0, 0, 1010, 1010]);
    assert_eq!(last("cores = 2"), [0, 0, 1010, 1010]);
    assert_eq!(last("cores = 1"), [0, 0, 2010, 2010]);
    let error = replay(text, "replay.dependencies.cores = 0", 0).map(drop).unwrap_err();
    assert!(error.contains("cores: expected 1 to 4096"), "{error}");
}

/// What process 1 keeps in its plug, and process 2 at the same time: (us, process, action, sector).
const PLUGGED: [(u64, u32, &str, u64); 16] = [
    (0, 9, "Q", 0),
    (5, 0, "C", 0),
    (10, 1, "Q", 100), // before the plug
    (11, 1, "Q", 200),
    (11, 1, "P", 0),
    (12, 2, "Q", 500),
    (12, 2, "P", 0),
    (13, 1, "Q", 208),
    (14, 2, "U", 0),
    (15, 1, "Q", 216),
    (17, 1, "U", 0),
    (18, 1, "Q", 300), // behind it
    (60, 0, "C", 500),
    (70, 0, "C", 100),
    (80, 0, "C", 200),
    (90, 0, "C", 300),
];

#[test]
fn dependencies_issue_at_once_what_was_plugged_together() {
    let mut text = String::new();
    for (us, pid, action, sector) in PLUGGED {
        let at = format!("8,0 0 1 0.000{us:03}000 {pid} {action}");
        let sectors = if (action, sector) == ("C", 200) { 24 } else { 8 };
        let _ = match action {
            "P" => writeln!(text, "{at} N [p]"),
            "U" => writeln!(text, "{at} N [p] 1"),
            _ => writeln!(text, "{at} WS {sector} + {sectors} [p]"),
        };
    }
    let (log, _) = replay(&text, "replay = \"dependencies\"", 0).unwrap();
    let issued: Vec<_> = log.issued.iter().map(|(at, r)| (at / 1000, r.lba.0)).collect();
    // The device takes 10 us, not 5, for the first.
    let later = |at: u64| at + 5;
    assert_eq!(
        issued,
        [
            (0, 0),
            (later(10), 100),
            (later(14), 500),
            (later(17), 200),
            (later(17), 208),
            (later(17), 216),
            (later(18), 300)
        ]
    );
}

#[test]
fn dependencies_need_completions() {
    let only: String =
        recorded().lines().filter(|l| !l.contains(" C ")).map(|l| format!("{l}\n")).collect();
    let error = replay(&only, "replay = \"dependencies\"", 0).map(drop).unwrap_err();
    assert!(error.contains("does not say when requests completed"), "{error}");
}

#[test]
fn a_trace_without_times_needs_another_pace() {
    let arc = "10 8 0 0\n20 8 0 1\n";
    let error = replay(arc, "", 0).map(drop).unwrap_err();
    assert!(error.contains("replay: t.trace: the trace has no times"), "{error}");
    let (log, notes) = replay(arc, "replay = \"closed-loop\"", 0).unwrap();
    assert_eq!(log.issued.len(), 2);
    assert!(notes[0].contains("every request is a read"), "{notes:?}");
}

/// The device has 2048 sectors.
const BEYOND: &str = "0 0 2040 8 0\n1000 0 2051 8 0\n2000 0 2044 8 0\n3000 0 10241 2000 0\n";

fn places(log: &Log) -> Vec<(u64, u32)> {
    log.issued.iter().map(|(_, r)| (r.lba.0, r.sectors)).collect()
}

#[test]
fn wrapping_keeps_length_and_alignment_and_is_said_aloud() {
    let (log, notes) = replay(BEYOND, "", 0).unwrap();
    // 2051 = 2048 + 3; 2044 + 8 crosses the end and moves back by 8; 10241 + 2000 = 5 * 2048 + 1.
    assert_eq!(places(&log), [(2040, 8), (3, 8), (2036, 8), (1, 2000)]);
    assert_eq!(
        notes,
        ["t.trace: 3 of 4 addresses were wrapped around: the trace reaches to 5.98 MiB, \
          the device ends at 1 MiB; places far apart became one; take a larger device, or \
          remap = \"scale\""]
    );
}

#[test]
fn scaling_maps_the_whole_span_into_the_device() {
    let (log, notes) = replay(BEYOND, "remap = \"scale\"", 0).unwrap();
    let limits = limits();
    assert!(log.issued.iter().all(|(_, r)| limits.check(r).is_ok()));
    // Span 12241 sectors = 1531 blocks of 8 onto 256: block 255 to 42, 256 to 42, 255 to 42.
    assert_eq!(places(&log)[..3], [(336, 8), (339, 8), (340, 8)]);
    assert!(notes[0].contains("4 of 4 addresses were scaled down"), "{notes:?}");
    let (log, notes) = replay(&burst(4), "remap = \"scale\"", 0).unwrap();
    assert_eq!(places(&log), [(0, 8), (8, 8), (16, 8), (24, 8)]);
    assert!(notes.is_empty(), "a trace that fits is not touched: {notes:?}");
}

#[test]
fn refusing_names_line_and_value() {
    let error = replay(BEYOND, "remap = \"refuse\"", 0).map(drop).unwrap_err();
    assert_eq!(
        error,
        "t.trace, record at line 2: sector 2051 + 8 lies beyond the device's end at sector 2048; \
         take a larger device, or remap = \"wrap\" or \"scale\""
    );
    let error = replay("0 0 0 2049 0\n", "", 0).map(drop).unwrap_err();
    assert!(error.contains("sector 0 + 2049 lies beyond"), "{error}");
}

#[test]
fn one_device_of_several_can_be_picked() {
    let text = "0 1 0 8 0\n1000 2 8 8 0\n2000 1 16 8 0\n";
    let (log, notes) = replay(text, "", 0).unwrap();
    assert_eq!(log.issued.len(), 3);
    assert!(notes[0].contains("laid over each other"), "{notes:?}");
    let (log, notes) = replay(text, "device = \"1\"", 0).unwrap();
    assert_eq!(places(&log), [(0, 8), (16, 8)]);
    assert!(notes.is_empty(), "{notes:?}");
    assert_eq!(times(&replay(text, "device = \"2\"", 0).unwrap().0), [0]);
    let error = replay(text, "device = \"7\"", 0).map(drop).unwrap_err();
    assert!(error.contains("no request goes to device \"7\""), "{error}");
}

#[test]
fn first_and_requests_cut_out_a_part() {
    let (log, _) = replay(&burst(3000), "first = 2000\nrequests = 3", 0).unwrap();
    assert_eq!(places(&log)[0].0, 16_000 % 2048);
    assert_eq!(times(&log), [0, 1000, 2000]);
    let error = replay(&burst(5), "first = 9", 0).map(drop).unwrap_err();
    assert!(error.contains("the trace ends after 5 requests, before `first` = 9"), "{error}");
}

#[test]
fn damage_in_the_middle_ends_the_run_with_its_place() {
    let mut text = burst(2000);
    text.push_str("9000000 0 12x 8 1\n");
    let error = replay(&text, "", 0).map(drop).unwrap_err();
    assert!(error.starts_with("t.trace:2001:11: \"12x\"; expected a sector number"), "{error}");
}

#[test]
fn wrong_parameters_name_the_key() {
    let errors = [
        ("replay.timestamps.scale = -1.0", "replay.timestamps.scale: expected a factor"),
        ("replay.closed-loop.depth = 0", "replay.closed-loop.depth: expected at least 1"),
        ("replay = \"fast\"", "unknown variant `fast`, expected one of `timestamps`"),
        ("format = \"blkpars\"", "unknown variant `blkpars`"),
        ("remap = \"fold\"", "unknown variant `fold`"),
    ];
    for (options, expected) in errors {
        let error = replay(&burst(2), options, 0).map(drop).unwrap_err();
        assert!(error.contains(expected), "{options}: {error}");
    }
}

#[test]
fn the_same_trace_gives_the_same_digest() {
    let run = || {
        let mut workload = build(&burst(500), "replay = \"closed-loop\"").unwrap();
        simulate(&mut *null(), &mut workload, Nanos(0), Stop::default(), &mut NoProbe).unwrap()
    };
    assert_eq!(run(), run());
    assert_eq!(Lba(run().requests), Lba(500));
}
