//! QEMU's trace of the load: what was read, and when by the guest's own clock.
//!
//! Under counted instructions QEMU's PM timer is a clock that counts them, 3,579,545 ticks for
//! 10^9. SeaBIOS reads it all the time while it waits for a disk, and the trace has what it reads:
//! so each wait has a begin and an end, and what the recording machine's disk took is left out.
//!
//! OVMF looks at memory for the answer, and between two looks waits for 1, 2, 4 and up to 1,024
//! microseconds by the same timer: the last reading before it goes on ends the wait. It does not
//! say that the answer is there, so the loader's own readings come after one of the panic device.

use config::Failure;
use workload::boot_recording::Read;

use crate::image::Firmware;

/// Ticks of the PM timer in 10^9 instructions.
const TICKS: u128 = 3_579_545;
/// The timer has 24 bits.
const TIMER_MASK: u64 = (1 << 24) - 1;

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Queue {
    /// Reads before the loader's first command.
    pub(super) before_reads: u64,
    /// Reads after the load's end.
    pub(super) after_reads: u64,
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
    /// The loader's own code runs, and reads the timer next.
    Mark,
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
    pub(super) fn parse(trace: &[u8], firmware: Firmware) -> Result<Queue, Failure> {
        let mut queue = Queue::default();
        let mut state = State::Before;
        // The clock, without its overflows, and since when the guest computes.
        let (mut now, mut since) = (0, 0);
        let text = String::from_utf8_lossy(trace);
        let lines: Vec<&str> = text.lines().collect();
        let timer = |line: &&str| matches!(event(line), Some(Event::Timer(_)));
        let end = lines.iter().rposition(timer).map_or(lines.len(), |last| last + 1);
        for (number, line) in lines[..end].iter().enumerate() {
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
                    if state == State::Waits {
                        since = now;
                    }
                }
                (Event::Read(..), State::Before) => queue.before_reads += 1,
                // OVMF asks for one thing at a time: it has seen the answer to the one before.
                (Event::Read(sector, sectors), state_before)
                    if state_before == State::Computes || firmware == Firmware::Uefi =>
                {
                    queue.reads.push(Read { instructions: 0, sector, sectors, beside: false });
                    state = State::Asked;
                }
                // Asked: answered before the firmware began to wait; its computing counts for the
                // next.
                (Event::Done | Event::Mark, State::Waits | State::Asked) => state = State::Computes,
                // SeaBIOS also looks at its interrupts when it has asked for nothing.
                (Event::Done | Event::Mark, State::Before | State::Computes) => {}
                (Event::Read(..), _) => {
                    let number = number + 1;
                    return Err(unexpected(&format!("line {number} of the trace: `{line}`")));
                }
            }
        }
        if state != State::Computes || queue.reads.is_empty() {
            return Err(unexpected("the trace ends before the load"));
        }
        let read = |line: &&&str| matches!(event(line), Some(Event::Read(..)));
        queue.after_reads = lines[end..].iter().filter(read).count() as u64;
        queue.last_instructions = instructions(now - since);
        queue.end_instructions = instructions(now);
        Ok(queue)
    }
}

fn unexpected(what: &str) -> Failure {
    Failure::machine(format!("{what}: not how SeaBIOS or OVMF wait for a disk"))
        .expected("QEMU 7.2 or newer with its own SeaBIOS, and OVMF for UEFI")
        .help("apt-get install qemu-system-x86 seabios ovmf")
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
    if rest.ends_with("name 'pvpanic'") {
        return Some(Event::Mark);
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
    const MARK: &str =
        "memory_region_ops_read cpu 0 mr 0x5 addr 0x505 value 0x3 size 1 name 'pvpanic'\n";

    fn parse(trace: &str) -> Result<Queue, Failure> {
        Queue::parse(trace.as_bytes(), Firmware::Bios)
    }

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
        let queue = parse(&trace.concat()).unwrap();
        let giga = 1_000_000_000;
        let read =
            |instructions, sector, sectors| Read { instructions, sector, sectors, beside: false };
        assert_eq!(queue.reads, [read(2 * giga, 2048, 2), read(giga, 2050, 63)]);
        assert_eq!((queue.begin_instructions, queue.end_instructions), (giga, 9 * giga));
        assert_eq!((queue.last_instructions, queue.before_reads), (giga, 1));
    }

    #[test]
    fn ovmf_waits_until_its_last_look_and_a_mark_ends_the_load() {
        let at = |seconds: u64| timer(seconds * SECOND);
        let trace = [
            read(0, 1),
            MARK.into(),
            at(1),
            read(2048, 2),
            at(2),
            at(3),
            read(2050, 64),
            // Answered before a first look.
            read(2114, 64),
            at(5),
            at(6),
            MARK.into(),
            at(7),
            read(9, 1),
        ];
        let queue = Queue::parse(trace.concat().as_bytes(), Firmware::Uefi).unwrap();
        let giga = 1_000_000_000;
        let instructions: Vec<u64> = queue.reads.iter().map(|read| read.instructions).collect();
        assert_eq!(instructions, [giga, 0, 2 * giga]);
        assert_eq!((queue.last_instructions, queue.end_instructions), (giga, 7 * giga));
        assert_eq!((queue.before_reads, queue.after_reads), (1, 1));
        // Without the mark, nobody knows that the last reading is not the firmware's.
        let unmarked = trace.concat().replace(MARK, "");
        assert!(Queue::parse(unmarked.as_bytes(), Firmware::Uefi).is_err());
    }

    #[test]
    fn what_is_answered_at_once_has_no_wait() {
        let (answered, waited) =
            ([read(1, 1), DONE.into()], [read(2, 1), timer(SECOND), DONE.into()]);
        let trace = [&[timer(0)], &answered[..], &waited, &[timer(SECOND)]].concat();
        let queue = parse(&trace.concat()).unwrap();
        let instructions: Vec<u64> = queue.reads.iter().map(|read| read.instructions).collect();
        assert_eq!(instructions, [0, 1_000_000_000]);
    }

    #[test]
    fn a_trace_that_is_not_serial_or_ends_early_is_refused() {
        let twice = [timer(1), read(1, 1), read(2, 1), timer(2)].concat();
        let message = parse(&twice).unwrap_err().message;
        assert!(message.contains("line 3 of the trace: `virtio_blk"), "{message}");
        for trace in ["", &timer(1), &[timer(1), read(1, 1), timer(2)].concat()] {
            assert!(parse(trace).is_err(), "{trace}");
        }
    }
}
