//! A start beside the event loop: it waits for devices, which may hang. So it says for which one,
//! and a signal ends it.

use std::time::{Duration, Instant};

use mirror::core::Opened;
use study::Failure;

use super::NAMES;
use super::media::{Asked, Devices};
use super::open::{self, Start};
use crate::beside::Beside;
use crate::event_loop::{FREE, Supervisor};
use crate::poll::Poll;

/// The start is over. Nothing else of the server is watched before that.
const STARTED: u64 = FREE;
/// Who waits so long for a start is told for which device.
const SILENCE: Duration = Duration::from_secs(5);

/// [`open::open`]; `note` is told when that takes long.
pub(super) fn open(
    start: Start,
    poll: &mut Poll,
    supervisor: &mut Supervisor,
    note: &mut dyn FnMut(&str),
) -> Result<(Devices, Opened), Failure> {
    let asked = Asked::default();
    let told = asked.clone();
    let helper = Beside::begin((poll, STARTED), "start", move || open::open(&start, &told))?;
    let (began, mut said, mut events) = (Instant::now(), false, Vec::new());
    loop {
        let left = SILENCE.saturating_sub(began.elapsed());
        poll.wait(if said { u64::MAX } else { left.as_nanos() as u64 }, &mut events);
        if supervisor.interrupted() {
            return Err(Failure::machine("interrupted before the mirror had started")
                .help("what was flushed is safe; the next start recovers"));
        }
        if events.iter().any(|event| event.token == STARTED) {
            break;
        }
        if !said && began.elapsed() >= SILENCE {
            said = true;
            let name = NAMES[asked.last()];
            note(&format!(
                "the start has taken 5 s, and waits for {name} now: Ctrl-C ends it, and --without \
                 {name} does without it"
            ));
        }
    }
    helper.end(poll, "the start")
}
