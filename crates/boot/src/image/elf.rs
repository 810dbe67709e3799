//! The plain kernel: an ELF file that GRUB's `multiboot` reads straight to where the kernel runs.
//!
//! GRUB's `linux` takes a bzImage only. Its `multiboot` takes an ELF file with 32-bit addresses,
//! and tells it about memory in a way that Linux does not know. So a small piece of our code stands
//! before the kernel: it makes what GRUB says into what Linux's PVH entry expects, and jumps there.

use config::Failure;

use super::Packing;
use super::kernel::u32_at;
use crate::guest_program::UNPACKER;

/// Where the shim is loaded: between what GRUB uses and the kernel.
const SHIM_AT: u32 = 0x20_0000;
/// Its size, with room for what it makes of the memory map.
const SHIM_BYTES: usize = 4096;
/// Where in it the address of the PVH entry goes.
const SHIM_ENTRY: usize = 12;
/// Where in it the unpacker finds what to do, behind what it makes of the memory map.
const SHIM_TASK: usize = 0xc00;
/// Where it begins to run.
const SHIM_START: u32 = 16;
const PAGE_BYTES: usize = 4096;
const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;
/// What is packed, and the unpacker's memory, begin on large pages.
const LARGE_PAGE_BYTES: u32 = 2 << 20;
/// Memory that unpacking Zstandard takes beside the kernel's: a ring for a window of 8 MiB, which
/// grows by doubling to 16, and what it was before.
const ZSTD_BYTES: u32 = 40 << 20;
/// Xen's note with the 32-bit entry.
const NOTE_PVH: u32 = 18;

/// The shim, assembled for `SHIM_AT`:
///
/// ```text
/// header: .long 0x1BADB002, 3, -(0x1BADB002+3)   # modules on pages; say what memory there is
/// entry:  .long 0
/// start:  cli; cld
///         mov %ebx,%ebp                          # multiboot information
///         mov $0xe9,%dx; mov $'K',%al; out %al,%dx
///         rdtsc                                  # 8 bytes, lowest first, to the debug console
///         mov %edx,%ebx; mov $4,%ecx; mov $0xe9,%dx
/// 1:      out %al,%dx; shr $8,%eax; loop 1b
///         mov %ebx,%eax; mov $4,%ecx
/// 2:      out %al,%dx; shr $8,%eax; loop 2b
///         mov 48(%ebp),%esi; mov 44(%ebp),%ebx; add %esi,%ebx; mov $memmap,%edi; xor %edx,%edx
/// 3:      cmp %ebx,%esi; jae 4f                  # each entry: address, size, type, 0
///         cmp $64,%edx; jae 4f
///         lodsl; lea (%esi,%eax),%eax; mov $5,%ecx; rep movsl; movl $0,(%edi); add $4,%edi
///         mov %eax,%esi; inc %edx; jmp 3b
/// 4:      mov $info,%ebx                         # hvm_start_info, version 1
///         mov %edx,48(%ebx); movl $memmap,40(%ebx)
///         movl $0x336ec578,(%ebx); movl $1,4(%ebx)
///         mov 16(%ebp),%eax; mov %eax,24(%ebx)   # command line
///         mov 20(%ebp),%eax; mov %eax,12(%ebx); test %eax,%eax; jz 5f
///         movl $1,12(%ebx); movl $module,16(%ebx); mov 24(%ebp),%esi
///         mov (%esi),%eax; mov %eax,module       # the initramfs
///         mov 4(%esi),%ecx; sub %eax,%ecx; mov %ecx,module+8
/// 5:      jmp *entry
/// info = header + 0x200; module = header + 0x280; memmap = header + 0x300
/// ```
#[rustfmt::skip]
const SHIM: [u8; 193] = [
    0x02, 0xb0, 0xad, 0x1b, 0x03, 0x00, 0x00, 0x00, 0xfb, 0x4f, 0x52, 0xe4, 0x00, 0x00,
    0x00, 0x00, 0xfa, 0xfc, 0x89, 0xdd, 0x66, 0xba, 0xe9, 0x00, 0xb0, 0x4b, 0xee, 0x0f,
    0x31, 0x89, 0xd3, 0xb9, 0x04, 0x00, 0x00, 0x00, 0x66, 0xba, 0xe9, 0x00, 0xee, 0xc1,
    0xe8, 0x08, 0xe2, 0xfa, 0x89, 0xd8, 0xb9, 0x04, 0x00, 0x00, 0x00, 0xee, 0xc1, 0xe8,
    0x08, 0xe2, 0xfa, 0x8b, 0x75, 0x30, 0x8b, 0x5d, 0x2c, 0x01, 0xf3, 0xbf, 0x00, 0x03,
    0x20, 0x00, 0x31, 0xd2, 0x39, 0xde, 0x73, 0x1e, 0x83, 0xfa, 0x40, 0x73, 0x19, 0xad,
    0x8d, 0x04, 0x06, 0xb9, 0x05, 0x00, 0x00, 0x00, 0xf3, 0xa5, 0xc7, 0x07, 0x00, 0x00,
    0x00, 0x00, 0x83, 0xc7, 0x04, 0x89, 0xc6, 0x42, 0xeb, 0xde, 0xbb, 0x00, 0x02, 0x20,
    0x00, 0x89, 0x53, 0x30, 0xc7, 0x43, 0x28, 0x00, 0x03, 0x20, 0x00, 0xc7, 0x03, 0x78,
    0xc5, 0x6e, 0x33, 0xc7, 0x43, 0x04, 0x01, 0x00, 0x00, 0x00, 0x8b, 0x45, 0x10, 0x89,
    0x43, 0x18, 0x8b, 0x45, 0x14, 0x89, 0x43, 0x0c, 0x85, 0xc0, 0x74, 0x23, 0xc7, 0x43,
    0x0c, 0x01, 0x00, 0x00, 0x00, 0xc7, 0x43, 0x10, 0x80, 0x02, 0x20, 0x00, 0x8b, 0x75,
    0x18, 0x8b, 0x06, 0xa3, 0x80, 0x02, 0x20, 0x00, 0x8b, 0x4e, 0x04, 0x29, 0xc1, 0x89,
    0x0d, 0x88, 0x02, 0x20, 0x00, 0xff, 0x25, 0x0c, 0x00, 0x20, 0x00,
];

/// A part of the kernel: where it goes, what is in it, and its size in memory.
struct Segment {
    at: u32,
    data: Vec<u8>,
    memory_bytes: u32,
}

/// The plain kernel of `kernel`, a 64-bit ELF file.
///
/// # Errors
/// When it is none, is cut off, or has no PVH entry.
pub fn plain(kernel: &[u8]) -> Result<Vec<u8>, Failure> {
    let (mut segments, entry) = take_apart(kernel)?;
    segments.insert(0, shim(entry, &[]));
    Ok(write(&segments))
}

/// The same, packed, behind a program of ours that unpacks it to where it runs: for what GRUB
/// cannot unpack.
///
/// # Errors
/// The same, and when the program that packs is missing.
pub(super) fn packed(kernel: &[u8], packing: Packing) -> Result<Vec<u8>, Failure> {
    let (segments, entry) = take_apart(kernel)?;
    let image = Memory::of(&segments).ok_or_else(|| Failure::input("the kernel is too large"))?;
    let data = packing.pack(&image.data)?;
    let own = |offset| u64_at(UNPACKER, offset).expect("the unpacker is an ELF file");
    let unpacker = segment(UNPACKER, own(32) as usize).expect("its first segment is all of it");
    let large = |at: u32| at.next_multiple_of(LARGE_PAGE_BYTES);
    let packed_at = large(image.at + image.bytes);
    let room_at = large(packed_at + data.len() as u32);
    let room_bytes = if packing == Packing::Zstd { ZSTD_BYTES } else { 0 };
    let task = [
        packed_at.into(),
        data.len() as u64,
        image.at.into(),
        image.data.len() as u64,
        room_at.into(),
        room_bytes.into(),
        entry.into(),
    ];
    let empty = |at, memory_bytes| Segment { at, data: Vec::new(), memory_bytes };
    let memory_bytes = data.len() as u32;
    Ok(write(&[
        shim(own(24) as u32, &task),
        unpacker,
        empty(image.at, image.bytes),
        Segment { at: packed_at, data, memory_bytes },
        empty(room_at, room_bytes),
    ]))
}

/// The parts of a kernel in one.
struct Memory {
    at: u32,
    data: Vec<u8>,
    /// With what is zero behind the data.
    bytes: u32,
}

impl Memory {
    /// `None` where it would not lie below 2 GiB with what is put behind it.
    fn of(segments: &[Segment]) -> Option<Memory> {
        let at = segments.iter().map(|segment| segment.at).min()?;
        let end = |segment: &Segment| segment.at.checked_add(segment.memory_bytes);
        let end = segments.iter().map(end).collect::<Option<Vec<u32>>>()?.into_iter().max()?;
        (end < 1 << 30).then_some(())?;
        let mut data = Vec::new();
        for segment in segments {
            let from = (segment.at - at) as usize;
            data.resize(data.len().max(from + segment.data.len()), 0);
            data[from..from + segment.data.len()].copy_from_slice(&segment.data);
        }
        Some(Memory { at, data, bytes: end - at })
    }
}

/// The shim, which goes on at `entry`, with words for who is there.
fn shim(entry: u32, words: &[u64]) -> Segment {
    let mut data = SHIM.to_vec();
    data.resize(SHIM_BYTES, 0);
    data[SHIM_ENTRY..SHIM_ENTRY + 4].copy_from_slice(&entry.to_le_bytes());
    for (index, word) in words.iter().enumerate() {
        data[SHIM_TASK + 8 * index..][..8].copy_from_slice(&word.to_le_bytes());
    }
    Segment { at: SHIM_AT, data, memory_bytes: SHIM_BYTES as u32 }
}

/// The parts of a kernel that are loaded, and its PVH entry.
fn take_apart(kernel: &[u8]) -> Result<(Vec<Segment>, u32), Failure> {
    let cut_off = || {
        Failure::input("the ELF file in the kernel is cut off or damaged")
            .help("fetch the kernel's package again")
    };
    if !kernel.starts_with(b"\x7fELF\x02\x01") || kernel.get(18..20) != Some(&[62, 0]) {
        return Err(Failure::input("the kernel is not a 64-bit x86 ELF file"));
    }
    let headers = u64_at(kernel, 32).ok_or_else(cut_off)? as usize;
    let count = u32_at(kernel, 56).ok_or_else(cut_off)? & 0xffff;
    let (mut segments, mut entry) = (Vec::new(), None);
    for index in 0..count as usize {
        let at = headers.checked_add(index * 56).ok_or_else(cut_off)?;
        match u32_at(kernel, at).ok_or_else(cut_off)? {
            PT_LOAD => segments.push(segment(kernel, at).ok_or_else(cut_off)?),
            PT_NOTE => entry = entry.or(note(contents(kernel, at).ok_or_else(cut_off)?)),
            _ => {}
        }
    }
    let entry = entry.ok_or_else(|| {
        Failure::input("the kernel has no PVH entry")
            .expected("a kernel built with CONFIG_PVH, as Debian's are since version 10")
            .help("only the variants `shipped` and `uki` can be made of it")
    })?;
    Ok((segments, entry))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let (low, high) = (u32_at(bytes, at)?, u32_at(bytes, at.checked_add(4)?)?);
    Some(u64::from(high) << 32 | u64::from(low))
}

/// What the program header at `at` covers of the file.
fn contents(kernel: &[u8], at: usize) -> Option<&[u8]> {
    let offset = usize::try_from(u64_at(kernel, at + 8)?).ok()?;
    let bytes = usize::try_from(u64_at(kernel, at + 32)?).ok()?;
    kernel.get(offset..offset.checked_add(bytes)?)
}

fn segment(kernel: &[u8], at: usize) -> Option<Segment> {
    let mut data = contents(kernel, at)?.to_vec();
    // What ends in zeros need not be read: GRUB clears memory beyond the file's part.
    let kept = data.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let memory_bytes = u32::try_from(u64_at(kernel, at + 40)?).ok()?;
    if memory_bytes as usize != data.len().max(memory_bytes as usize) {
        return None;
    }
    data.truncate(kept.next_multiple_of(8).min(data.len()));
    Some(Segment { at: u32::try_from(u64_at(kernel, at + 24)?).ok()?, data, memory_bytes })
}

/// The PVH entry in a segment of notes.
fn note(notes: &[u8]) -> Option<u32> {
    let mut at = 0usize;
    loop {
        let name_bytes = u32_at(notes, at)? as usize;
        let value_bytes = u32_at(notes, at + 4)? as usize;
        let name = at + 12;
        let value = name.checked_add(name_bytes.checked_next_multiple_of(4)?)?;
        let is_pvh = u32_at(notes, at + 8)? == NOTE_PVH;
        if is_pvh && notes.get(name..name.checked_add(name_bytes)?)? == b"Xen\0" {
            return u32_at(notes, value);
        }
        at = value.checked_add(value_bytes.checked_next_multiple_of(4)?)?;
    }
}

/// An ELF file with 32-bit addresses; the first segment has its entry.
fn write(segments: &[Segment]) -> Vec<u8> {
    let mut out = b"\x7fELF\x01\x01\x01".to_vec();
    out.resize(16, 0);
    let half = |out: &mut Vec<u8>, value: u16| out.extend(value.to_le_bytes());
    let word = |out: &mut Vec<u8>, value: u32| out.extend(value.to_le_bytes());
    // An executable for the 386.
    half(&mut out, 2);
    half(&mut out, 3);
    for value in [1, SHIM_AT + SHIM_START, 52, 0, 0] {
        word(&mut out, value);
    }
    for value in [52, 32, segments.len() as u16, 0, 0, 0] {
        half(&mut out, value);
    }
    let mut offset = PAGE_BYTES;
    for segment in segments {
        let file_bytes = segment.data.len() as u32;
        let (at, memory) = (segment.at, segment.memory_bytes);
        for value in [PT_LOAD, offset as u32, at, at, file_bytes, memory, 7, PAGE_BYTES as u32] {
            word(&mut out, value);
        }
        offset += segment.data.len().next_multiple_of(PAGE_BYTES);
    }
    for segment in segments {
        out.resize(out.len().next_multiple_of(PAGE_BYTES), 0);
        out.extend(&segment.data);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kernel of 64 bits with a note at 176, and `data` at 200 that is loaded to 16 MiB.
    fn kernel(note_type: u32, data: &[u8], memory_bytes: u64) -> Vec<u8> {
        let mut out = b"\x7fELF\x02\x01\x01".to_vec();
        out.resize(16, 0);
        out.extend([2, 0, 62, 0, 1, 0, 0, 0]);
        for value in [0u64, 64, 0] {
            out.extend(value.to_le_bytes());
        }
        out.extend([0, 0, 0, 0, 64, 0, 56, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        let parts = [(PT_NOTE, 176, 24, 24), (PT_LOAD, 200, data.len() as u64, memory_bytes)];
        for (kind, offset, file, memory) in parts {
            out.extend(kind.to_le_bytes());
            out.extend(7u32.to_le_bytes());
            for value in [offset, 0xffff_0000, 0x100_0000, file, memory, 4096] {
                out.extend(u64::to_le_bytes(value));
            }
        }
        for value in [4, 8, note_type] {
            out.extend(u32::to_le_bytes(value));
        }
        out.extend(b"Xen\0");
        out.extend(0x100_0850u64.to_le_bytes());
        out.extend(data);
        out
    }

    #[test]
    fn each_part_goes_where_the_kernel_runs() {
        let file = kernel(NOTE_PVH, b"kernel\0\0\0\0\0\0\0\0\0\0", 4096);
        let plain = plain(&file).unwrap();
        let word = |at| u32_at(&plain, at).unwrap();
        assert_eq!(word(24), SHIM_AT + SHIM_START);
        // The kernel's program header is the second one; the zeros at its end are not stored.
        assert_eq!([word(88), word(92), word(100), word(104)], [8192, 0x100_0000, 8, 4096]);
        assert_eq!(&plain[8192..], b"kernel\0\0");
        // The multiboot header sums to 0, and the shim knows the entry.
        let sum = [4096, 4100, 4104].map(word).into_iter().fold(0, u32::wrapping_add);
        assert_eq!((sum, word(4096 + SHIM_ENTRY)), (0, 0x100_0850));
    }

    #[test]
    fn a_packed_kernel_lies_behind_what_it_becomes() {
        if !crate::tool::have("zstd") {
            return;
        }
        let packed = packed(&kernel(NOTE_PVH, b"kernel", 5 << 20), Packing::Zstd).unwrap();
        let word = |at| u32_at(&packed, at).unwrap();
        // Address, bytes in the file and in memory of the kernel's place and of what is packed.
        let segment = |index: usize| [12, 16, 20].map(|at| word(52 + 32 * index + at));
        assert_eq!(segment(2), [0x100_0000, 0, 5 << 20]);
        let [at, stored, _] = segment(3);
        assert_eq!((at, segment(4)), (0x160_0000, [0x180_0000, 0, ZSTD_BYTES]));
        // The shim goes on at the unpacker, which finds its task.
        assert_eq!(word(PAGE_BYTES + SHIM_ENTRY), u32_at(UNPACKER, 24).unwrap());
        let task: Vec<u32> = (0..7).map(|index| word(PAGE_BYTES + SHIM_TASK + 8 * index)).collect();
        let room = [0x180_0000, ZSTD_BYTES];
        assert_eq!(task, [&[at, stored, 0x100_0000, 6][..], &room, &[0x100_0850]].concat());
    }

    #[test]
    fn a_kernel_that_reaches_too_far_is_refused() {
        let part = |at, memory_bytes| Segment { at, data: vec![1], memory_bytes };
        assert!(Memory::of(&[part(0x100_0000, 1), part(0x3000_0000, 0x1000_0000)]).is_none());
        assert!(Memory::of(&[part(0x100_0000, u32::MAX)]).is_none() && Memory::of(&[]).is_none());
        let memory = Memory::of(&[part(0x100_0010, 9), part(0x100_0000, 2)]).unwrap();
        assert_eq!((memory.at, memory.data.len(), memory.bytes), (0x100_0000, 17, 25));
    }

    #[test]
    fn no_entry_and_every_cut_are_refused() {
        let failure = plain(&kernel(1, b"kernel", 4096)).unwrap_err();
        assert_eq!(failure.message, "the kernel has no PVH entry");
        let file = kernel(NOTE_PVH, b"kernel", 4096);
        for cut in 0..file.len() {
            assert!(plain(&file[..cut]).is_err(), "{cut}");
        }
        let larger_than_memory = kernel(NOTE_PVH, b"kernel", 2);
        assert!(plain(&larger_than_memory).is_err());
    }
}
