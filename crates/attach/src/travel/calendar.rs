//! The calendar: who may run next, and what time it is. Linux's `um_timetravel.h` defines the
//! messages. Pure: bytes and moments in, bytes and decisions out.

use sim::Nanos;

use crate::vhost_user::message::Malformed;

/// Bytes of a message.
pub const MESSAGE_BYTES: usize = 16;

const ACK: u32 = 0;
const START: u32 = 1;
const REQUEST: u32 = 2;
const WAIT: u32 = 3;
const GET: u32 = 4;
const UPDATE: u32 = 5;
const RUN: u32 = 6;
const FREE_UNTIL: u32 = 7;
const GET_TIME_OF_DAY: u32 = 8;

/// The guest's wall clock at its boot, in Unix nanoseconds: 2026-01-01 00:00 UTC, always.
pub const TIME_OF_DAY_NS: u64 = 1_767_225_600_000_000_000;
/// A guest that has nothing to do asks for this moment.
const FOREVER: u64 = i64::MAX as u64;
/// Later than anything a guest asks for, and a time that it can still count with.
const FAR: u64 = 1 << 62;
/// A guest does not go on by itself for longer: it is heard of where its time passes without a
/// device.
const FREE_AT_MOST: Nanos = Nanos(10_000_000);
/// Most messages of a guest that runs which are acknowledged before they come. It need not stop for
/// an answer that it has.
const AHEAD_MAX: u32 = 4;

/// One message, in either direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    op: u32,
    sequence: u32,
    time_ns: u64,
}

impl Message {
    /// True when the guest says what time it has come to, as it does before it kicks a device.
    pub fn is_update(&self) -> bool {
        self.op == UPDATE
    }

    /// Read a message.
    pub fn parse(bytes: &[u8; MESSAGE_BYTES]) -> Message {
        let [a, b, c, d, e, f, g, h, time @ ..] = *bytes;
        Message {
            op: u32::from_le_bytes([a, b, c, d]),
            sequence: u32::from_le_bytes([e, f, g, h]),
            time_ns: u64::from_le_bytes(time),
        }
    }

    /// Its bytes.
    pub fn bytes(&self) -> [u8; MESSAGE_BYTES] {
        let mut bytes = [0; MESSAGE_BYTES];
        bytes[..4].copy_from_slice(&self.op.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[8..].copy_from_slice(&self.time_ns.to_le_bytes());
        bytes
    }
}

/// What comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// The guest runs: serve it.
    Listen,
    /// The devices reach this moment.
    Devices(Nanos),
    /// The guest may run at this moment.
    Guest(Nanos),
    /// Nothing will ever happen again.
    Deadlock,
    /// Nothing more happens within the limit.
    Limit,
}

/// The one clock of a guest and its devices.
#[derive(Clone, Debug, Default)]
pub struct Calendar {
    now: Nanos,
    /// When the guest wants to run.
    request: Option<Nanos>,
    waiting: bool,
    started: bool,
    /// Up to here the guest may go on by itself.
    free_until: Nanos,
    /// Up to here there is time at all.
    limit: Option<Nanos>,
    sequence: u32,
    /// Acknowledgements of the guest that have not come.
    unacknowledged: u32,
    /// The number of the guest's last message.
    last: u32,
    /// So many messages after it are acknowledged already.
    ahead: u32,
    run: Run,
    /// What the guest said in its last run without an interrupt, and in its last with one.
    usual: [u32; 2],
    interrupt: Interrupt,
}

/// How much a guest says from when it may run until it waits, or kicks a device.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    interrupted: bool,
    said: u32,
    counted: bool,
}

/// How far a waiting guest is with an interrupt: it asks for the time, and then to run at it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Interrupt {
    #[default]
    Unseen,
    Seen,
    Planned,
}

impl Calendar {
    /// A calendar at time zero.
    pub fn new() -> Calendar {
        Calendar::default()
    }

    /// A calendar at time zero whose time ends at `limit`.
    pub fn with_limit(limit: Nanos) -> Calendar {
        Calendar { limit: Some(limit), ..Calendar::default() }
    }

    /// The present moment.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// True while the guest waits to be let run.
    pub fn is_waiting(&self) -> bool {
        self.waiting
    }

    /// True when the guest has acknowledged everything.
    pub fn is_acknowledged(&self) -> bool {
        self.unacknowledged == 0
    }

    /// True while the guest may have acknowledgements of what it did not say yet. It throws them
    /// away while it waits for anything but an acknowledgement, and takes them for another's answer
    /// when it is interrupted; so before either it must [catch up](Self::catch_up).
    pub fn is_ahead(&self) -> bool {
        self.ahead > 0
    }

    /// What the guest is told so that it reads all it was told before; when it has acknowledged
    /// this, it [has](Self::caught_up).
    pub fn catch_up(&mut self, devices: Option<Nanos>) -> Message {
        self.free(devices)
    }

    /// The guest has read everything.
    pub fn caught_up(&mut self) {
        self.ahead = 0;
    }

    /// The guest is about to be interrupted.
    pub fn interrupt(&mut self) {
        self.interrupt = Interrupt::Unseen;
    }

    /// True when the guest has heard of the interrupt and planned it for now: it says nothing more
    /// before it runs. One that had planned to run now anyway may not say so again.
    pub fn is_interrupted(&self) -> bool {
        self.interrupt == Interrupt::Planned
    }

    /// Take a message of the guest; returns what it is answered with, if anything.
    ///
    /// # Errors
    /// When it breaks the protocol.
    pub fn take(&mut self, message: Message) -> Result<Option<Message>, Malformed> {
        let Message { op, sequence, time_ns } = message;
        if op == ACK {
            // Acknowledgements come in the order of what they acknowledge.
            let expected = self.sequence.wrapping_sub(self.unacknowledged.wrapping_sub(1));
            if self.unacknowledged == 0 || sequence != expected {
                return refuse(format!("acknowledgement {sequence} of nothing"));
            }
            self.unacknowledged -= 1;
            return Ok(None);
        }
        if self.started == (op == START) {
            return refuse(format!("message {op} before or after its time"));
        }
        let is_answered = self.ahead > 0;
        if is_answered && sequence != self.last.wrapping_add(1) {
            return refuse(format!("message {sequence} comes after message {}", self.last));
        }
        self.ahead -= u32::from(is_answered);
        self.last = sequence;
        self.count(op);
        let mut answer = 0;
        match op {
            GET | GET_TIME_OF_DAY if is_answered => {
                return refuse("the guest asks for the time where it should not");
            }
            START => self.started = true,
            REQUEST if time_ns >= FOREVER => self.request = None,
            REQUEST => self.request(Nanos(time_ns)),
            WAIT if self.waiting => return refuse("the guest waits twice"),
            WAIT => self.waiting = true,
            GET => {
                self.interrupt = Interrupt::Seen;
                answer = self.now.0;
            }
            UPDATE => self.update(Nanos(time_ns))?,
            GET_TIME_OF_DAY => answer = TIME_OF_DAY_NS + self.now.0,
            _ => return refuse(format!("message {op} is not understood")),
        }
        Ok((!is_answered).then_some(Message { op: ACK, sequence, time_ns: answer }))
    }

    fn count(&mut self, op: u32) {
        let Run { interrupted, said, counted } = &mut self.run;
        *said += 1;
        if matches!(op, WAIT | UPDATE) && !*counted {
            *counted = true;
            self.usual[usize::from(*interrupted)] = *said;
        }
    }

    fn request(&mut self, time: Nanos) {
        // A request for the past is one for now.
        self.request = Some(time.max(self.now));
        if self.waiting && time <= self.now && self.interrupt == Interrupt::Seen {
            self.interrupt = Interrupt::Planned;
        }
    }

    /// The guest has come to `time` by itself.
    fn update(&mut self, time: Nanos) -> Result<(), Malformed> {
        if self.waiting {
            return refuse("the guest's time passes while it waits");
        }
        if time < self.now || time > self.free_until.max(self.now) {
            return refuse(format!(
                "the guest is at {} ns, outside {} to {} ns",
                time.0, self.now.0, self.free_until.0
            ));
        }
        self.now = time;
        Ok(())
    }

    /// What comes next, when the devices' next event is at `devices`. Devices go first on a tie.
    pub fn next(&self, devices: Option<Nanos>) -> Next {
        if !self.waiting {
            return Next::Listen;
        }
        let (next, at) = match (devices, self.request) {
            (Some(at), request) if request.is_none_or(|request| at <= request) => {
                (Next::Devices(at.max(self.now)), at)
            }
            (_, Some(request)) => (Next::Guest(request), request),
            (_, None) => return Next::Deadlock,
        };
        if self.limit.is_some_and(|limit| at > limit) { Next::Limit } else { next }
    }

    /// The devices have reached `time`.
    pub fn advance(&mut self, time: Nanos) {
        self.now = self.now.max(time);
    }

    /// Let the guest run at `time`, and by itself until the devices' next event; and acknowledge
    /// what it usually says then.
    pub fn run(
        &mut self,
        time: Nanos,
        devices: Option<Nanos>,
    ) -> impl Iterator<Item = Message> + use<> {
        self.now = self.now.max(time);
        self.waiting = false;
        self.request = None;
        let interrupted = self.is_interrupted();
        self.interrupt = Interrupt::Unseen;
        self.run = Run { interrupted, said: 0, counted: false };
        let said = [self.free(devices), self.say(RUN, self.now.0)];
        // What is left from before was thrown away while it waited.
        self.ahead = self.usual[usize::from(interrupted)].min(AHEAD_MAX);
        let last = self.last;
        let answer = move |nth| Message { op: ACK, sequence: last.wrapping_add(nth), time_ns: 0 };
        said.into_iter().chain((1..=self.ahead).map(answer))
    }

    /// The devices' next event has moved to `devices`: tell the guest, if it matters to it.
    pub fn moved(&mut self, devices: Option<Nanos>) -> Option<Message> {
        // One that waits is told before it runs; and one that stops too early only asks again.
        (!self.waiting && self.until(devices) < self.free_until).then(|| self.free(devices))
    }

    fn until(&self, devices: Option<Nanos>) -> Nanos {
        let far = self.limit.unwrap_or(Nanos(FAR));
        let heard = Nanos(self.now.0.saturating_add(FREE_AT_MOST.0));
        devices.unwrap_or(far).min(far).min(heard).max(self.now)
    }

    fn free(&mut self, devices: Option<Nanos>) -> Message {
        self.free_until = self.until(devices);
        self.say(FREE_UNTIL, self.free_until.0)
    }

    fn say(&mut self, op: u32, time_ns: u64) -> Message {
        self.sequence = self.sequence.wrapping_add(1);
        self.unacknowledged += 1;
        Message { op, sequence: self.sequence, time_ns }
    }
}

fn refuse<T>(what: impl Into<String>) -> Result<T, Malformed> {
    Err(Malformed(what.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guest(op: u32, time_ns: u64) -> Message {
        nth(9, op, time_ns)
    }

    fn nth(sequence: u32, op: u32, time_ns: u64) -> Message {
        Message { op, sequence, time_ns }
    }

    fn started() -> Calendar {
        let mut calendar = Calendar::new();
        calendar.take(guest(START, u64::MAX)).unwrap();
        calendar
    }

    fn acknowledge(calendar: &mut Calendar, messages: &[Message]) {
        for message in messages.iter().filter(|message| message.op != ACK) {
            let ack = Message { op: ACK, sequence: message.sequence, time_ns: 0 };
            assert_eq!(calendar.take(ack), Ok(None));
        }
        assert!(calendar.is_acknowledged());
    }

    #[test]
    fn a_message_survives_its_bytes() {
        let message = Message { op: REQUEST, sequence: 7, time_ns: 1 << 40 };
        assert_eq!(Message::parse(&message.bytes()), message);
    }

    #[test]
    fn the_earlier_of_guest_and_devices_goes_first() {
        let mut calendar = started();
        assert_eq!(calendar.next(Some(Nanos(5))), Next::Listen);
        calendar.take(guest(REQUEST, 100)).unwrap();
        calendar.take(guest(WAIT, 0)).unwrap();
        assert_eq!(calendar.next(None), Next::Guest(Nanos(100)));
        assert_eq!(calendar.next(Some(Nanos(101))), Next::Guest(Nanos(100)));
        assert_eq!(calendar.next(Some(Nanos(100))), Next::Devices(Nanos(100)));
        // A later request replaces an earlier one.
        calendar.take(guest(REQUEST, 50)).unwrap();
        assert_eq!(calendar.next(Some(Nanos(60))), Next::Guest(Nanos(50)));
        let said: Vec<_> = calendar.run(Nanos(50), Some(Nanos(60))).collect();
        assert_eq!((said[0].op, said[0].time_ns), (FREE_UNTIL, 60));
        assert_eq!((said[1].op, said[1].time_ns), (RUN, 50));
        assert!(!calendar.is_acknowledged() && !calendar.is_waiting());
        acknowledge(&mut calendar, &said);
        calendar.caught_up();
        assert_eq!(calendar.take(guest(GET, 0)).unwrap().unwrap().time_ns, 50);
    }

    #[test]
    fn a_guest_that_runs_has_the_answers_to_what_it_usually_says() {
        let mut calendar = started();
        let say = |calendar: &mut Calendar, ops: &[u32]| {
            let one = |&op: &u32| {
                let message = nth(calendar.last + 1, op, if op == REQUEST { 50 } else { 10 });
                calendar.take(message).unwrap().is_none()
            };
            ops.iter().map(one).collect::<Vec<bool>>()
        };
        let go = |calendar: &mut Calendar| {
            let last = calendar.last;
            let told: Vec<_> = calendar.run(Nanos(10), None).collect();
            acknowledge(calendar, &told);
            let answers = told.iter().filter(|message| message.op == ACK);
            answers.map(|message| message.sequence - last).collect::<Vec<u32>>()
        };
        assert_eq!(say(&mut calendar, &[REQUEST, WAIT]), [false; 2]);
        assert_eq!(go(&mut calendar), [1, 2, 3], "as many as in its start");
        assert_eq!(say(&mut calendar, &[REQUEST, WAIT]), [true; 2]);
        assert_eq!(go(&mut calendar), [1, 2], "what was left was thrown away");
        assert_eq!(say(&mut calendar, &[REQUEST, REQUEST, WAIT]), [true, true, false]);
        assert_eq!(go(&mut calendar), [1, 2, 3]);
        // What it says behind a kick does not count: while it waits there it throws answers away.
        assert_eq!(say(&mut calendar, &[UPDATE]), [true]);
        calendar.caught_up();
        assert_eq!(say(&mut calendar, &[REQUEST, WAIT]), [false; 2]);
        assert_eq!(go(&mut calendar), [1]);
    }

    #[test]
    fn a_guest_is_heard_of_while_its_time_passes() {
        let mut calendar = started();
        calendar.take(guest(WAIT, 0)).unwrap();
        let said: Vec<_> = calendar.run(Nanos(10), None).collect();
        assert_eq!((said[0].op, said[0].time_ns), (FREE_UNTIL, 10 + FREE_AT_MOST.0));
    }

    #[test]
    fn an_answer_that_is_left_is_not_taken_for_another() {
        let mut calendar = started();
        calendar.take(guest(WAIT, 0)).unwrap();
        calendar.usual = [2; 2];
        let said: Vec<_> = calendar.run(Nanos(10), None).collect();
        acknowledge(&mut calendar, &said);
        assert_eq!(calendar.take(nth(10, WAIT, 0)), Ok(None));
        assert!(calendar.is_ahead() && calendar.is_waiting());
        assert!(calendar.clone().take(nth(11, GET, 0)).is_err());
        assert!(calendar.clone().take(nth(12, REQUEST, 0)).is_err());
        let said = calendar.catch_up(None);
        acknowledge(&mut calendar, &[said]);
        calendar.caught_up();
        assert_eq!(calendar.take(nth(11, GET, 0)).unwrap().unwrap().time_ns, 10);
    }

    #[test]
    fn nothing_left_to_do_is_a_deadlock() {
        let mut calendar = started();
        calendar.take(guest(REQUEST, FOREVER)).unwrap();
        calendar.take(guest(WAIT, 0)).unwrap();
        assert_eq!(calendar.next(None), Next::Deadlock);
        assert_eq!(calendar.next(Some(Nanos(1))), Next::Devices(Nanos(1)));
    }

    #[test]
    fn an_interrupt_is_planned_when_its_moment_was_asked_for() {
        let mut calendar = started();
        calendar.take(guest(REQUEST, 90)).unwrap();
        calendar.take(guest(WAIT, 0)).unwrap();
        calendar.advance(Nanos(50));
        calendar.interrupt();
        assert!(!calendar.is_interrupted());
        calendar.take(guest(GET, 0)).unwrap();
        assert!(!calendar.is_interrupted());
        calendar.take(guest(REQUEST, 90)).unwrap();
        assert!(!calendar.is_interrupted(), "that was for later");
        calendar.take(guest(REQUEST, 50)).unwrap();
        assert!(calendar.is_interrupted());
        assert_eq!(calendar.next(None), Next::Guest(Nanos(50)));
        let _ = calendar.run(Nanos(50), None);
        assert!(!calendar.is_interrupted());
    }

    #[test]
    fn time_ends_at_its_limit() {
        let mut calendar = Calendar::with_limit(Nanos(100));
        calendar.take(guest(START, 0)).unwrap();
        calendar.take(guest(REQUEST, 90)).unwrap();
        calendar.take(guest(WAIT, 0)).unwrap();
        assert_eq!(calendar.next(None), Next::Guest(Nanos(90)));
        // However far the next event is, the guest has to ask before it passes the limit.
        let said: Vec<_> = calendar.run(Nanos(90), Some(Nanos(500))).collect();
        assert_eq!((said[0].op, said[0].time_ns), (FREE_UNTIL, 100));
        acknowledge(&mut calendar, &said);
        calendar.take(nth(10, REQUEST, 101)).unwrap();
        calendar.take(nth(11, WAIT, 0)).unwrap();
        assert_eq!(calendar.next(None), Next::Limit);
        assert_eq!(calendar.next(Some(Nanos(500))), Next::Limit);
        assert_eq!(calendar.next(Some(Nanos(100))), Next::Devices(Nanos(100)));
    }

    #[test]
    fn a_running_guest_hears_of_earlier_events_only() {
        let mut calendar = started();
        calendar.take(guest(WAIT, 0)).unwrap();
        let said: Vec<_> = calendar.run(Nanos(10), None).collect();
        acknowledge(&mut calendar, &said);
        let said = calendar.moved(Some(Nanos(70))).unwrap();
        assert_eq!((said.op, said.time_ns), (FREE_UNTIL, 70));
        assert_eq!(calendar.moved(Some(Nanos(70))), None);
        assert_eq!(calendar.moved(Some(Nanos(90))), None);
        acknowledge(&mut calendar, &[said]);
        calendar.take(nth(10, UPDATE, 60)).unwrap();
        assert_eq!(calendar.now(), Nanos(60));
    }

    #[test]
    fn what_breaks_the_protocol_is_refused() {
        assert!(Calendar::new().take(guest(WAIT, 0)).is_err());
        let refused = |op, time| started().take(guest(op, time)).unwrap_err().0;
        assert!(refused(START, 0).contains("its time"));
        assert!(refused(UPDATE, 5).contains("outside 0 to 0"));
        assert!(refused(RUN, 5).contains("7 is not") || refused(RUN, 5).contains("6 is not"));
        assert!(refused(ACK, 0).contains("of nothing"));
        let mut calendar = started();
        calendar.take(guest(WAIT, 0)).unwrap();
        assert!(calendar.take(guest(WAIT, 0)).is_err());
        assert!(calendar.take(guest(UPDATE, 0)).is_err());
    }
}
