//! From where all programs stand still until they go on, or the machine is off.
//!
//! Linux, `kernel/power/user.c`: where an image is let go, the kernel's own threads go on. They
//! would write to disks that the image believes unchanged; so an image that was written is not let
//! go. No file is read or written meanwhile either: a program may serve it that stands still.

use std::time::Instant;

use resume::machine::Range;

use super::snapshot::{Created, Machine};
use super::target::{Nowhere, Store};
use super::{Order, Report, machine, write};
use crate::Why;
use crate::policy::{After, Known};

/// What it came to.
pub(super) enum Stood {
    /// The image is in the store, and all stands still until the machine is off; or it was counted
    /// where there is no store, and all goes on.
    Written(Report),
    /// This is a later life, in which all goes on.
    Resumed(After),
}

/// Make an image, for a store or to be counted. Where it fails all goes on.
pub(super) fn stand_still(
    machine: &mut dyn Machine,
    order: &Order,
    known: &Known,
    map: &[Range],
    store: Option<&mut dyn Store>,
) -> Result<Stood, Why> {
    let goes_off = store.is_some();
    let began = Instant::now();
    let usual = machine.image_size()?;
    machine.freeze()?;
    let mut after = None;
    let still = Still { order, known, map, usual, began };
    let made = still.make(machine, store, &mut after);
    if let (true, Ok(Some(report))) = (goes_off, &made) {
        return Ok(Stood::Written(*report));
    }
    machine.thaw();
    let after = after.unwrap_or_default();
    match made {
        Ok(None) => Ok(Stood::Resumed(after)),
        made => {
            after.keep();
            made.map(|report| Stood::Written(report.unwrap_or_default()))
        }
    }
}

struct Still<'a> {
    order: &'a Order,
    known: &'a Known,
    map: &'a [Range],
    /// The size of an image that the kernel is told usually.
    usual: u64,
    began: Instant,
}

impl Still<'_> {
    /// Let pages leave, make the image, and write it; `None` in the life that is resumed. `after`
    /// is what is to be done when programs run.
    fn make(
        &self,
        machine: &mut dyn Machine,
        store: Option<&mut dyn Store>,
        after: &mut Option<After>,
    ) -> Result<Option<Report>, Why> {
        let swapped_before = machine::swapped_pages()?;
        let (left, found) = machine.swap_out(self.order.policy.as_ref(), self.known)?;
        *after = Some(found);
        if self.create(machine)? == Created::Resumed {
            // Before anybody asks for one. A machine that came back goes on in any case.
            if let Err(why) = machine.renew() {
                crate::warn(format!(
                    "random numbers may be those of an earlier use of the image: {why}"
                ));
            }
            return Ok(None);
        }
        // Whatever fails from here on fails before there is an image.
        let swapped_pages = machine::swapped_pages()?.saturating_sub(swapped_before);
        let create = self.began.elapsed();
        let goes_off = store.is_some();
        let mut nowhere = Nowhere;
        let store = store.unwrap_or(&mut nowhere);
        // What was written to swap is where the image believes it, also after a power cut.
        let flushed = if goes_off { machine.flush_disks() } else { Ok(()) };
        let written = flushed
            .and_then(|()| machine.header(self.map))
            .map_err(Why::from)
            .and_then(|header| write(machine, header, self.map, self.order.packs, store));
        if !goes_off || written.is_err() {
            machine.free();
        }
        let write = self.began.elapsed() - create;
        Ok(Some(Report { left, swapped_pages, create, write, ..written? }))
    }

    /// Make the image. How large it may be is a setting that others of the machine use, too.
    fn create(&self, machine: &mut dyn Machine) -> Result<Created, String> {
        // The kernel takes some of memory back by itself when it is not told how little.
        machine.prefer(self.order.policy.kernel_bytes().unwrap_or(u64::MAX / 2))?;
        let created = machine.create();
        // In the life that is resumed, too, whose kernel knows what it was told last.
        if let Err(why) = machine.prefer(self.usual) {
            crate::warn(format!("the kernel's own images may be larger than before: {why}"));
        }
        created
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::path::PathBuf;
    use std::rc::Rc;

    use resume::{Header, Mark, PAGE_BYTES};

    use super::super::snapshot::Source;
    use super::super::target::Page;
    use super::super::tests::{FRAMES, Kernel};
    use super::*;
    use crate::policy::{self, Left, Policy};

    const USUAL: u64 = 77;

    /// What was done, in order, and with each whether the record was there.
    #[derive(Clone)]
    struct Log {
        steps: Rc<RefCell<Vec<String>>>,
        record: PathBuf,
    }

    impl Log {
        fn add(&self, step: impl Into<String>) {
            let kept = if self.record.exists() { ", kept" } else { "" };
            self.steps.borrow_mut().push(step.into() + kept);
        }
    }

    struct Played {
        log: Log,
        kernel: Kernel,
        created: Result<Created, String>,
    }

    impl Source for Played {
        fn bytes(&self) -> Result<u64, String> {
            self.kernel.bytes()
        }

        fn page(&mut self, page: &mut [u8; PAGE_BYTES]) -> Result<(), String> {
            self.kernel.page(page)
        }
    }

    impl Machine for Played {
        fn freeze(&mut self) -> Result<(), String> {
            self.log.add("freeze");
            Ok(())
        }

        fn image_size(&self) -> Result<u64, String> {
            Ok(USUAL)
        }

        fn prefer(&mut self, bytes: u64) -> Result<(), String> {
            self.log.add(format!("prefer {bytes}"));
            Ok(())
        }

        fn create(&mut self) -> Result<Created, String> {
            self.log.add("create");
            self.created.clone()
        }

        fn free(&mut self) {
            self.log.add("free");
        }

        fn thaw(&mut self) {
            self.log.add("thaw");
        }

        fn swap_out(&mut self, _: &dyn Policy, known: &Known) -> Result<(Left, After), String> {
            self.log.add("swap out");
            Ok((Left::default(), known.learnt_nothing()))
        }

        fn flush_disks(&mut self) -> Result<(), String> {
            self.log.add("flush");
            Ok(())
        }

        fn header(&self, _: &[Range]) -> Result<Header, String> {
            Ok(Header { frames: FRAMES, ..Header::empty() })
        }

        fn renew(&mut self) -> Result<(), String> {
            self.log.add("renew");
            Ok(())
        }
    }

    impl Store for Log {
        fn write(&mut self, _: u64, _: &[Page]) -> Result<(), String> {
            Ok(())
        }

        fn sync(&mut self) -> Result<(), String> {
            Ok(())
        }

        fn pages(&self) -> u64 {
            1 << 20
        }

        fn write_mark(&mut self, _: Mark) -> Result<(), String> {
            self.add("mark");
            Ok(())
        }
    }

    /// What is done where `create` answers so: for a target, or to count `pages`.
    fn done(created: Result<Created, String>, has_target: bool, pages: u64) -> Vec<String> {
        static PLAYED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = PLAYED.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("blocklab-still-{}-{number}", std::process::id());
        let record = std::env::temp_dir().join(name);
        let policy = policy::find("record").unwrap();
        let known = Known::read(policy.as_ref(), Some(&record)).unwrap();
        let order = Order { target: None, policy, record: Some(record.clone()), packs: false };
        let map = [Range { start: 0, bytes: FRAMES * 4096, kind: Range::USABLE }];
        let mut log = Log { steps: Rc::default(), record: record.clone() };
        let mut played = Played { log: log.clone(), kernel: Kernel::new(1, 600), created };
        played.kernel.pages.truncate(pages as usize);
        let store = has_target.then_some(&mut log as &mut dyn Store);
        let stood = stand_still(&mut played, &order, &known, &map, store);
        played.log.add(match &stood {
            Ok(Stood::Written(_)) => "written",
            Ok(Stood::Resumed(_)) => "resumed",
            Err(_) => "failed",
        });
        if let Ok(Stood::Resumed(after)) = stood {
            after.keep();
            played.log.add("end");
        }
        // It may not be there.
        let _ = std::fs::remove_file(record);
        played.log.steps.take()
    }

    fn most() -> String {
        format!("prefer {}", u64::MAX / 2)
    }

    /// The kernel's threads would write to disks that the image believes unchanged, and so would
    /// the file of the record be.
    #[test]
    fn nothing_goes_on_once_there_is_an_image() {
        let found = done(Ok(Created::Now), true, u64::MAX);
        let most = most();
        let before = ["freeze", "swap out", &most, "create", "prefer 77"];
        assert_eq!(found[..5], before);
        assert_eq!(found[5..], ["flush", "mark", "written"]);
    }

    #[test]
    fn no_file_is_written_while_programs_stand_still() {
        let most = most();
        let before = ["freeze", "swap out", &most, "create", "prefer 77"];
        for (created, has_target, pages, then) in [
            (Ok(Created::Now), false, u64::MAX, &["free", "thaw", "written, kept"][..]),
            (Ok(Created::Now), true, 9, &["flush", "free", "thaw", "failed, kept"]),
            (Err("no room".into()), true, u64::MAX, &["thaw", "failed, kept"]),
            (Ok(Created::Resumed), true, u64::MAX, &["renew", "thaw", "resumed", "end, kept"]),
        ] {
            let found = done(created, has_target, pages);
            assert_eq!(found[..5], before);
            assert_eq!(found[5..], *then);
        }
    }
}
