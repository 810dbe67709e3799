use sim::{Nanos, Op, Request};

use crate::fio::tests::{micros, plan, run, run_by, run_table};

#[test]
fn fsync_of_a_table_drains_flushes_and_goes_on() {
    let job = "rw = 'write'\nsize = '64KiB'\nfsync = 4\niodepth = 2\nend_fsync = 1";
    let issued = run_table(job, 1000);
    let ops: Vec<Op> = issued.iter().map(|(_, r)| r.op).collect();
    let flushes: Vec<usize> = (0..ops.len()).filter(|&i| ops[i] == Op::Flush).collect();
    // As in fio no flush follows the last write, except the one of end_fsync.
    assert_eq!(flushes, [4, 9, 14, 19]);
    assert_eq!(micros(&issued)[..7], [0, 0, 10, 10, 20, 30, 30]);
    // fio 3.33 counts 63 flushes for 256 writes.
    let many = run_by("psync", "[b]\nrw=write\nbs=4k\nsize=1m\nfsync=4", 1000);
    assert_eq!(many.iter().filter(|(_, r)| r.op == Op::Flush).count(), 63);
    let fua = run("[a]\nrw=rw\nsync=1", 100);
    assert!(fua.iter().all(|(_, r)| r.fua == (r.op == Op::Write)));
}

#[test]
fn flushes_of_data_and_of_all_are_two_keys() {
    let flushes = |keys: &str| {
        let issued = run(&format!("[a]\nrw=write\nbs=4k\nsize=48k\n{keys}"), 1000);
        let at = |(nth, (_, request)): (usize, &(Nanos, Request))| {
            (request.op == Op::Flush).then_some(nth)
        };
        issued.iter().enumerate().filter_map(at).collect::<Vec<_>>()
    };
    assert_eq!(flushes("fsync=4\nfdatasync=0"), [4, 9]);
    assert_eq!(flushes("fdatasync=4\nfsync=0"), [4, 9]);
    // After 4, 6, 8 writes; one flush where both are due, and none after the last.
    assert_eq!(flushes("fsync=4\nfdatasync=6"), [4, 7, 10]);
}

#[test]
fn a_flush_meets_what_is_in_flight_as_the_engine_has_it() {
    let job = "[a]\nrw=randwrite\nbs=4k\nsize=1m\niodepth=32\nfsync=8\nnumber_ios=16";
    let of = |issued: &[(Nanos, Request)]| {
        let flush = issued.iter().position(|(_, r)| r.op == Op::Flush).unwrap();
        (flush, issued[flush].0.0 / 1000, issued[flush + 1].0.0 / 1000, issued.len())
    };
    // libaio calls fsync(2) with the writes in flight, and nothing is submitted until it returns.
    assert_eq!(of(&run_by("libaio", job, 100)), (8, 0, 10, 17));
    // io_uring submits it as it does the writes, and goes on.
    assert_eq!(of(&run_by("io_uring", job, 100)), (8, 0, 0, 17));
    assert_eq!(of(&run_by("posixaio", job, 100)), (8, 0, 0, 17));
    // With offload it is a thread of its own that waits.
    assert_eq!(of(&run(job, 100)), (8, 0, 0, 17));
    // A queue that is full has no room for it.
    assert_eq!(of(&run_by("libaio", &job.replace("=32", "=8"), 100)), (8, 10, 20, 17));
    assert_eq!(of(&run_by("psync", &job.replace("=32", "=1"), 100)), (8, 80, 90, 17));
    let table = "rw = 'randwrite'\nsize = '1MiB'\niodepth = 32\nfsync = 8\nnumber_ios = 16";
    assert_eq!(of(&run_table(table, 100)), (8, 10, 20, 17));
}

#[test]
fn an_engine_waits_for_its_trims() {
    let job = "[a]\nrw=randtrim\nbs=4k\nsize=1m\niodepth=32\nnumber_ios=3";
    for engine in ["libaio", "io_uring", "posixaio", "psync"] {
        assert_eq!(micros(&run_by(engine, job, 100)), [0, 10, 20], "{engine}");
    }
    assert_eq!(micros(&run(job, 100)), [0, 0, 0]);
    let table = "rw = 'randtrim'\nsize = '1MiB'\niodepth = 32\nnumber_ios = 3";
    assert_eq!(micros(&run_table(table, 100)), [0, 0, 0]);
    // The write of a range comes when its trim is done, and the next trim beside that write.
    let both = "[a]\nrw=randtrimwrite\nbs=4k\nsize=1m\niodepth=8\nnumber_ios=3";
    let issued = run_by("libaio", both, 100);
    assert_eq!(micros(&issued), [0, 10, 10, 20, 20, 30]);
    assert!(issued.chunks(2).all(|pair| pair[0].1.lba == pair[1].1.lba));
    // Each is taken note of as it completes, so a pause comes behind it.
    let pauses = format!("{job}\nthinktime=40");
    assert_eq!(micros(&run_by("libaio", &pauses, 100)), [0, 50, 100]);
}

#[test]
fn the_engine_of_a_job_file_says_whether_its_depth_counts() {
    let of = |keys: &str| {
        let plan = plan(1 << 30, &format!("[a]\nrw=randread\niodepth=8\n{keys}")).unwrap();
        (plan.jobs[0].depth, plan.notes)
    };
    for engine in ["libaio", "io_uring", "posixaio", "null"] {
        let (depth, notes) = of(&format!("ioengine={engine}"));
        assert_eq!((depth, notes.len()), (8, 1), "{engine}: {notes:?}");
    }
    for engine in ["psync", "sync", "mmap", "pvsync2"] {
        let (depth, notes) = of(&format!("ioengine={engine}"));
        let told = format!("job \"a\": ioengine={engine} takes no notice of iodepth=8: one");
        assert!(depth == 1 && notes[1].starts_with(&told), "{depth}: {notes:?}");
        assert!(notes[1].contains("ioengine=libaio has as many"), "{notes:?}");
    }
    let (depth, notes) = of("");
    let told = "job \"a\": no ioengine is named, and fio's usual one, psync, takes no notice";
    assert!(depth == 1 && notes.len() == 1 && notes[0].starts_with(told), "{depth}: {notes:?}");
    // fio gives each of the requests a thread.
    assert_eq!(of("ioengine=psync\nio_submit_mode=offload").0, 8);
    let one = plan(1 << 30, "[a]\nrw=randread").unwrap();
    assert_eq!((one.jobs[0].depth, one.notes.len()), (1, 0));
}
