//! The ring on a file.

use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;

use rustix::event::{EventfdFlags, eventfd};

use super::*;
use crate::mirror::device::Access;
use crate::mirror::skip::skip;
use crate::mirror::work::Bytes;
use crate::poll::wait_readable;

const MEDIUM: MediumId = MediumId { slot: 0, past: 0 };

struct Bench {
    ring: Ring,
    device: Arc<Device>,
    path: std::path::PathBuf,
    wakeup: OwnedFd,
    /// How often `wakeup` was signalled.
    signals: u32,
    number: u64,
}

fn of_one() -> BlockSums {
    BlockSums::of(&mirror::format::Superblock { array: 1, ..Default::default() })
}

impl Bench {
    /// `None` where there is no io_uring, or where files go through the page cache only.
    fn new(name: &str) -> Option<Bench> {
        let path = std::env::temp_dir().join(format!("blocklab-{name}-{}", std::process::id()));
        std::fs::File::create(&path).unwrap().set_len(4 << 20).unwrap();
        let mut device = Device::open(&path, Access::Own).unwrap();
        let wakeup = eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC).unwrap();
        let (Ok(ring), true) = (Ring::new(of_one(), &wakeup), device.bypass_cache()) else {
            skip("io_uring", &format!("no io_uring, or no O_DIRECT in {}", path.display()));
            return None;
        };
        Some(Bench { ring, device: Arc::new(device), path, wakeup, signals: 0, number: 0 })
    }

    fn begin(&mut self, work: Work) {
        self.number += 1;
        self.ring.begin(MEDIUM, Io(self.number), &Arc::clone(&self.device), work);
    }

    fn ended(&mut self) -> Outcome {
        let (mut ended, began) = (VecDeque::new(), Instant::now());
        loop {
            self.ring.submit(&mut ended);
            self.ring.take(&mut ended);
            if let Some(done) = ended.pop_front() {
                assert_eq!((done.medium, done.io), (MEDIUM, Io(self.number)));
                return done.outcome;
            }
            assert!(began.elapsed() < Duration::from_secs(120), "nothing ends");
            self.wait();
        }
    }

    /// Wait until the ring has something.
    fn wait(&mut self) {
        wait_readable(&self.wakeup, Duration::from_millis(100));
        self.signals += u32::from(rustix::io::read(&self.wakeup, &mut [0; 8]).is_ok());
    }

    fn does(&mut self, work: Work) -> Outcome {
        self.begin(work);
        self.ended()
    }

    fn reads(&mut self, page: u64, blocks: u32) -> Vec<u8> {
        let (bytes, sums) = self.does(Work::Read { page, block: page, blocks }).unwrap();
        assert_eq!(sums, super::sums(of_one(), page, &bytes));
        bytes
    }

    /// The kernel's answer to the request that waits, without asking it.
    fn answered(&mut self, result: i32) {
        let index = *self.ring.lanes[0].waiting.front().unwrap();
        let flight = self.ring.flights[index].as_mut().unwrap();
        assert!(flight.answered(result, of_one()).is_none());
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn write(page: u64, value: u8, pages: usize, durable: bool) -> Work {
    Work::Write { page, bytes: Bytes::all(vec![value; pages * PAGE_BYTES]), durable }
}

#[test]
fn what_was_written_is_read_and_what_was_zeroed_is_zero() {
    let Some(mut bench) = Bench::new("ring-data") else { return };
    bench.does(write(3, 7, 160, false)).unwrap();
    bench.does(write(5, 8, 1, true)).unwrap();
    bench.does(Work::Flush).unwrap();
    bench.does(Work::Zero { page: 100, pages: 2, durable: true, keep: false }).unwrap();
    let bytes = bench.reads(3, 160);
    for (page, bytes) in (3..).zip(bytes.chunks(PAGE_BYTES)) {
        let value = [7, 8, 0][usize::from(page == 5) + 2 * usize::from((100..102).contains(&page))];
        assert!(bytes.iter().all(|&byte| byte == value), "page {page}");
    }
    assert!(bench.signals > 0, "nothing told that a request had ended");
}

#[test]
fn a_part_is_followed_by_the_rest() {
    let Some(mut bench) = Bench::new("ring-part") else { return };
    bench.begin(write(0, 1, 4, true));
    // The first page counts as written, but was not.
    bench.answered(4096);
    bench.ended().unwrap();
    bench.begin(Work::Read { page: 0, block: 0, blocks: 4 });
    bench.answered(8192);
    let (bytes, _) = bench.ended().unwrap();
    assert_eq!(bytes[8192..], [1; 8192]);
    assert_eq!(bench.reads(0, 2), [[0; 4096], [1; 4096]].concat());
}

#[test]
fn a_device_that_makes_no_zeros_is_given_them() {
    let Some(mut bench) = Bench::new("ring-zeros") else { return };
    bench.does(write(0, 1, 200, true)).unwrap();
    bench.begin(Work::Zero { page: 1, pages: 150, durable: true, keep: false });
    bench.answered(-libc::EOPNOTSUPP);
    bench.ended().unwrap();
    let bytes = bench.reads(0, 200);
    let ones = |range: std::ops::Range<usize>| bytes[range].iter().all(|&byte| byte == 1);
    assert!(ones(0..4096) && ones(151 * 4096..200 * 4096));
    assert!(bytes[4096..151 * 4096].iter().all(|&byte| byte == 0));
}

#[test]
fn an_interrupted_request_is_made_again() {
    let Some(mut bench) = Bench::new("ring-again") else { return };
    bench.begin(write(0, 1, 1, false));
    bench.answered(-libc::EINTR);
    bench.ended().unwrap();
    assert_eq!(bench.reads(0, 1), [1; 4096]);
}

#[test]
fn a_write_without_room_is_made_again_and_loses_no_trust() {
    let Some(mut bench) = Bench::new("ring-room") else { return };
    bench.begin(write(0, 1, 1, true));
    bench.answered(-libc::ENOSPC);
    assert!(bench.device.is_full());
    bench.ended().unwrap();
    assert!(!bench.device.is_full());
    bench.does(Work::Flush).unwrap();
    // What a sync had no room for is lost.
    bench.begin(Work::Flush);
    let index = *bench.ring.lanes[0].waiting.front().unwrap();
    let flight = bench.ring.flights[index].as_mut().unwrap();
    assert!(flight.answered(-libc::ENOSPC, of_one()).is_some_and(|outcome| outcome.is_err()));
}

#[test]
fn after_a_failed_sync_nothing_is_said_to_be_durable() {
    let Some(mut bench) = Bench::new("ring-lost") else { return };
    let beyond = bench.does(Work::Read { page: 2000, block: 0, blocks: 1 });
    assert_eq!(beyond.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    bench.does(Work::Flush).unwrap();
    bench.device.broken.store(true, Ordering::SeqCst);
    assert!(bench.does(Work::Flush).is_err());
    bench.device.broken.store(false, Ordering::SeqCst);
    assert!(bench.does(Work::Flush).is_err());
    assert!(bench.does(write(0, 1, 1, true)).is_err());
    bench.does(write(0, 2, 1, false)).unwrap();
    assert_eq!(bench.reads(0, 1), [2; 4096]);
}

/// Unlike its flush, which may have lost others.
#[test]
fn a_write_that_fails_before_its_flush_takes_no_other_along() {
    let Some(mut bench) = Bench::new("ring-fua") else { return };
    let work = || Work::WriteAndFlush { page: 0, bytes: Bytes::all(vec![3; PAGE_BYTES]) };
    let fails = |bench: &mut Bench| {
        let index = bench.ring.lanes[0].waiting.pop_front().unwrap();
        let flight = bench.ring.flights[index].as_mut().unwrap();
        let outcome = flight.answered(-libc::EIO, of_one()).unwrap();
        bench.ring.end(index, outcome, &mut VecDeque::new());
    };
    bench.begin(work());
    fails(&mut bench);
    bench.does(work()).unwrap();
    bench.does(Work::Flush).unwrap();
    assert_eq!(bench.reads(0, 1), [3; 4096]);
    // It is written, and its flush fails.
    bench.begin(work());
    bench.answered(4096);
    fails(&mut bench);
    assert!(bench.does(work()).is_err() && bench.does(Work::Flush).is_err());
}

#[test]
fn what_is_forgotten_never_begins() {
    let Some(mut bench) = Bench::new("ring-forget") else { return };
    bench.begin(write(0, 1, 1, true));
    bench.ring.forget(MEDIUM);
    assert_eq!(bench.reads(0, 1), [0; 4096]);
}

/// Ten times what a medium is given, and more than the kernel would have room for answers to. The
/// wakeup tells of all of it: nothing else enters the kernel.
#[test]
fn ten_times_the_depth_is_answered() {
    let Some(mut bench) = Bench::new("ring-full") else { return };
    let count = 10 * DEPTH;
    for page in 0..count {
        bench.begin(write(page as u64 % 1024, page as u8, 1, false));
    }
    let mut ended = VecDeque::new();
    let began = Instant::now();
    while ended.len() < count {
        bench.ring.submit(&mut ended);
        assert!(bench.ring.lanes[0].given <= DEPTH, "the kernel was given more");
        bench.ring.take(&mut ended);
        assert!(began.elapsed() < Duration::from_secs(120), "only {} ended", ended.len());
        bench.wait();
    }
    assert!(ended.iter().all(|done| done.outcome.is_ok()));
    assert_eq!(bench.ring.lanes[0].given, 0);
}

/// A medium that hangs with all that it may be given, and more that waits.
#[test]
fn a_medium_that_hangs_holds_up_no_other() {
    let Some(mut bench) = Bench::new("ring-hang") else { return };
    let hangs = MediumId { slot: 1, past: 0 };
    let lane = bench.ring.lane(hangs);
    bench.ring.lanes[lane].given = DEPTH;
    let device = Arc::clone(&bench.device);
    bench.ring.begin(hangs, Io(1000), &device, write(9, 9, 1, false));
    bench.does(write(0, 1, 1, true)).unwrap();
    assert_eq!(bench.reads(0, 1), [1; 4096]);
    assert_eq!(bench.reads(9, 1), [0; 4096]);
    assert_eq!(bench.ring.lanes[lane].waiting.len(), 1);
}

/// What it hangs with may take a thread of the kernel each, and others need some, too.
#[test]
fn there_may_be_a_thread_of_the_kernel_for_each_request() {
    let Some(bench) = Bench::new("ring-threads") else { return };
    // Zeros ask for what it is.
    let mut bound = [0; 2];
    if let Err(why) = bench.ring.ring.submitter().register_iowq_max_workers(&mut bound) {
        return skip("io_uring", &format!("the kernel does not tell its bound: {why}"));
    }
    let all = rustix::process::getrlimit(rustix::process::Resource::Nproc).current;
    let wanted = all.map_or(ANSWERS, |all| ANSWERS.min(all as usize));
    assert!(bound[0] as usize >= wanted, "{bound:?}");
}

/// The kernel looks up by its number which file some requests mean when it begins them.
#[test]
fn what_is_under_way_when_a_ring_goes_reaches_no_other_file() {
    let path = std::env::temp_dir().join(format!("blocklab-ring-other-{}", std::process::id()));
    std::fs::write(&path, vec![1; 4 << 20]).unwrap();
    for _ in 0..100 {
        let Some(mut bench) = Bench::new("ring-gone") else { break };
        (0..64).for_each(|page| {
            bench.begin(Work::Zero { page, pages: 1, durable: false, keep: false })
        });
        bench.ring.submit(&mut VecDeque::new());
        drop(bench);
        let others = std::iter::repeat_with(|| {
            let mut options = std::fs::OpenOptions::new();
            options.read(true).write(true).open(&path).unwrap()
        });
        let _others: Vec<_> = others.take(8).collect();
        let Some(mut bench) = Bench::new("ring-next") else { break };
        bench.does(Work::Flush).unwrap();
    }
    let zeros = std::fs::read(&path).unwrap().iter().filter(|&&byte| byte == 0).count();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(zeros, 0, "bytes of another file");
}

/// A request that outlives its server has the open file that it was begun with.
#[test]
fn whoever_has_a_request_in_the_kernel_holds_the_lock() {
    let Some(bench) = Bench::new("ring-lock") else { return };
    let path = bench.path.with_extension("other");
    std::fs::File::create(&path).unwrap().set_len(1 << 20).unwrap();
    let mut device = Device::open(&path, Access::Own).unwrap();
    assert!(device.bypass_cache());
    // SAFETY: the device is open.
    let given = unsafe { BorrowedFd::borrow_raw(device.direct().unwrap()) };
    let given = given.try_clone_to_owned().unwrap();
    drop(device);
    let refused = Device::open(&path, Access::Own).unwrap_err().to_string();
    assert!(refused.contains("in use"), "{refused}");
    drop(given);
    Device::open(&path, Access::Own).unwrap();
    std::fs::remove_file(&path).unwrap();
}
