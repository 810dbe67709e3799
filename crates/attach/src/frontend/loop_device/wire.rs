//! The part of the FUSE protocol that one folder of plain files needs, sans I/O.
//!
//! <https://github.com/torvalds/linux/blob/master/include/uapi/linux/fuse.h>. Both sides are on
//! one machine, so numbers have its byte order.

use super::super::linux::{errno, u32_at, u64_at};
use crate::order::Command;

/// Longest data of one read or write.
pub const DATA_MAX: u32 = 1 << 20;
/// Room for the longest request.
pub const REQUEST_BYTES_MAX: usize = DATA_MAX as usize + 4096;
/// Length of the header before every reply.
pub const REPLY_HEADER_BYTES: usize = 16;

const HEADER_BYTES: usize = 40;
const MAJOR: u32 = 7;
/// From here on the reply to INIT has its present form, and there are parallel direct writes.
const MINOR: u32 = 36;
/// The folder; the files follow it in their order.
const ROOT: u64 = 1;
/// Attributes and names never change.
const VALID_SECONDS: u64 = 1 << 30;

mod opcode {
    pub(super) const LOOKUP: u32 = 1;
    pub(super) const FORGET: u32 = 2;
    pub(super) const GETATTR: u32 = 3;
    pub(super) const SETATTR: u32 = 4;
    pub(super) const OPEN: u32 = 14;
    pub(super) const READ: u32 = 15;
    pub(super) const WRITE: u32 = 16;
    pub(super) const STATFS: u32 = 17;
    pub(super) const RELEASE: u32 = 18;
    pub(super) const FSYNC: u32 = 20;
    pub(super) const FLUSH: u32 = 25;
    pub(super) const INIT: u32 = 26;
    pub(super) const INTERRUPT: u32 = 36;
    pub(super) const DESTROY: u32 = 38;
    pub(super) const BATCH_FORGET: u32 = 42;
    pub(super) const FALLOCATE: u32 = 43;
}

/// What INIT asks for: reads and direct I/O in parallel, writes of more than a page, 1 MiB.
const INIT_FLAGS: u32 = 1 | 1 << 5 | 1 << 15 | 1 << 22;
/// Requests the kernel may have with us at a time: above the queue of any device.
const BACKGROUND_MAX: u16 = 512;
/// What OPEN asks for: no cache in between, writes in parallel, no FLUSH at close.
const OPEN_FLAGS: u32 = 1 | 1 << 5 | 1 << 6;

const KEEP_SIZE: u32 = 1;
const PUNCH_HOLE: u32 = 1 << 1;
const ZERO_RANGE: u32 = 1 << 4;

/// One file of the folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileInfo {
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// Unit in which room is given back.
    pub block_bytes: u32,
    /// Holes are discards; without discards they are refused, and zeroes are written.
    pub discard: bool,
    /// Writes are refused.
    pub read_only: bool,
}

/// What is to be done about a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ask<'a> {
    /// Nothing; there is no reply.
    Nothing,
    /// Send this, header included.
    Reply(Vec<u8>),
    /// Ask the device.
    Device {
        /// The kernel's name for the request.
        unique: u64,
        /// Which file.
        file: usize,
        /// What.
        command: Command,
        /// First byte.
        offset: u64,
        /// Number of bytes; 0 for a flush.
        bytes: u32,
        /// The data of a write.
        data: &'a [u8],
    },
    /// The folder is gone.
    Over,
}

/// Understand one request of the kernel. Nothing about it is trusted.
pub fn understand<'a>(input: &'a [u8], files: &[FileInfo]) -> Ask<'a> {
    let Some((header, body)) = input.split_at_checked(HEADER_BYTES) else { return Ask::Nothing };
    let (length, code) = (u32_at(header, 0), u32_at(header, 4));
    let (unique, node) = (u64_at(header, 8), u64_at(header, 16));
    if length as usize != input.len() {
        return refuse(unique, errno::INVAL);
    }
    let file = node.checked_sub(ROOT + 1).map(|n| n as usize).filter(|&n| n < files.len());
    match (code, file) {
        (opcode::FORGET | opcode::BATCH_FORGET | opcode::INTERRUPT, _) => Ask::Nothing,
        (opcode::DESTROY, _) => Ask::Over,
        (opcode::INIT, _) => init(unique, body),
        (opcode::LOOKUP, _) => lookup(unique, body, files),
        (opcode::STATFS, _) => Ask::Reply(reply(unique, &statfs(files))),
        (opcode::GETATTR | opcode::SETATTR, _) => match (node, file) {
            (_, Some(file)) => attributes(unique, node, &files[file]),
            (ROOT, None) => attributes(unique, ROOT, &FOLDER),
            _ => refuse(unique, errno::NOENT),
        },
        (opcode::OPEN, Some(_)) => {
            let mut out = [0; 16];
            out[8..12].copy_from_slice(&OPEN_FLAGS.to_ne_bytes());
            Ask::Reply(reply(unique, &out))
        }
        (opcode::RELEASE | opcode::FLUSH, Some(_)) => Ask::Reply(reply(unique, &[])),
        (opcode::READ | opcode::WRITE | opcode::FSYNC | opcode::FALLOCATE, Some(file)) => {
            match transfer(code, body, &files[file]) {
                Ok((command, offset, bytes, data)) => {
                    Ask::Device { unique, file, command, offset, bytes, data }
                }
                Err(error) => refuse(unique, error),
            }
        }
        _ => refuse(unique, errno::NOSYS),
    }
}

type Transfer<'a> = (Command, u64, u32, &'a [u8]);

/// A request for the device.
fn transfer<'a>(code: u32, body: &'a [u8], file: &FileInfo) -> Result<Transfer<'a>, i32> {
    if code == opcode::FSYNC {
        return Ok((Command::Flush, 0, 0, &[]));
    }
    let fixed = if code == opcode::FALLOCATE { 32 } else { 40 };
    let (head, data) = body.split_at_checked(fixed).ok_or(errno::INVAL)?;
    let offset = u64_at(head, 8);
    let (command, bytes) = match code {
        opcode::READ => (Command::Read, u64::from(u32_at(head, 16))),
        opcode::WRITE => (Command::Write { fua: false }, u64::from(u32_at(head, 16))),
        _ => (hole(u32_at(head, 24), file)?, u64_at(head, 16)),
    };
    let moves = matches!(command, Command::Read | Command::Write { .. });
    let limit = if moves { DATA_MAX } else { u32::MAX };
    let bytes = u32::try_from(bytes).ok().filter(|&bytes| bytes <= limit).ok_or(errno::INVAL)?;
    let end = offset.checked_add(u64::from(bytes));
    if end.is_none_or(|end| end > file.bytes) {
        return Err(if command == Command::Read { errno::INVAL } else { errno::NOSPC });
    }
    let expected = if code == opcode::WRITE { bytes as usize } else { 0 };
    if data.len() != expected {
        return Err(errno::INVAL);
    }
    match command {
        Command::Read => {}
        _ if file.read_only => return Err(errno::ROFS),
        _ => {}
    }
    Ok((command, offset, bytes, data))
}

/// What a mode of fallocate means.
fn hole(mode: u32, file: &FileInfo) -> Result<Command, i32> {
    match mode & !KEEP_SIZE {
        // The kernel punches a hole for zeroes that it was asked to write, too, at a finer grain
        // than discards have: what is left of a block must read as zeroes.
        PUNCH_HOLE if file.discard => Ok(Command::WriteZeroes { fua: false, may_discard: true }),
        ZERO_RANGE => Ok(Command::WriteZeroes { fua: false, may_discard: false }),
        _ => Err(errno::OPNOTSUPP),
    }
}

/// Agree on a version, and on what may go on in parallel.
fn init(unique: u64, body: &[u8]) -> Ask<'static> {
    let Some(head) = body.get(..16) else { return refuse(unique, errno::INVAL) };
    let (major, minor, flags) = (u32_at(head, 0), u32_at(head, 4), u32_at(head, 12));
    if major != MAJOR || minor < MINOR {
        return refuse(unique, errno::OPNOTSUPP);
    }
    let mut out = Vec::with_capacity(64);
    for value in [MAJOR, MINOR, 0, flags & INIT_FLAGS] {
        out.extend(value.to_ne_bytes());
    }
    out.extend(BACKGROUND_MAX.to_ne_bytes());
    out.extend((BACKGROUND_MAX / 4 * 3).to_ne_bytes());
    out.extend(DATA_MAX.to_ne_bytes());
    out.extend(1u32.to_ne_bytes());
    out.extend(((DATA_MAX >> 12) as u16).to_ne_bytes());
    out.resize(64, 0);
    Ask::Reply(reply(unique, &out))
}

fn lookup(unique: u64, body: &[u8], files: &[FileInfo]) -> Ask<'static> {
    let name = body.strip_suffix(&[0]).unwrap_or(body);
    let Some(index) = files.iter().position(|file| file.name.as_bytes() == name) else {
        return refuse(unique, errno::NOENT);
    };
    let node = ROOT + 1 + index as u64;
    let mut out = Vec::with_capacity(128);
    for value in [node, 0, VALID_SECONDS, VALID_SECONDS, 0] {
        out.extend(value.to_ne_bytes());
    }
    attribute(node, &files[index], &mut out);
    Ask::Reply(reply(unique, &out))
}

/// The folder, as if it were a file.
const FOLDER: FileInfo =
    FileInfo { name: String::new(), bytes: 0, block_bytes: 4096, discard: false, read_only: true };

fn attributes(unique: u64, node: u64, file: &FileInfo) -> Ask<'static> {
    let mut out = VALID_SECONDS.to_ne_bytes().to_vec();
    out.extend([0; 8]);
    attribute(node, file, &mut out);
    Ask::Reply(reply(unique, &out))
}

/// `struct fuse_attr`.
fn attribute(node: u64, file: &FileInfo, out: &mut Vec<u8>) {
    let mode = match (node, file.read_only) {
        (ROOT, _) => 0o040_500u32,
        (_, true) => 0o100_400,
        (_, false) => 0o100_600,
    };
    for value in [node, file.bytes, file.bytes / 512, 0, 0, 0] {
        out.extend(value.to_ne_bytes());
    }
    for value in [0, 0, 0, mode, 1, 0, 0, 0, file.block_bytes, 0] {
        out.extend(value.to_ne_bytes());
    }
}

/// `struct fuse_kstatfs`: the block size is what loop takes for the grain of discards.
fn statfs(files: &[FileInfo]) -> [u8; 80] {
    let block = files.iter().map(|file| file.block_bytes).max().unwrap_or(4096);
    let mut out = [0; 80];
    for (at, value) in [(40, block), (44, 255), (48, block)] {
        out[at..at + 4].copy_from_slice(&value.to_ne_bytes());
    }
    out
}

fn refuse(unique: u64, error: i32) -> Ask<'static> {
    Ask::Reply(header(unique, 0, error).to_vec())
}

fn reply(unique: u64, body: &[u8]) -> Vec<u8> {
    let mut out = header(unique, body.len(), 0).to_vec();
    out.extend(body);
    out
}

/// What goes before `bytes` of a reply; `error` is 0 or an error's number.
pub fn header(unique: u64, bytes: usize, error: i32) -> [u8; REPLY_HEADER_BYTES] {
    let mut out = [0; REPLY_HEADER_BYTES];
    out[..4].copy_from_slice(&((REPLY_HEADER_BYTES + bytes) as u32).to_ne_bytes());
    out[4..8].copy_from_slice(&(-error).to_ne_bytes());
    out[8..].copy_from_slice(&unique.to_ne_bytes());
    out
}

/// The reply to a write of `bytes` bytes.
pub fn written(unique: u64, bytes: u32) -> Vec<u8> {
    let mut body = [0; 8];
    body[..4].copy_from_slice(&bytes.to_ne_bytes());
    reply(unique, &body)
}
