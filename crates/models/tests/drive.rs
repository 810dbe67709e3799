//! `Drive` as somebody outside uses it.

use models::{Bytes, Completion, Drive, DriveBuilder, Lba, Nanos, Request, RequestId, parts};

const PART: &str = "tlc-3d-96";
const MS: Nanos = Nanos::from_millis(1);

/// Writes of 16 KiB, a third as many reads, and a flush now and then, each 20 us.
fn requests(sectors: u64) -> impl Iterator<Item = (Nanos, Request)> {
    (0..3_000u64).map(move |n| {
        let lba = Lba(n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (sectors / 32 - 1) * 32);
        let request = match n % 64 {
            63 => Request::flush(),
            n if n % 4 == 3 => Request::read(lba, 8),
            _ => Request::write(lba, 32),
        };
        (Nanos(n * 20_000), request)
    })
}

/// Until nothing is inside.
fn finish(drive: &mut Drive, all: &mut Vec<Completion>) {
    while let Some(at) = drive.next_event() {
        all.extend(drive.advance(at));
    }
}

fn completions(
    mut drive: Drive,
    mut between: impl FnMut(Drive, usize) -> Drive,
) -> Vec<Completion> {
    let mut all = Vec::new();
    for (n, (at, request)) in requests(drive.limits().sectors()).enumerate() {
        drive.submit(at, request).unwrap();
        drive = between(drive, n);
        if n % 7 == 0 {
            all.extend(drive.advance(at));
        }
    }
    finish(&mut drive, &mut all);
    assert_eq!(drive.in_flight(), 0);
    all
}

/// A sixteenth of the part, so that it is soon full.
fn small(seed: u64) -> DriveBuilder {
    let part = Drive::part(PART).set("ssd.geometry.blocks_per_plane", "16");
    part.set("ssd.over_provisioning", "40%").seed(seed)
}

fn aged() -> Drive {
    small(3).filled(100).overwritten(20).build().unwrap()
}

#[test]
fn every_shipped_part_is_a_drive() {
    assert!(parts().len() > 50);
    for (name, _) in parts() {
        let mut drive = Drive::part(name).build().unwrap_or_else(|why| panic!("{name}: {why}"));
        let id = drive.submit(MS, Request::read(Lba(0), 8)).unwrap();
        let mut all = Vec::new();
        finish(&mut drive, &mut all);
        assert!(all.len() == 1 && all[0].id == id && all[0].at >= MS, "{name}: {all:?}");
    }
}

/// However time is cut, and also saved and cloned within.
#[test]
fn the_same_requests_have_the_same_completions() {
    let plain = completions(aged(), |drive, _| drive);
    assert_eq!(plain.len(), 3_000);
    let mut ids: Vec<RequestId> = plain.iter().map(|done| done.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 3_000, "each completes once");
    assert!(plain.iter().max_by_key(|done| done.at).unwrap().at > Nanos(60_000_000));
    let saved = completions(aged(), |drive, n| match n % 500 {
        250 => small(3).restore(&drive.save()).unwrap(),
        251 => drive.clone(),
        _ => drive,
    });
    assert_eq!(plain, saved);
    let other = small(4).filled(100).overwritten(20).build().unwrap();
    assert_ne!(plain, completions(other, |drive, _| drive), "the seed has a say");
}

#[test]
fn a_late_call_tells_what_was_due_and_when() {
    let submitted = || {
        let mut drive = aged();
        for page in 0..2_000 {
            drive.submit(MS, Request::write(Lba(page * 32), 32)).unwrap();
        }
        drive
    };
    let (mut prompt, mut late) = (submitted(), submitted());
    assert!(prompt.in_flight() > prompt.limits().queue_depth_max as usize, "some wait for room");
    let mut all = Vec::new();
    finish(&mut prompt, &mut all);
    assert_eq!(all.len(), 2_000);
    // A submission in between loses nothing, either.
    let read = late.submit(Nanos::from_secs(9), Request::read(Lba(0), 8)).unwrap();
    assert_eq!(late.next_event(), Some(Nanos::from_secs(9)), "there is something to tell");
    assert_eq!(late.advance(Nanos::from_secs(9)), all);
    finish(&mut late, &mut all);
    assert_eq!(all.last().unwrap().id, read);
}

#[test]
fn an_aged_drive_stalls_and_a_new_one_does_not() {
    // 16 KiB each 150 us, whether or not those before are done.
    let longest = |drive: &mut Drive| {
        let pages = drive.limits().sectors() / 32;
        let submitted: Vec<Nanos> = (0..6_000).map(|n| Nanos(n * 150_000)).collect();
        let mut all = Vec::new();
        for (n, &at) in submitted.iter().enumerate() {
            let page = (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) % pages;
            drive.submit(at, Request::write(Lba(page * 32), 32)).unwrap();
        }
        finish(drive, &mut all);
        all.iter().map(|done| done.at.since(submitted[done.id.0 as usize])).max().unwrap()
    };
    // Without its cache each write waits for the flash.
    let bare = small(1).set("ssd.buffer.capacity", "0B");
    let mut fresh = bare.build().unwrap();
    let mut aged = bare.filled(100).overwritten(200).build().unwrap();
    let (calm, stalled) = (longest(&mut fresh), longest(&mut aged));
    assert!(aged.counters().get("gc_pages_moved") > 0);
    assert!(stalled.0 > 3 * calm.0, "{stalled} after {calm}");
}

#[test]
fn what_was_flushed_endures_a_power_failure() {
    let mut drive = Drive::part(PART).build().unwrap();
    assert!(drive.limits().write_cache);
    let write = |drive: &mut Drive, lba| {
        let id = drive.submit(drive.now(), Request::write(Lba(lba), 8)).unwrap();
        let at = drive.next_event().unwrap();
        let mut done = drive.advance(at);
        while done.is_empty() {
            done = drive.advance(drive.next_event().unwrap());
        }
        assert_eq!(done[0].id, id);
        id
    };
    write(&mut drive, 0);
    drive.submit(drive.now(), Request::flush()).unwrap();
    finish(&mut drive, &mut Vec::new());
    let unflushed = write(&mut drive, 64);
    let inside = drive.submit(drive.now(), Request::write(Lba(128), 8)).unwrap();
    let after = drive.power_fail(drive.now());
    assert_eq!(after.lost.iter().map(|lost| lost.id).collect::<Vec<_>>(), [unflushed]);
    assert_eq!((after.lost[0].lba, after.lost[0].sectors), (Lba(64), 8));
    assert_eq!(after.forgotten, [inside]);
    assert_eq!((drive.in_flight(), drive.next_event()), (0, None));
    assert!(write(&mut drive, 0) > inside, "it goes on, and so do ids");
    // A completion that nobody was told of is no promise.
    let untold = drive.submit(drive.now(), Request::write(Lba(256), 8)).unwrap();
    let after = drive.power_fail(drive.now() + MS);
    assert_eq!(after.forgotten, [untold]);
    assert!(after.lost.iter().all(|lost| lost.id != untold));
}

#[test]
fn what_is_saved_is_restored_only_into_its_like() {
    let mut drive = aged();
    for page in 0..100 {
        drive.submit(MS, Request::write(Lba(page * 32), 32)).unwrap();
    }
    let saved = drive.save();
    let builder = small(3);
    let why = |result: Result<Drive, models::Failure>| result.err().unwrap().to_string();
    for other in [builder.clone().seed(4), builder.clone().set("ssd.gc", "fifo")] {
        assert!(why(other.restore(&saved)).contains("it was built otherwise"));
    }
    assert!(why(builder.restore(b"")).contains("it ends too early"));
    assert!(why(builder.restore(&saved[..saved.len() - 1])).contains("it is damaged"));
    for at in (40..saved.len()).step_by(saved.len() / 20) {
        let mut damaged = saved.clone();
        damaged[at] ^= 1;
        assert!(why(builder.restore(&damaged)).contains("it is damaged"), "byte {at}");
    }
    for at in 0..40 {
        let mut damaged = saved.clone();
        damaged[at] ^= 0x80;
        assert!(builder.restore(&damaged).is_err(), "byte {at} of the head");
    }
    assert_eq!(builder.restore(&saved).unwrap().in_flight(), drive.in_flight());
}

#[test]
fn wrong_input_is_explained() {
    let why = |builder: DriveBuilder| builder.build().err().unwrap().to_string();
    let set = |key: &str, value: &str| why(Drive::part(PART).set(key, value));
    assert!(why(Drive::part("tlc-3d-69")).contains("did you mean `tlc-3d-96`?"));
    assert!(why(Drive::toml("[ssd]\ngeometry = 1")).contains("geometry"));
    assert!(why(Drive::toml("[part]\nname = \"none\"")).contains("describes no device"));
    assert!(why(Drive::toml("[ssd")).contains("the part: "));
    assert!(set("ssd.gcc", "fifo").contains("unknown field `gcc`"));
    assert!(set("ssd.gc", "fifa").contains("fifo"));
    assert!(set("ssd.geometry.channels", "0").contains("geometry.channels"));
    assert!(set("gc", "fifo").contains("the name has no dot"));
    assert!(set("ssd.geometry.channels.x", "1").contains("`channels` is no table"));
    assert!(why(Drive::part(PART).filled(101)).contains("filled to 101 percent"));
    assert!(why(Drive::part(PART).overwritten(1)).contains("never filled"));
    let mut drive = Drive::part(PART).build().unwrap();
    let end = drive.limits().sectors();
    assert!(drive.submit(MS, Request::read(Lba(end), 8)).is_err());
    assert!(drive.submit(MS, Request::read(Lba(0), 0)).is_err());
    assert_eq!((drive.in_flight(), drive.now()), (0, Nanos::ZERO), "nothing has changed");
}

#[test]
fn a_part_of_ones_own_and_other_parameters() {
    let text = "[null]\ncapacity = \"1GiB\"\nlatency = \"5us\"\n";
    let mut drive = Drive::toml(text).set("null.latency", "7us").build().unwrap();
    assert_eq!(drive.limits().capacity, Bytes(1 << 30));
    drive.submit(MS, Request::read(Lba(0), 8)).unwrap();
    assert_eq!(drive.next_event(), Some(MS + Nanos::from_micros(7)));
}

#[test]
#[should_panic(expected = "time goes back from 1 ms to")]
fn time_does_not_go_back() {
    let mut drive = Drive::toml("[null]").build().unwrap();
    drive.advance(MS);
    drive.advance(Nanos(1));
}
