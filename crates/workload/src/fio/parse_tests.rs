use super::*;
use crate::fio::options::{BlockSize, READ, WRITE};
use crate::fio::value::Extent;
use sim::{Nanos, Rng};

const FULL: &str = "; a server
[global]
ioengine=libaio   # said aloud
thread
rw=randrw
bs=4k,8k
runtime=30

[reader]
rwmixread=70
iodepth = 16
size=10%
norandommap

[global]
thinktime=50

[writer]
stonewall
rw=randwrite
bssplit=4k/50:64k/
random_distribution=zipf:1.2
time_based
numjobs=2
";

fn error(text: &str) -> String {
    parse_job_file("job.fio", text).unwrap_err().to_string()
}

#[test]
fn sections_inherit_from_the_globals_above_them() {
    let file = parse_job_file("job.fio", FULL).unwrap();
    let [reader, writer] = &file.jobs[..] else { panic!("two jobs") };
    assert_eq!((reader.name.as_str(), reader.options.iodepth), ("reader", 16));
    assert_eq!(reader.options.bs[READ], BlockSize::Fixed(4096));
    assert_eq!(reader.options.bs[WRITE], BlockSize::Fixed(8192));
    assert_eq!(reader.options.size, Some(Extent::Percent(10)));
    assert!(reader.options.norandommap && !reader.options.stonewall);
    assert_eq!(reader.options.thinktime, Nanos::ZERO, "the second global comes later");
    assert_eq!(writer.options.thinktime, Nanos::from_micros(50));
    assert_eq!(writer.options.runtime, Nanos::from_secs(30));
    assert_eq!(writer.options.rw.does, [false, true, false]);
    assert!(writer.options.stonewall && writer.options.time_based);
    assert_eq!(writer.options.bs[WRITE], BlockSize::Split(vec![(4096, 50.0), (65536, 50.0)]));
}

#[test]
fn harmless_keys_are_said_aloud_once_with_their_line() {
    let notes = parse_job_file("job.fio", FULL).unwrap().notes;
    assert_eq!(notes.len(), 2, "{notes:?}");
    assert!(notes[0].starts_with("job.fio:3: ioengine counts in part: "), "{}", notes[0]);
    let twice = "[a]\nthread=1\n[b]\nthread=0\n";
    assert_eq!(parse_job_file("x", twice).unwrap().notes.len(), 1);
}

#[test]
fn a_variable_in_a_key_without_effect_is_a_remark() {
    for line in ["filename=${DISK}", "filename_format=$jobname.$jobnum.$filenum"] {
        let notes = parse_job_file("x", &format!("[a]\n{line}")).unwrap().notes;
        assert!(notes.len() == 1 && notes[0].contains("has no effect"), "{line}: {notes:?}");
    }
}

#[test]
fn a_refused_key_that_asks_for_nothing_is_a_remark() {
    for line in [
        "verify=0",
        "verify=none",
        "iodepth_batch=1",
        "iodepth_batch_submit=1",
        "iodepth_batch_complete_min=1",
        "exitall=0",
        "rate_min=0",
        "max_open_zones=0",
    ] {
        let notes = parse_job_file("x", &format!("[a]\n{line}")).unwrap().notes;
        let told = "has no effect: with this value it asks for nothing";
        assert!(notes.len() == 1 && notes[0].ends_with(told), "{line}: {notes:?}");
    }
    assert!(parse_job_file("x", "[a]\nzonemode=none").unwrap().notes.is_empty());
}

#[test]
fn a_wrong_file_names_line_value_and_cure() {
    let table = [
        ("[a]\niodpeth=4", "job.fio:2:1: unknown key \"iodpeth\"; did you mean \"iodepth\"?"),
        ("[a]\nbs=4q", "job.fio:2:4: bs: expected a size such as 4k or 1g with one of the units"),
        ("[a]\nrw=randraed", "job.fio:2:4: rw: expected one of read, write"),
        ("[a]\nrw=randraed", "did you mean \"randread\"?"),
        ("[a]\niodepth=0", "job.fio:2:9: iodepth: expected a whole number from 1 to 4294967295"),
        ("[a]\niodepth=-1", "got \"-1\""),
        ("[a]\nruntime=1.5s", "job.fio:2:9: runtime: expected a whole time with one of us, ms"),
        ("[a]\nrwmixread=101", "expected a whole number from 0 to 100, got \"101\""),
        ("[a]\nbs=1000", "job.fio:2:1: job \"a\": block sizes are multiples of 512 bytes"),
        (
            "[a]\nrw=read\nblocksize=4KiB",
            "job.fio:3:1: job \"a\": block sizes are multiples of 512 bytes on a block device; \
             4KiB is 4000 bytes in a job file, as in fio: 4k is binary",
        ),
        ("[a]\nbs=", "job.fio:2:4: bs: expected a value after `=`"),
        ("[a]\nbssplit=4k/60:8k/60", "add up to 120, more than 100"),
        ("[a]\nbsrange=4k", "expected a range such as 4k-64k"),
        ("[a]\ntime_based", "job.fio:2:1: job \"a\": time_based needs a runtime"),
        ("[a]\nrate_process=poisson", "needs a rate or rate_iops"),
        ("[a]\nrate=1m\nrate_iops=5", "job.fio:3:1: job \"a\": rate and rate_iops"),
        ("[a]\nrandom_distribution=zipf:1", "job.fio:2:21: random_distribution: expected a theta"),
        ("[a]\nrandom_distribution=bell", "expected random, zipf:theta"),
        ("[a]\nrandom_distribution=zoned:60/10", "expected shares that add up to 100"),
        ("[a]\nbs=4k\nblocksize=8k", "job.fio:3:1: \"blocksize\" was given in line 2"),
        (
            "[a]\nzonemode=zbd",
            "job.fio:2:10: zonemode: expected none or strided, got \"zbd\": zoned devices are not",
        ),
        ("[a]\nmax_open_zones=8", "\"max_open_zones\" is not supported: zoned devices are not"),
        ("[a]\nexitall", "job.fio:2:1: the key \"exitall\" is not supported"),
        ("[a]\niodepth_batch=0", "job.fio:2:1: the key \"iodepth_batch\" is not supported"),
        ("[a]\nread_iolog=x", "replay a log with [workload.trace] instead"),
        ("[a]\nsize=${SIZE}", "job.fio:2:1: variables and expressions are not supported"),
        ("[a]\nioengine=$ENGINE", "variables and expressions are not supported"),
        ("[a]\nbs=(4*1024)", "variables and expressions are not supported"),
        ("include other.fio", "job.fio:1:1: include is not supported"),
        ("rw=read", "job.fio:1:1: expected a section such as [global]"),
        ("[a\nrw=read", "job.fio:1:1: expected \"]\""),
        ("[]\nrw=read", "job.fio:1:2: expected a job's name"),
        ("[global]\nrw=read\n", "job.fio:2:1: no job: expected a section such as [randread]"),
        ("", "job.fio:1:1: no job"),
        ("[global]\nkb_base=10\n[a]", "job.fio:2:1: kb_base: expected 1024 or 1000, got \"10\""),
    ];
    for (text, expected) in table {
        let got = error(text);
        assert!(got.contains(expected), "{text:?}\n got: {got}\nwant: {expected}");
    }
}

#[test]
fn a_section_whose_name_begins_with_global_is_global() {
    let text = "[global-read]\nbs=64k\n[j]\nrw=read\nnumber_ios=3\n";
    let file = parse_job_file("x", text).unwrap();
    let [job] = &file.jobs[..] else { panic!("one job, got {}", file.jobs.len()) };
    assert_eq!((job.name.as_str(), &job.options.bs[READ]), ("j", &BlockSize::Fixed(65536)));
    assert_eq!(parse_job_file("x", "[my-global]\nrw=read").unwrap().jobs.len(), 1);
}

#[test]
fn kb_base_holds_for_the_whole_job_wherever_it_stands() {
    let file = parse_job_file("x", "[a]\nsize=4k\nkb_base=1000\n").unwrap();
    assert_eq!(file.jobs[0].options.size, Some(Extent::Bytes(4000)));
}

/// Elevators tell priorities apart, so that of some requests is no matter of the host.
#[test]
fn priorities_of_some_requests_are_refused() {
    for key in ["cmdprio_percentage=30", "cmdprio_class=1", "cmdprio=2", "cmdprio_bssplit=4k/50"] {
        let error = parse_job_file("x", &format!("[a]\n{key}\n")).unwrap_err();
        assert_eq!(error.line, 2);
        let advice = "a job with prioclass and prio";
        assert!(error.to_string().contains(advice), "{error}");
    }
}

#[test]
fn no_damage_makes_the_parser_panic() {
    let mut rng = Rng::new(1, "damage");
    for end in 0..=FULL.len() {
        let _ = parse_job_file("x", &FULL[..end]);
    }
    let alphabet = b"[]=:;#/,%\n .k0919-abz\xc3";
    for _ in 0..20_000 {
        let mut bytes = FULL.as_bytes().to_vec();
        for _ in 0..=rng.below(8) {
            let at = rng.below(bytes.len() as u64) as usize;
            let byte = alphabet[rng.below(alphabet.len() as u64) as usize];
            match rng.below(3) {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
        }
        if let Err(error) = parse_job_file("x", &String::from_utf8_lossy(&bytes)) {
            assert!(error.line >= 1 && error.column >= 1 && !error.message.is_empty());
        }
    }
}
