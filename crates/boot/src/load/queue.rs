//! QEMU's trace of the load: what was read, and when by the guest's own clock.
//!
//! Under counted instructions QEMU's PM timer is a clock that counts them, 3,579,545 ticks for
//! 10^9. SeaBIOS reads it all the time while it waits for a disk, and the trace has what it reads:
//! so each wait has a begin and an end, and what the recording machine's disk took is left out.

use config::Failure;
use workload::boot_recording::Read;

/// Ticks of the PM timer in 10^9 instructions.
const TICKS: u128 = 3_579_545;
/// The timer has 24 bits.
const TIMER_MASK: u64 = (1 << 24) - 1;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Queue {
    /// Reads before the loader's first command.
    pub(super) before_reads: u64,
    pub(super) begin_instructions: u64,
    pub(super) end_instructions: u64,
    pub(super) last_instructions: u64,
    pub(super) reads: Vec<Read>,
}

/// A line that matters.
enum Event {
    Timer(u64),
    /// A request is given to the disk.
    Read(u64, u32),
    /// The guest has seen that it is done.
    Done,
}

/// Where the guest is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Before,
    Computes,
    /// A read was given to the disk; the clock is not read yet.
    Asked,
    Waits,
}

fn instructions(ticks: u64) -> u64 {
    (u128::from(ticks) * 1_000_000_000 / TICKS) as u64
}

impl Queue {
    /// Read a trace. The first reading of the timer is the load's begin, the last one its end.
    ///
    /// # Errors
    /// When the timer, or the answer to a read, is missing.
    pub(super) fn parse(trace: &[u8]) -> Result<Queue, Failure> {
        let mut queue = Queue::default();
        let mut state = State::Before;
        // The clock, without its overflows, and since when the guest computes.
        let (mut now, mut since) = (0, 0);
        let text = String::from_utf8_lossy(trace);
        for (number, line) in text.lines().enumerate() {
            let Some(event) = event(line) else { continue };
            match (event, state) {
                (Event::Timer(value), State::Before) => {
                    (now, since, state) = (value, value, State::Computes);
                    queue.begin_instructions = instructions(value);
                }
                (Event::Timer(value), _) => {
                    now += value.wrapping_sub(now) & TIMER_MASK;
                    if state == State::Asked {
                        if let Some(read) = queue.reads.last_mut() {
                            read.instructions = instructions(now - since);
                        }
                        state = State::Waits;
                    }
                }
                (Event::Read(..), State::Before) => queue.before_reads += 1,
                (Event::Read(sector, sectors), State::Computes) => {
                    queue.reads.push(Read { instructions: 0, sector, sectors, beside: false });
                    state = State::Asked;
                }
                (Event::Done, State::Waits) => (since, state) = (now, State::Computes),
                // Answered before SeaBIOS began to wait: its computing counts for the next.
                (Event::Done, State::Asked) => state = State::Computes,
                // It also looks at its interrupts when it has asked for nothing.
                (Event::Done, State::Before | State::Computes) => {}
                (Event::Read(..), State::Asked | State::Waits) => {
                    let number = number + 1;
                    return Err(unexpected(&format!("line {number} of the trace: `{line}`")));
                }
            }
        }
        if state != State::Computes || queue.reads.is_empty() {
            return Err(unexpected("the trace ends before the load"));
        }
        queue.last_instructions = instructions(now - since);
        queue.end_instructions = instructions(now);
        Ok(queue)
    }
}

fn unexpected(what: &str) -> Failure {
    Failure::machine(format!("{what}: not how SeaBIOS waits for a disk"))
        .expected("QEMU 7.2 or newer with its own SeaBIOS")
        .help("apt-get install qemu-system-x86 seabios")
}

fn event(line: &str) -> Option<Event> {
    if let Some(rest) = line.strip_prefix("virtio_blk_handle_read ") {
        let sector = word_after(rest, "sector ")?.parse().ok()?;
        return Some(Event::Read(sector, word_after(rest, "nsectors ")?.parse().ok()?));
    }
    let rest = line.strip_prefix("memory_region_ops_read ")?;
    if rest.ends_with("name 'acpi-tmr'") {
        let value = word_after(rest, "value 0x")?;
        return Some(Event::Timer(u64::from_str_radix(value, 16).ok()? & TIMER_MASK));
    }
    rest.ends_with("name 'virtio-pci-isr-virtio-blk'").then_some(Event::Done)
}

fn word_after<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let start = text.find(key)? + key.len();
    text[start..].split(' ').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timer(ticks: u64) -> String {
        let value = ticks & TIMER_MASK;
        format!("memory_region_ops_read cpu 0 addr 0x608 value {value:#x} size 4 name 'acpi-tmr'\n")
    }

    fn read(sector: u64, sectors: u32) -> String {
        format!("virtio_blk_handle_read vdev 0x5 req 0x6 sector {sector} nsectors {sectors}\n")
    }

    const DONE: &str = "memory_region_ops_read cpu 0 mr 0x5 addr 0xf value 0x0 size 1 \
                        name 'virtio-pci-isr-virtio-blk'\n";
    /// So many ticks are 10^9 instructions.
    const SECOND: u64 = 3_579_545;

    #[test]
    fn waiting_is_not_computing_and_the_timer_overflows() {
        let at = SECOND;
        let trace = [
            read(0, 1),
            timer(at),
            read(2048, 2),
            timer(3 * at),
            timer(4 * at),
            DONE.into(),
            read(2050, 63),
            timer(5 * at),
            timer(8 * at),
            DONE.into(),
            timer(9 * at),
        ];
        let queue = Queue::parse(trace.concat().as_bytes()).unwrap();
        let giga = 1_000_000_000;
        let read =
            |instructions, sector, sectors| Read { instructions, sector, sectors, beside: false };
        assert_eq!(queue.reads, [read(2 * giga, 2048, 2), read(giga, 2050, 63)]);
        assert_eq!((queue.begin_instructions, queue.end_instructions), (giga, 9 * giga));
        assert_eq!((queue.last_instructions, queue.before_reads), (giga, 1));
    }

    #[test]
    fn what_is_answered_at_once_has_no_wait() {
        let trace = [timer(0), read(1, 1), DONE.into(), read(2, 1), timer(SECOND), DONE.into()];
        let queue = Queue::parse(trace.concat().as_bytes()).unwrap();
        let instructions: Vec<u64> = queue.reads.iter().map(|read| read.instructions).collect();
        assert_eq!(instructions, [0, 1_000_000_000]);
    }

    #[test]
    fn a_trace_that_is_not_serial_or_ends_early_is_refused() {
        let twice = [timer(1), read(1, 1), read(2, 1)].concat();
        let message = Queue::parse(twice.as_bytes()).unwrap_err().message;
        assert!(message.contains("line 3 of the trace: `virtio_blk"), "{message}");
        for trace in ["", &timer(1), &[timer(1), read(1, 1), timer(2)].concat()] {
            assert!(Queue::parse(trace.as_bytes()).is_err(), "{trace}");
        }
    }
}
