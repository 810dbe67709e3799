//! QEMU's trace of the load: what was read, and when by the guest's own clock.
//!
//! Under counted instructions the processor's time stamp counts them. The trace has it before and
//! after each call of the firmware's driver of the disk ([`crate::mark`]). What the recording
//! machine's disk took is no part of a load. QEMU answers in the thread of the guest's processor
//! when it need not wait; where another thread did, the call's time beyond the usual one is left
//! out.

use config::Failure;
use workload::boot_recording::Read;

use crate::mark;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Queue {
    /// Reads before the load's begin.
    pub(super) before_reads: u64,
    /// Reads after the load's end.
    pub(super) after_reads: u64,
    pub(super) begin_instructions: u64,
    pub(super) end_instructions: u64,
    pub(super) last_instructions: u64,
    pub(super) reads: Vec<Read>,
    /// Reads that may have waited for this machine's disk, from reset on.
    pub(super) waits: u64,
}

/// What the trace tells, in its order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Event {
    Begin,
    End,
    Called(u64),
    Returned(u64),
    /// A sector, and how many.
    Read(u64, u32),
    /// A read was answered by another thread than the guest's processor, or by one not known.
    AnsweredElsewhere,
}

/// A call of the disk's driver that read something.
#[derive(Default)]
struct Call {
    called: u64,
    returned: u64,
    /// Calls since the one before, this one included: others read nothing.
    calls: u64,
    reads: Vec<(u64, u32)>,
    /// A read was answered elsewhere, so the guest may have waited.
    waited: bool,
}

impl Call {
    fn took(&self) -> u64 {
        self.returned.saturating_sub(self.called)
    }
}

impl Queue {
    /// Read a trace, in which each call has so many `own` instructions of who writes the clock.
    ///
    /// # Errors
    /// When the begin, the end, or the answer to a read is missing.
    pub(super) fn parse(trace: &[u8], own: u64) -> Result<Queue, Failure> {
        let events = events(&String::from_utf8_lossy(trace));
        let early = || unexpected("the trace ends before the load");
        let begin = events.iter().position(|event| *event == Event::Begin).ok_or_else(early)?;
        let end = events.iter().rposition(|event| *event == Event::End).ok_or_else(early)?;
        let read = |event: &&Event| matches!(event, Event::Read(..));
        let waits = |event: &&Event| **event == Event::AnsweredElsewhere;
        let (before, load, after) =
            (&events[..begin], events.get(begin..end).unwrap_or_default(), &events[end..]);
        let calls = calls(load)?;
        let ([first, calls @ ..], Some(last)) =
            (&calls[..], self::calls(after)?.into_iter().next())
        else {
            return Err(early());
        };
        let mut queue = Queue {
            before_reads: before.iter().filter(read).count() as u64,
            after_reads: (after.iter().filter(read).count() - last.reads.len()) as u64,
            begin_instructions: first.returned,
            end_instructions: last.returned,
            waits: before.iter().chain(load).filter(waits).count() as u64,
            ..Queue::default()
        };
        let usual = usual(calls);
        let mut since = first.returned;
        for call in calls {
            let waited = if call.waited { call.took().saturating_sub(usual) } else { 0 };
            let mut instructions =
                (call.returned - since).saturating_sub(waited + call.calls * own);
            since = call.returned;
            for &(sector, sectors) in &call.reads {
                queue.reads.push(Read { instructions, sector, sectors, beside: false });
                instructions = 0;
            }
        }
        queue.last_instructions = last.called.saturating_sub(since + (last.calls - 1) * own);
        if queue.reads.is_empty() {
            return Err(early());
        }
        Ok(queue)
    }
}

/// What a call takes: the median of those that did not wait, or the quickest.
fn usual(calls: &[Call]) -> u64 {
    let took = |waited| calls.iter().filter(move |call| call.waited == waited).map(Call::took);
    let mut at_once: Vec<u64> = took(false).collect();
    at_once.sort_unstable();
    at_once.get(at_once.len() / 2).copied().or(took(true).min()).unwrap_or_default()
}

/// The calls that read something.
fn calls(events: &[Event]) -> Result<Vec<Call>, Failure> {
    let mut calls = Vec::new();
    let mut open: Option<Call> = None;
    let (mut count, mut since) = (0, 0);
    for event in events {
        match (*event, &mut open) {
            (Event::Called(called), None) if called >= since => {
                count += 1;
                open = Some(Call { called, ..Call::default() });
            }
            (Event::Read(sector, sectors), Some(call)) => call.reads.push((sector, sectors)),
            (Event::AnsweredElsewhere, Some(call)) => call.waited = true,
            (Event::Returned(returned), Some(call)) if returned >= call.called => {
                since = returned;
                let call = open.take().expect("matched");
                if !call.reads.is_empty() {
                    calls.push(Call { returned, calls: std::mem::take(&mut count), ..call });
                }
            }
            (Event::Begin | Event::End | Event::AnsweredElsewhere, None) => {}
            // After the load the kernel has the disk.
            (Event::Read(..), None) if !calls.is_empty() && events[0] == Event::End => break,
            (event, _) => return Err(unexpected(&format!("{event:?} in the trace"))),
        }
    }
    Ok(calls)
}

/// The events of a trace. After the load's end the kernel may use the register, too.
fn events(text: &str) -> Vec<Event> {
    let mut events = Vec::new();
    // The load is over; the register is somebody else's.
    let (mut ended, mut foreign) = (false, false);
    // A letter whose clock is being written.
    let mut clock: Option<(u8, Vec<u8>)> = None;
    // Which thread had the last request.
    let mut asked = None;
    for line in text.lines() {
        let (thread, line) = thread_of(line);
        if let Some(read) = read_of(line) {
            asked = Some(thread);
            events.push(read);
        } else if line.starts_with("virtio_blk_req_complete ") {
            // Others than reads are nobody's waiting.
            if asked.take().is_some_and(|asked| thread.is_none() || thread != asked) {
                events.push(Event::AnsweredElsewhere);
            }
        } else if let Some(byte) = byte_of(line).filter(|_| !foreign) {
            match &mut clock {
                Some((letter, bytes)) => {
                    bytes.push(byte);
                    if let Ok(bytes) = <[u8; 8]>::try_from(&bytes[..]) {
                        let at = u64::from_le_bytes(bytes);
                        let called = *letter == mark::CALLED;
                        events.push(if called { Event::Called(at) } else { Event::Returned(at) });
                        clock = None;
                    }
                }
                None => match byte {
                    mark::BEGIN => events.push(Event::Begin),
                    mark::END => {
                        ended = true;
                        events.push(Event::End);
                    }
                    mark::CALLED | mark::RETURNED => clock = Some((byte, Vec::new())),
                    _ => foreign = ended,
                },
            }
        }
    }
    events
}

/// Whose line it is, and the line itself, of `thread@seconds:line`.
fn thread_of(line: &str) -> (Option<u32>, &str) {
    let parts = line.split_once(':').and_then(|(head, line)| Some((head.split_once('@')?.0, line)));
    parts.map_or((None, line), |(thread, line)| (thread.parse().ok(), line))
}

fn read_of(line: &str) -> Option<Event> {
    let rest = line.strip_prefix("virtio_blk_handle_read ")?;
    let sector = word_after(rest, "sector ")?.parse().ok()?;
    Some(Event::Read(sector, word_after(rest, "nsectors ")?.parse().ok()?))
}

/// What is written to the register of the marks.
fn byte_of(line: &str) -> Option<u8> {
    let rest = line.strip_prefix("serial_write ")?;
    if word_after(rest, "addr ")? != mark::REGISTER {
        return None;
    }
    u8::from_str_radix(word_after(rest, "val 0x")?, 16).ok()
}

fn word_after<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let start = text.find(key)? + key.len();
    text[start..].split(' ').next()
}

fn unexpected(what: &str) -> Failure {
    Failure::machine(format!("{what}: not how a loader uses SeaBIOS or OVMF"))
        .expected("QEMU 7.2 or newer with its own SeaBIOS, and OVMF for UEFI")
        .help("apt-get install qemu-system-x86 seabios ovmf")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of the program that writes the clock.
    const OWN: u64 = 10;

    fn byte(byte: u8) -> String {
        format!("70@1.5:serial_write write addr 0x07 val {byte:#04x}\n")
    }

    fn clock(letter: u8, at: u64) -> String {
        byte(letter) + &at.to_le_bytes().map(byte).concat()
    }

    fn read(sector: u64, sectors: u32) -> String {
        asked(sector, sectors) + "70@1.6:virtio_blk_req_complete vdev 0x5 req 0x6 status 0\n"
    }

    /// A read that the guest waits for.
    fn slow_read(sector: u64, sectors: u32) -> String {
        asked(sector, sectors) + "69@1.6:virtio_blk_req_complete vdev 0x5 req 0x6 status 0\n"
    }

    fn asked(sector: u64, sectors: u32) -> String {
        let request = format!("sector {sector} nsectors {sectors}");
        format!("70@1.5:virtio_blk_handle_read vdev 0x5 req 0x6 {request}\n")
    }

    /// A call of the driver from `at` on.
    fn call(at: u64, took: u64, inner: &str) -> String {
        clock(mark::CALLED, at) + inner + &clock(mark::RETURNED, at + took)
    }

    fn parse(parts: &[String]) -> Result<Queue, Failure> {
        Queue::parse(parts.concat().as_bytes(), OWN)
    }

    fn instructions(queue: &Queue) -> Vec<u64> {
        queue.reads.iter().map(|read| read.instructions).collect()
    }

    fn begin() -> String {
        // The firmware's own, and what somebody else writes to the register.
        [read(0, 1), byte(0), call(100, 50, &read(1, 8)), byte(mark::BEGIN)].concat()
            + &call(900, 100, &read(1920, 64))
    }

    fn end(at: u64) -> String {
        let after = [byte(0x5a), byte(mark::BEGIN), read(7, 8)];
        [byte(mark::END), call(at, 100, &read(1984, 64))].concat() + &after.concat()
    }

    #[test]
    fn computing_is_what_lies_between_the_answers() {
        let queue = parse(&[
            begin(),
            call(2_000, 60, &read(2048, 2)),
            // The size of the disk is asked for; two requests of one call.
            call(3_000, 20, ""),
            call(4_000, 60, &(read(2050, 1) + &read(2051, 1))),
            "70@1.5:serial_write write addr 0x00 val 0x45\n".into(),
            end(6_000),
        ])
        .unwrap();
        assert_eq!(instructions(&queue), [1_060 - OWN, 2_000 - 2 * OWN, 0]);
        let sectors: Vec<_> = queue.reads.iter().map(|read| (read.sector, read.sectors)).collect();
        assert_eq!(sectors, [(2048, 2), (2050, 1), (2051, 1)]);
        assert_eq!((queue.begin_instructions, queue.end_instructions), (1_000, 6_100));
        assert_eq!(queue.last_instructions, 6_000 - 4_060);
        assert_eq!((queue.before_reads, queue.after_reads), (2, 1));
        assert_eq!(queue.waits, 0);
    }

    #[test]
    fn waiting_for_this_machine_is_left_out() {
        let calls = [
            call(2_000, 560, &slow_read(2048, 2)),
            call(3_000, 60, &read(2050, 2)),
            // A tick of the timer came in between: no waiting.
            call(4_000, 90, &read(2052, 2)),
            call(5_000, 60, &read(2054, 2)),
            call(6_000, 70, &slow_read(2056, 4)),
        ];
        let queue = parse(&[begin(), calls.concat(), end(8_000)]).unwrap();
        let gaps = [1_060, 500, 1_030, 970, 1_000].map(|gap| gap - OWN);
        assert_eq!(instructions(&queue), gaps);
        assert_eq!(queue.waits, 2);
        // Without the threads' names nobody knows.
        let calls = [call(2_000, 60, &read(2048, 2)), call(3_000, 70, &read(2050, 2))];
        let trace = [begin(), calls.concat(), end(8_000)].concat();
        let queue = Queue::parse(trace.replace("70@1.6:", "").as_bytes(), OWN).unwrap();
        assert_eq!(instructions(&queue), [1_060 - OWN, 1_000 - OWN]);
        assert_eq!(queue.waits, 5);
    }

    #[test]
    fn the_last_end_counts() {
        // Under UEFI, the loader was loaded before it.
        let queue = parse(&[begin(), call(2_000, 60, &read(9, 2)), end(3_000)]).unwrap();
        let parts = [begin(), byte(mark::END), call(1_500, 60, &read(1984, 64))];
        let again = [call(2_000, 60, &read(9, 2)), end(3_000)];
        let later = parse(&[parts.concat(), again.concat()]).unwrap();
        assert_eq!((queue.reads.len(), later.reads.len()), (1, 2));
        assert_eq!(queue.end_instructions, later.end_instructions);
    }

    #[test]
    fn a_trace_that_ends_early_or_is_not_a_loaders_is_refused() {
        let whole = [begin(), call(2_000, 60, &read(9, 2)), end(3_000)].concat();
        for length in (0..whole.len()).step_by(7) {
            let cut = Queue::parse(&whole.as_bytes()[..length], OWN);
            assert!(cut.is_err() || whole[length..].matches("0x07").count() <= 2, "{length}");
        }
        let outside = parse(&[begin(), read(9, 2), end(3_000)]).unwrap_err().message;
        assert!(outside.contains("Read(9, 2) in the trace"), "{outside}");
        let back = [begin(), call(500, 60, &read(9, 2)), end(3_000)];
        assert!(parse(&back).unwrap_err().message.contains("Called(500)"));
        assert!(parse(&[begin(), end(3_000)]).is_err());
    }
}
