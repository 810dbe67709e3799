//! `models::Drive` is the very device that a study of the same seed builds.

use models::{Completion, Drive, Lba, Nanos, Request, RequestId};
use sim::Completions;
use study::build_part;

#[test]
fn a_drive_has_the_times_of_the_studys_device() {
    for (part, set) in [("mqsim-f", Some(("ssd.gc", "fifo"))), ("wd-80g-5400", None)] {
        let sets: Vec<String> = set.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let mut device = build_part(part, &sets, 7).unwrap().device;
        let builder =
            set.iter().fold(Drive::part(part).seed(7), |b, (key, value)| b.set(key, value));
        let mut drive = builder.build().unwrap();
        let (mut by_study, mut by_drive) = (Completions::new(), Vec::<Completion>::new());
        for n in 0..200 {
            let lba = Lba(n * 7_919 % 100_000 * 8);
            let request = if n % 3 == 0 { Request::read(lba, 8) } else { Request::write(lba, 8) };
            let at = Nanos::from_millis(100) + Nanos(n * 90_000_000);
            while let Some(event) = device.next_event().filter(|&event| event <= at) {
                device.advance(event, &mut by_study);
            }
            device.submit(at, Request { id: RequestId(n), ..request }).unwrap();
            drive.submit(at, request).unwrap();
            by_drive.extend(drive.advance(at));
        }
        while let Some(event) = device.next_event() {
            device.advance(event, &mut by_study);
        }
        while let Some(event) = drive.next_event() {
            by_drive.extend(drive.advance(event));
        }
        assert_eq!((by_study.done.len(), &by_study.done), (200, &by_drive), "{part}");
    }
}
