//! The life of requests in a block layer's queue, as `blkparse` prints it: not only where they
//! came in, but what was plugged, inserted, sent and completed, in its order.

use std::io::Read;

use sim::{Lba, Nanos, Op, Priority, PriorityClass, Request};

use crate::blkparse::{begin, extent, is_command};
use crate::cursor::Cursor;
use crate::error::{Fault, TraceError};
use crate::input::Input;
use crate::lines::{LineParser, read_whole};
use crate::sink::Sink;

/// What happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueAction {
    /// `Q`: a file system or a program gave a request.
    Queued,
    /// `G`, `M`, `F`: it became a request of its own, or joined another one at its end or begin.
    Taken,
    /// `P`: a task's plug took its first request.
    Plugged,
    /// `U`, `UT`: a task's plug was handed over.
    Unplugged,
    /// `I`: a request came to the scheduler.
    Inserted,
    /// `D`: a request was sent to the device.
    Dispatched,
    /// `C`: it was completed.
    Completed,
}

/// An event in a block layer's queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueEvent {
    /// When.
    pub time: Nanos,
    /// What happened.
    pub action: QueueAction,
    /// The request it happened to, and the process in which it did. Without sectors for a plug.
    pub request: Request,
    /// A flush, or something that is not merged since a flush goes with it.
    pub alone: bool,
    /// The device's number.
    pub device: u32,
}

/// Read the events of a `blkparse` text, plain or compressed; `name` is what errors call it.
///
/// # Errors
/// When it cannot be read, or a line is none of blkparse's.
pub fn queue_events(name: &str, read: Box<dyn Read + Send>) -> Result<Vec<QueueEvent>, TraceError> {
    Ok(read_whole(Queue::default(), Input::open(name, read)?)?.events)
}

/// A recording does not tell the priority of a request. The journal of ext4 has one of its own,
/// unless `journal_ioprio` says otherwise; all others are taken to have none.
fn priority(name: &[u8]) -> Priority {
    if name.starts_with(b"[jbd2/") {
        Priority::new(PriorityClass::BestEffort, 3)
    } else {
        Priority::NONE
    }
}

#[derive(Clone, Default)]
struct Queue {
    events: Vec<QueueEvent>,
}

impl LineParser for Queue {
    const FORMAT: &'static str = "blkparse";
    const CERTAINTY: u8 = 95;
    const LAST_FIELD_CAN_BE_CUT: bool = false;

    fn line(&mut self, line: &mut Cursor<'_>, _sink: &mut Sink<'_>) -> Result<(), Fault> {
        let Some((event, action)) = begin(line)? else { return Ok(()) };
        let action = match action {
            b"Q" => QueueAction::Queued,
            b"G" | b"M" | b"F" => QueueAction::Taken,
            b"P" => QueueAction::Plugged,
            b"U" | b"UT" => QueueAction::Unplugged,
            b"I" => QueueAction::Inserted,
            b"D" => QueueAction::Dispatched,
            b"C" => QueueAction::Completed,
            _ => return Ok(()),
        };
        let (sector, sectors) = extent(line)?;
        let flags = event.flags;
        let is_command = is_command(line) && sectors == 0;
        // What is no request goes alone, as a flush does.
        let op = flags.op.filter(|_| !is_command).unwrap_or(Op::Flush);
        line.skip_to(b'[');
        let request = Request {
            process: event.process,
            priority: priority(line.rest()),
            sync: flags.sync && op == Op::Write,
            ..Request::new(op, Lba(sector), sectors)
        };
        self.events.push(QueueEvent {
            time: Nanos(event.time),
            action,
            request,
            alone: flags.preflush || flags.fua || op == Op::Flush || op == Op::Discard,
            device: event.device,
        });
        Ok(())
    }
}
