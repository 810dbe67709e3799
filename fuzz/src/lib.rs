//! What the fuzz targets share. A target is one file in `fuzz_targets/` and one `[[bin]]` in
//! `Cargo.toml`; its seeds, if any, are in `seeds/<target>/`.

pub mod image;
pub mod vhost_user;

use attach::Extent;
use attach::frontend::loop_device::wire as fuse;
use attach::frontend::nbd::{Ask, ExportInfo, Machine, Parsed};
use disk::{demerit, disksim};
use models::registry::ElevatorPolicy;
use sim::{Bytes, Completion, Demand, Limits, Nanos, Rng, Workload};
use study::PlannedStudy;
use trace::TraceFormat;
use trace::{Context, LocalityMeter, SummaryMeter, open};
use workload::fio;

/// Read `bytes` as the format called `name`.
pub fn read_as(name: &str, bytes: &[u8]) {
    let format = TraceFormat::from_name(name).expect("a target names a registered format");
    let with_responses = match format.clone() {
        TraceFormat::Blkparse(p) => {
            Some(TraceFormat::Blkparse(trace::blkparse::Params { responses: true, ..p }))
        }
        TraceFormat::Blktrace(p) => {
            Some(TraceFormat::Blktrace(trace::blktrace::Params { responses: true, ..p }))
        }
        TraceFormat::Wiscsee(_) => {
            Some(TraceFormat::Wiscsee(trace::wiscsee::Params { responses: true }))
        }
        _ => None,
    };
    let plain = read(Some(&format), bytes);
    if let Some(format) = with_responses {
        // Pairing looks at more lines, so it may find damage where plain reading does not; it may
        // delay requests, but neither invents nor loses any.
        if let (Some(plain), Some(paired)) = (plain, read(Some(&format), bytes)) {
            assert_eq!(plain, paired, "looking up responses changed the requests");
        }
    }
}

/// Read `bytes` as the output of every program that a study knows.
pub fn read_programs(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for program in study::program::Program::all() {
        let Ok(numbers) = program.read(&text) else { continue };
        assert!(numbers.values().all(|value| value.is_finite()), "{program:?}: {numbers:?}");
    }
}

/// Give `bytes`, read as a recorded queue, to the elevator that the first of them chooses. Nothing
/// that can be written there makes it panic.
pub fn compare_queue(bytes: &[u8]) {
    let Some((&first, recording)) = bytes.split_first() else { return };
    let read = Box::new(std::io::Cursor::new(recording.to_vec()));
    let Ok(events) = trace::queue_events("bytes", read) else { return };
    let name = ElevatorPolicy::NAMES[usize::from(first) % ElevatorPolicy::NAMES.len()];
    let policy = ElevatorPolicy::from_name(name).expect("it is registered");
    let elevator = models::device::elevator::Params { policy, ..Default::default() };
    let Ok(result) = elevator.beside(&events, true) else { return };
    assert!(result.same_choices <= result.choices() && result.real_choices <= result.choices());
}

/// Read `bytes` as whatever they look like.
pub fn recognise(bytes: &[u8]) {
    read(None, bytes);
}

/// The number of requests read; `None` when the trace is damaged.
fn read(format: Option<&TraceFormat>, bytes: &[u8]) -> Option<u64> {
    let context = Context { rng: Rng::new(1, "fuzz"), responses: true };
    let input = Box::new(std::io::Cursor::new(bytes.to_vec()));
    let mut trace = open("fuzz", input, format, &context).ok()?;
    let (mut summary, mut batch) = (SummaryMeter::default(), Vec::new());
    let mut locality = LocalityMeter::new(1 << 30);
    let mut requests = 0;
    while trace.fill(&mut batch).ok()? {
        for record in batch.drain(..) {
            assert!(record.request.end().0 < 1 << 55, "an address escaped its check");
            requests += 1;
            // Absurd but legal sizes cost the meters time in proportion to them.
            if record.request.sectors < 1 << 20 {
                summary.add(&record);
                locality.add(&record);
            }
        }
    }
    locality.finish();
    assert!(summary.finish(&trace).requests <= requests);
    Some(requests)
}

/// Read `bytes` as a fio job file, plan it on a device of 1 GiB, and let it issue what it wants.
pub fn run_job_file(bytes: &[u8]) {
    let limits = Limits {
        capacity: Bytes::from_gib(1),
        block_bytes: 512,
        queue_depth_max: 32,
        rotational: false,
        write_cache: true,
        discard: true,
    };
    let open = |_: &str| Ok(Box::new(std::io::Cursor::new(bytes.to_vec())) as Box<_>);
    let context = workload::Context { rng: Rng::new(1, "fuzz"), limits, open: &open };
    let params = fio::Params { file: Some("fuzz".into()), ..fio::Params::default() };
    let Ok(plan) = params.plan(&context) else { return };
    let mut workload = plan.start();
    let mut inside = std::collections::VecDeque::new();
    let mut now = Nanos::ZERO;
    for _ in 0..2_000 {
        match workload.next(now).expect("jobs do not fail") {
            Demand::Issue(request) => {
                assert_eq!(limits.check(&request), Ok(()), "a request left the device");
                inside.push_back(request);
            }
            Demand::At(time) => {
                assert!(time > now, "asked for a moment that is not later");
                now = time;
            }
            Demand::Wait => {
                let request = inside.pop_front().expect("nothing can complete");
                workload.complete(&request, Completion { id: request.id, at: now });
            }
            Demand::End => break,
        }
    }
}

/// Read `bytes` as DiskSim's description of a disk, and replay a trace on the disk. The four texts
/// (specification, model, seek table, trace) stand in one input, apart by form feeds.
pub fn read_disk(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut texts = text.split('\x0c');
    let [specs, model, seek, trace] = std::array::from_fn(|_| texts.next().unwrap_or_default());
    let _ = disksim::model_file(specs);
    let _ = disksim::seek_file(model);
    let trace = disksim::trace(trace);
    let Ok(params) = disksim::params(specs, model, seek) else { return };
    let context = config::device::Context { rng: Rng::new(1, "fuzz") };
    let (Ok(mut device), Ok(trace)) = (params.build(&context), trace) else { return };
    if trace.iter().all(|sample| sample.sectors < 1 << 20) {
        let _ = demerit::replay(&mut *device, &trace[..trace.len().min(200)]);
    }
}

/// Read `bytes` as a study.
pub fn plan_study(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Err(failure) = PlannedStudy::parse("study.toml", text) {
        assert!(!failure.to_string().is_empty());
    }
}

/// Read `bytes` as a part, by a study of each device that can have one.
pub fn plan_part(bytes: &[u8]) {
    let path = std::env::temp_dir().join(format!("blocklab-fuzz-part-{}.toml", std::process::id()));
    std::fs::write(&path, bytes).expect("the temporary folder takes a file");
    for model in ["ssd", "hdd", "disksim-ssd"] {
        let study = format!("[device.{model}]\npart = {path:?}\n[workload.fio]\nrw = 'read'\n");
        let _ = PlannedStudy::parse("study.toml", &study);
    }
    let _ = std::fs::remove_file(&path);
}

/// Size of the devices below.
const DEVICE_BYTES: u64 = 1 << 20;

/// What a client says that agrees to structured replies and block status of the export `a`.
pub fn nbd_agreement() -> Vec<u8> {
    let mut out = 3u32.to_be_bytes().to_vec();
    let mut option = |number: u32, data: &[u8]| {
        out.extend(b"IHAVEOPT");
        out.extend([number.to_be_bytes(), (data.len() as u32).to_be_bytes()].concat());
        out.extend(data);
    };
    option(8, b"");
    option(10, b"\0\0\0\x01a\0\0\0\x01\0\0\0\x0fbase:allocation");
    option(7, b"\0\0\0\x01a\0\0");
    out
}

/// Serve what a client sends, after what it `said` before, in pieces that its bytes decide. No
/// request leaves its export, no answer is out of proportion, and the pieces do not matter.
pub fn serve_nbd(bytes: &[u8], said: &[u8]) {
    let (&piece, sent) = bytes.split_first().unwrap_or((&0, &[]));
    let whole = [said, sent].concat();
    let at_once = nbd_session(&whole, whole.len().max(1));
    let in_pieces = nbd_session(&whole, usize::from(piece) + 1);
    assert_eq!(at_once, in_pieces, "the size of the pieces changed the answers");
}

/// Every byte that the server of a session answers.
fn nbd_session(sent: &[u8], piece: usize) -> Vec<u8> {
    let export = |name: &str, read_only: bool| ExportInfo {
        name: name.into(),
        description: "a drive".into(),
        bytes: DEVICE_BYTES,
        minimum: 512,
        preferred: 4096,
        maximum: 32 << 20,
        discard: !read_only,
        rotational: read_only,
        read_only,
    };
    let exports = [export("a", false), export("b", true)];
    let (mut out, mut input) = (Vec::new(), Vec::new());
    let mut machine = Machine::new(&mut out);
    for piece in sent.chunks(piece) {
        input.extend(piece);
        loop {
            let used = match machine.step(&input, &exports, &mut out) {
                Parsed::Need => break,
                Parsed::Over => return out,
                Parsed::Used(bytes) | Parsed::Agreed(bytes) | Parsed::Payload { bytes, .. } => {
                    bytes
                }
                Parsed::Request(bytes, request) => {
                    let end = request.offset + u64::from(request.bytes);
                    let flush = request.ask == Ask::Flush;
                    assert!(end <= DEVICE_BYTES || flush, "a request left its export");
                    let extent = Extent { bytes: u64::from(request.bytes), hole: true };
                    match request.ask {
                        Ask::Read => {
                            let (offset, bytes) = (request.offset, request.bytes);
                            machine.before_data(request.cookie, offset, bytes, &mut out);
                        }
                        Ask::BlockStatus => {
                            machine.block_status(request.cookie, &[extent], &mut out);
                        }
                        // Its answer comes after its data.
                        Ask::Write => {}
                        _ => machine.done(request.cookie, Ok(()), &mut out),
                    }
                    bytes
                }
            };
            assert!(used <= input.len(), "more was used than there is");
            input.drain(..used);
        }
    }
    assert!(out.len() < 1000 + 200 * sent.len(), "an answer out of proportion");
    out
}

/// Take `bytes` as a request of the kernel. Nothing leaves its file, and every reply says how long
/// it is.
pub fn serve_fuse(bytes: &[u8]) {
    let file = |name: &str, read_only: bool| fuse::FileInfo {
        name: name.into(),
        bytes: DEVICE_BYTES,
        block_bytes: 4096,
        discard: !read_only,
        read_only,
    };
    let files = [file("a", false), file("b", true)];
    // A right length lets more of them in.
    let mut bytes = bytes.to_vec();
    let length = bytes.len() as u32;
    if let Some(head) = bytes.get_mut(..4).filter(|head| head[3] == 0) {
        head.copy_from_slice(&length.to_ne_bytes());
    }
    match fuse::understand(&bytes, &files) {
        fuse::Ask::Device { file, offset, bytes, data, .. } => {
            assert!(offset + u64::from(bytes) <= files[file].bytes, "a request left its file");
            assert!(data.is_empty() || data.len() == bytes as usize);
        }
        fuse::Ask::Reply(reply) => {
            let length = u32::from_ne_bytes(reply[..4].try_into().expect("four bytes"));
            assert_eq!(length as usize, reply.len());
        }
        fuse::Ask::Nothing | fuse::Ask::Over => {}
    }
}
