//! Discards, each of almost the whole mirror, that nobody waits for one by one.

use super::*;

const BYTES: u32 = 15 << 20;

impl Host {
    /// Begin an order; it is named by `tag`.
    fn begin(&mut self, tag: u64, command: Command, offset: u64, bytes: u32) {
        let order = Order::new(Ticket { tag, ..Ticket::default() }, command, offset, bytes);
        let pool = &mut BufferPool::default();
        let sink = matches!(command, Command::Write { .. }).then(|| {
            let mut sink = self.array.begin_write(offset, bytes).unwrap();
            self.array.write(&mut sink, &vec![7; bytes as usize], pool);
            sink
        });
        self.array.submit(self.clock.now(), order, sink, pool);
    }

    /// Which orders end, in that order, until so many have.
    fn ends(&mut self, count: usize) -> Vec<(u64, bool)> {
        let (mut replies, began) = (Vec::new(), Instant::now());
        while replies.len() < count {
            assert!(began.elapsed() < Duration::from_secs(60), "{} end", replies.len());
            wait_readable(self.array.wakeup(), LOOK_EVERY);
            self.array.advance(self.clock.now(), &mut replies);
        }
        replies.iter().map(|reply| (reply.order.ticket.tag, reply.result.is_ok())).collect()
    }
}

/// The core has a few pieces at a time, whoever asks for how much, and a write passes the rest.
#[test]
fn many_discards_take_little_memory_and_let_a_write_pass() {
    let folder = Folder::created(false, Mode::Log);
    let mut host = Host::patient(&folder.start(false, [false; DEVICES]));
    host.write(0, &[1; 1 << 20]);
    (0..100).for_each(|tag| host.begin(tag, Command::Discard, 0, BYTES));
    let pieces = host.array.kept()[1];
    assert!(pieces <= 100, "{pieces} pieces");
    host.begin(1000, Command::Write { fua: false }, u64::from(BYTES) + 4096, 4096);
    let ends = host.ends(101);
    assert!(ends.iter().all(|&(_, ok)| ok), "{ends:?}");
    let passed = ends.iter().position(|&(tag, _)| tag == 1000).unwrap();
    assert!(passed < 50, "after {passed} discards");
    assert_eq!(host.array.kept()[2], 0);
    assert_eq!(host.read(0, 1 << 20), vec![0; 1 << 20]);
    assert_eq!(host.read(u64::from(BYTES) + 4096, 4096), [7; 4096]);
}

/// What a loop device is told when the kernel punches a hole for zeroes of less than a block.
#[test]
fn a_hole_of_sectors_reads_as_zeroes() {
    use crate::frontend::loop_device::wire::{Ask, FileInfo, understand};
    let folder = Folder::created(false, Mode::Log);
    let mut host = Host::patient(&folder.start(false, [false; DEVICES]));
    host.write(0, &[0x55; 8192]);
    let (bytes, name) = (host.array.bytes(), "m".into());
    let file = FileInfo { name, bytes, block_bytes: 4096, discard: true, read_only: false };
    // FALLOCATE of the first file: its header, handle, offset, length and mode.
    let mut request = [72u32, 43].map(u32::to_ne_bytes).concat();
    request.extend([1u64, 2, 0, 0, 0, 512, 1024, 3].map(u64::to_ne_bytes).concat());
    let Ask::Device { command, offset, bytes, .. } = understand(&request, &[file]) else {
        panic!("it is refused")
    };
    host.ask(command, offset, &vec![0; bytes as usize]).unwrap();
    let parts = [vec![0x55; 512], vec![0; 1024], vec![0x55; 8192 - 1536]];
    assert!(host.read(0, 8192) == parts.concat());
}

/// Past the page cache, and through it where there is no ring.
#[test]
fn zeros_that_must_take_room_are_no_hole() {
    use std::os::unix::fs::MetadataExt;
    let folder = Folder::created(false, Mode::Log);
    let mut host = Host::patient(&folder.start(false, [false; DEVICES]));
    const LENGTH: usize = 4 << 20;
    let room = || ["fast", "slow"].map(|leg| folder.0.join(leg).metadata().unwrap().blocks());
    let mut taken = [0; 2];
    for may_discard in [false, true] {
        host.write(0, &vec![7; LENGTH]);
        host.flush();
        host.until("all is quiet", |array| array.core.quiet());
        let before = room();
        let zeros = Command::WriteZeroes { fua: true, may_discard };
        host.ask(zeros, 0, &vec![0; LENGTH]).unwrap();
        host.until("all is quiet", |array| array.core.quiet());
        assert!(host.read(0, LENGTH) == vec![0; LENGTH]);
        let after = room();
        let freed = [0, 1].map(|leg| before[leg].saturating_sub(after[leg]) * 512);
        taken[usize::from(may_discard)] = freed[0].min(freed[1]);
        assert_eq!(freed.map(|bytes| bytes > LENGTH as u64 / 2), [may_discard; 2], "{freed:?}");
    }
    assert!(taken[0] < taken[1], "{taken:?}");
}

#[test]
fn a_stop_ends_what_was_begun() {
    let folder = Folder::created(false, Mode::Log);
    let mut host = Host::patient(&folder.start(false, [false; DEVICES]));
    host.write(14 << 20, &[1; 4096]);
    let zeros = Command::WriteZeroes { fua: true, may_discard: true };
    (0..10).for_each(|tag| host.begin(tag, zeros, 512, BYTES));
    host.array.stop();
    let ends = host.ends(10);
    assert!(ends.iter().all(|&(_, ok)| ok), "{ends:?}");
    host.until("it has stopped", MirrorEngine::over);
    drop(host);
    let mut host = Host::new(&folder.start(false, [false; DEVICES]));
    assert_eq!(host.read(14 << 20, 4096), [0; 4096]);
}

/// No leg is left: every one is answered.
#[test]
fn what_is_left_of_discards_fails_with_the_legs() {
    let folder = Folder::created(false, Mode::Log);
    let mut host = Host::patient(&folder.start(false, [false; DEVICES]));
    let zeros = Command::WriteZeroes { fua: true, may_discard: true };
    (0..10).for_each(|tag| host.begin(tag, zeros, 0, BYTES));
    host.broken.iter().for_each(|broken| broken.store(true, Ordering::SeqCst));
    let ends = host.ends(10);
    assert!(ends.iter().all(|&(_, ok)| !ok), "{ends:?}");
    assert!(host.array.failed());
}
