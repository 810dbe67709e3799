//! What the kernel says of a task: `struct taskstats` (Linux's `taskstats.h`) in messages of
//! generic netlink. Total: whatever the bytes are, there is an answer.

use std::fmt;

/// The last message's answer to a request that failed, or was done.
pub const NLMSG_ERROR: u16 = 2;
/// Name of the family.
pub const FAMILY: &[u8] = b"TASKSTATS\0";

const NETLINK_HEADER: usize = 16;
const GENERIC_HEADER: usize = 4;
const ATTRIBUTE_HEADER: usize = 4;
const TYPE_STATS: u16 = 3;
const TYPE_AGGREGATE_PID: u16 = 4;
const TYPE_AGGREGATE_TGID: u16 = 5;
const CTRL_FAMILY_ID: u16 = 1;
/// The struct of version 8, which all that we read of the first versions is in.
const BYTES_MIN: usize = 328;

/// What a task, or all of a process, has used so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// It ran.
    pub cpu_ns: u64,
    /// It could run and waited for the processor.
    pub queue_ns: u64,
    /// It waited for a block device.
    pub io_ns: u64,
    /// So many times.
    pub io_waits: u64,
    /// It waited for pages that had been swapped out.
    pub swap_ns: u64,
    /// It waited for memory to be freed.
    pub reclaim_ns: u64,
    /// It waited for pages of its working set that had been dropped.
    pub thrashing_ns: u64,
    /// Read from block devices on its behalf.
    pub read_bytes: u64,
    /// Made dirty by it, for block devices.
    pub write_bytes: u64,
    /// System calls that read.
    pub read_calls: u64,
    /// System calls that write.
    pub write_calls: u64,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
}

impl Usage {
    /// Each count of both, by `how`.
    fn with(self, other: &Usage, how: fn(u64, u64) -> u64) -> Usage {
        Usage {
            cpu_ns: how(self.cpu_ns, other.cpu_ns),
            queue_ns: how(self.queue_ns, other.queue_ns),
            io_ns: how(self.io_ns, other.io_ns),
            io_waits: how(self.io_waits, other.io_waits),
            swap_ns: how(self.swap_ns, other.swap_ns),
            reclaim_ns: how(self.reclaim_ns, other.reclaim_ns),
            thrashing_ns: how(self.thrashing_ns, other.thrashing_ns),
            read_bytes: how(self.read_bytes, other.read_bytes),
            write_bytes: how(self.write_bytes, other.write_bytes),
            read_calls: how(self.read_calls, other.read_calls),
            write_calls: how(self.write_calls, other.write_calls),
            minor_faults: how(self.minor_faults, other.minor_faults),
            major_faults: how(self.major_faults, other.major_faults),
        }
    }

    /// Both together.
    pub fn and(self, other: &Usage) -> Usage {
        self.with(other, u64::saturating_add)
    }

    /// What came since `earlier`.
    pub fn since(self, earlier: &Usage) -> Usage {
        self.with(earlier, u64::saturating_sub)
    }
}

/// A task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Task {
    /// Its number; of the thread.
    pub pid: u32,
    /// The process it is of; before version 12 of the struct a thread is one of its own.
    pub process: u32,
    /// Who started the process, or took it over.
    pub parent: u32,
    /// Its name, at most 15 bytes of it.
    pub name: String,
    /// Since its start.
    pub elapsed_ns: u64,
    /// What it used.
    pub usage: Usage,
}

/// Why bytes are not what they should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Malformed {
    /// They end in the middle.
    Short,
    /// A version of the struct whose fields lie elsewhere.
    Version(u16),
    /// Refused by the kernel, for this reason.
    Refused(i32),
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Malformed::Short => write!(f, "a message that ends in its middle"),
            Malformed::Version(version) => write!(
                f,
                "taskstats of version {version}; expected one from 8 on, but not 15 (Linux 6.14 \
                 and 6.15), whose fields lie elsewhere"
            ),
            Malformed::Refused(errno) => write!(f, "the kernel refuses: error {errno}"),
        }
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], Malformed> {
    let end = at.checked_add(N).ok_or(Malformed::Short)?;
    bytes.get(at..end).and_then(|part| part.try_into().ok()).ok_or(Malformed::Short)
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, Malformed> {
    array(bytes, at).map(u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, Malformed> {
    array(bytes, at).map(u32::from_ne_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Result<u64, Malformed> {
    array(bytes, at).map(u64::from_ne_bytes)
}

/// Read a `struct taskstats`.
///
/// # Errors
/// When it is too short, or of a version that is not known.
pub fn task(bytes: &[u8]) -> Result<Task, Malformed> {
    let version = u16_at(bytes, 0)?;
    if version < 8 || version == 15 {
        return Err(Malformed::Version(version));
    }
    if bytes.len() < BYTES_MIN {
        return Err(Malformed::Short);
    }
    let number = |at: usize| u64_at(bytes, at);
    let name: Vec<u8> = bytes[80..112].iter().copied().take_while(|&byte| byte != 0).collect();
    let pid = u32_at(bytes, 128)?;
    Ok(Task {
        pid,
        process: if version >= 12 { u32_at(bytes, 368)? } else { pid },
        parent: u32_at(bytes, 132)?,
        name: String::from_utf8_lossy(&name).into_owned(),
        elapsed_ns: number(144)?.saturating_mul(1000),
        usage: Usage {
            queue_ns: number(24)?,
            io_waits: number(32)?,
            io_ns: number(40)?,
            swap_ns: number(56)?,
            cpu_ns: number(72)?,
            minor_faults: number(168)?,
            major_faults: number(176)?,
            read_calls: number(232)?,
            write_calls: number(240)?,
            read_bytes: number(248)?,
            write_bytes: number(256)?,
            reclaim_ns: number(320)?,
            thrashing_ns: if version >= 9 { number(336)? } else { 0 },
        },
    })
}

/// One message at the beginning of `bytes`: its type, its content, and what follows.
///
/// # Errors
/// When it is not whole.
fn message(bytes: &[u8]) -> Result<(u16, &[u8], &[u8]), Malformed> {
    let length = u32_at(bytes, 0)? as usize;
    let content = bytes.get(NETLINK_HEADER..length).ok_or(Malformed::Short)?;
    let next = length.next_multiple_of(4).min(bytes.len());
    Ok((u16_at(bytes, 4)?, content, &bytes[next..]))
}

/// Type and content of each attribute.
fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = Result<(u16, &[u8]), Malformed>> {
    std::iter::from_fn(move || {
        if bytes.len() < ATTRIBUTE_HEADER {
            return None;
        }
        let one = || {
            let length = usize::from(u16_at(bytes, 0)?);
            let content = bytes.get(ATTRIBUTE_HEADER..length).ok_or(Malformed::Short)?;
            // The two highest bits are flags.
            Ok((u16_at(bytes, 2)? & 0x3fff, content, length))
        };
        match one() {
            Ok((kind, content, length)) => {
                bytes = &bytes[length.next_multiple_of(4).min(bytes.len())..];
                Some(Ok((kind, content)))
            }
            Err(why) => {
                bytes = &[];
                Some(Err(why))
            }
        }
    })
}

/// The tasks that a datagram tells of; sums over a process are left out unless `sums`.
///
/// # Errors
/// When it is not what the kernel sends, or tells that a request failed.
pub fn tasks(mut bytes: &[u8], sums: bool) -> Result<Vec<Task>, Malformed> {
    let mut all = Vec::new();
    while bytes.len() >= NETLINK_HEADER {
        let (kind, content, rest) = message(bytes)?;
        bytes = rest;
        if kind == NLMSG_ERROR {
            match array(content, 0).map(i32::from_ne_bytes)? {
                0 => continue,
                errno => return Err(Malformed::Refused(errno)),
            }
        }
        let wanted = if sums { TYPE_AGGREGATE_TGID } else { TYPE_AGGREGATE_PID };
        for attribute in attributes(content.get(GENERIC_HEADER..).unwrap_or(&[])) {
            let (kind, content) = attribute?;
            if kind != wanted {
                continue;
            }
            for inner in attributes(content) {
                let (kind, content) = inner?;
                if kind == TYPE_STATS {
                    all.push(task(content)?);
                }
            }
        }
    }
    Ok(all)
}

/// The family's number in the kernel's answer about it.
///
/// # Errors
/// When it is not that.
pub fn family(bytes: &[u8]) -> Result<u16, Malformed> {
    let (kind, content, _) = message(bytes)?;
    if kind == NLMSG_ERROR {
        return Err(Malformed::Refused(array(content, 0).map(i32::from_ne_bytes)?));
    }
    for attribute in attributes(content.get(GENERIC_HEADER..).unwrap_or(&[])) {
        if let (CTRL_FAMILY_ID, content) = attribute? {
            return u16_at(content, 0);
        }
    }
    Err(Malformed::Short)
}

/// A request of `family` with one attribute.
pub fn request(family: u16, command: u8, attribute: u16, content: &[u8]) -> Vec<u8> {
    const FLAG_REQUEST: u16 = 1;
    let attribute_bytes = ATTRIBUTE_HEADER + content.len();
    let length = (NETLINK_HEADER + GENERIC_HEADER + attribute_bytes).next_multiple_of(4);
    let mut out = Vec::with_capacity(length);
    out.extend((length as u32).to_ne_bytes());
    out.extend(family.to_ne_bytes());
    out.extend(FLAG_REQUEST.to_ne_bytes());
    out.extend([0; 8]);
    out.extend([command, 1, 0, 0]);
    out.extend((attribute_bytes as u16).to_ne_bytes());
    out.extend(attribute.to_ne_bytes());
    out.extend(content);
    out.resize(length, 0);
    out
}

/// Give a request a number, which its answer will have.
pub fn numbered(mut request: Vec<u8>, number: u32) -> Vec<u8> {
    if let Some(place) = request.get_mut(8..12) {
        place.copy_from_slice(&number.to_ne_bytes());
    }
    request
}

/// The number of the request that this answers.
pub fn number(answer: &[u8]) -> Option<u32> {
    u32_at(answer, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Linux 6.1 sent when `sleep` ended, and its answer about the family.
    const EXIT: &[u8] = include_bytes!("fixtures/exit-6.1");
    const ANSWER: &[u8] = include_bytes!("fixtures/family-6.1");

    #[test]
    fn a_real_record_is_read() {
        let all = tasks(EXIT, false).unwrap();
        let [task] = &all[..] else { panic!("{all:?}") };
        assert_eq!((task.name.as_str(), task.pid), ("sleep", task.process));
        assert!(task.parent > 0 && task.parent < task.pid);
        assert!(task.elapsed_ns >= 250_000_000 && task.elapsed_ns < 300_000_000, "{task:?}");
        assert!(task.usage.io_waits > 0 && task.usage.io_ns > 0, "{task:?}");
        assert!(task.usage.read_bytes % 512 == 0 && task.usage.read_bytes > 0, "{task:?}");
        assert!(task.usage.minor_faults > task.usage.major_faults, "{task:?}");
        assert!(tasks(EXIT, true).unwrap().is_empty());
    }

    #[test]
    fn the_familys_number_is_found() {
        assert!(family(ANSWER).unwrap() >= 16);
        assert!(family(EXIT).is_err());
    }

    #[test]
    fn no_bytes_are_too_strange() {
        for length in 0..EXIT.len() {
            assert!(tasks(&EXIT[..length], false).map_or(true, |all| all.is_empty()), "{length}");
            let _ = family(&EXIT[..length]);
        }
        for at in 0..EXIT.len() {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bytes = EXIT.to_vec();
                bytes[at] = value;
                let _ = (tasks(&bytes, false), tasks(&bytes, true), family(&bytes));
            }
        }
    }

    #[test]
    fn versions_with_other_fields_are_refused() {
        let mut bytes = [0; 416];
        bytes[128] = 7;
        bytes[368] = 5;
        for (version, expected) in
            [(7, None), (8, Some(7)), (11, Some(7)), (12, Some(5)), (15, None)]
        {
            bytes[0] = version;
            assert_eq!(task(&bytes).ok().map(|task| task.process), expected, "{version}");
        }
        bytes[0] = 13;
        assert_eq!(task(&bytes[..360]), Err(Malformed::Short));
        assert_eq!(tasks(&refusal(-1), false), Err(Malformed::Refused(-1)));
    }

    fn refusal(errno: i32) -> Vec<u8> {
        let mut out = request(NLMSG_ERROR, 0, 0, &[]);
        out[16..20].copy_from_slice(&errno.to_ne_bytes());
        out
    }

    #[test]
    fn a_request_has_the_lengths_that_it_says() {
        let bytes = request(21, 1, 3, b"0-1\0");
        assert_eq!((bytes.len(), bytes[0], bytes[4]), (28, 28, 21));
        assert_eq!((bytes[16], bytes[20], bytes[22]), (1, 8, 3));
        let numbered = numbered(bytes.clone(), 0x1234_5678);
        assert_eq!((number(&numbered), number(&bytes)), (Some(0x1234_5678), Some(0)));
        assert_eq!((&numbered[..8], &numbered[12..]), (&bytes[..8], &bytes[12..]));
        assert_eq!(number(&bytes[..11]), None);
    }
}
