//! A unified kernel image: the stub of systemd, a program for UEFI, with the kernel, the initramfs
//! and the command line as sections of it.
//!
//! Format: the UAPI Group's specification of unified kernel images; PE.

use config::Failure;

use super::kernel::u32_at;
use crate::tool;

/// Sections begin on pages, as kernels expect of themselves.
const PAGE_BYTES: usize = 4096;
const SECTION_HEADER_BYTES: usize = 40;
/// Data that is read and not run.
const SECTION_FLAGS: u32 = 0x4000_0040;

/// The image of a kernel, with what systemd's stub has to be told.
///
/// # Errors
/// When the machine has no stub, or one without room.
pub(super) fn make(kernel: &[u8], initramfs: &[u8], line: &str) -> Result<Vec<u8>, Failure> {
    let stub = tool::uefi_file(tool::STUB)?;
    let stub = std::fs::read(stub)
        .map_err(|why| Failure::machine(format!("{}: {why}", stub.display())))?;
    let sections: [(&str, &[u8]); 3] =
        [(".cmdline", line.as_bytes()), (".initrd", initramfs), (".linux", kernel)];
    with_sections(&stub, &sections).ok_or_else(|| {
        Failure::machine(format!("{}: no PE file with room for three sections", tool::STUB.path))
            .expected("systemd's stub for UEFI, of version 252 or newer")
    })
}

/// A PE file with more sections behind those that it has. `None` when it is none, or its headers
/// have no room.
fn with_sections(file: &[u8], sections: &[(&str, &[u8])]) -> Option<Vec<u8>> {
    let word = |at| Some(u32_at(file, at)? as usize);
    let headers = word(0x3c)?;
    if file.get(headers..headers.checked_add(4)?)? != b"PE\0\0" {
        return None;
    }
    let (count_at, optional) = (headers + 6, headers + 24);
    let count = word(count_at)? & 0xffff;
    let table = optional + (word(headers + 20)? & 0xffff);
    let (image_alignment, file_alignment) = (word(optional + 32)?, word(optional + 36)?);
    if !image_alignment.is_power_of_two() || !file_alignment.is_power_of_two() {
        return None;
    }
    let page = image_alignment.max(PAGE_BYTES);
    let (mut end, mut first_data) = (0, file.len());
    for section in 0..count {
        let at = table + section * SECTION_HEADER_BYTES;
        end = end.max(word(at + 12)?.checked_add(word(at + 8)?.max(word(at + 16)?))?);
        first_data = first_data.min(word(at + 20)?);
    }
    let mut header = table + count * SECTION_HEADER_BYTES;
    if header + sections.len() * SECTION_HEADER_BYTES > first_data {
        return None;
    }
    let mut out = file.to_vec();
    let put = |out: &mut Vec<u8>, at: usize, value: usize| {
        out[at..at + 4].copy_from_slice(&u32::try_from(value).ok()?.to_le_bytes());
        Some(())
    };
    for (name, data) in sections {
        out.resize(out.len().next_multiple_of(file_alignment), 0);
        let (from, address) = (out.len(), end.next_multiple_of(page));
        out.extend(*data);
        out.resize(out.len().next_multiple_of(file_alignment), 0);
        let stored = out.len() - from;
        out[header..header + SECTION_HEADER_BYTES].fill(0);
        out[header..header + name.len()].copy_from_slice(name.as_bytes());
        for (at, value) in [(8, data.len()), (12, address), (16, stored), (20, from)] {
            put(&mut out, header + at, value)?;
        }
        put(&mut out, header + 36, SECTION_FLAGS as usize)?;
        (header, end) = (header + SECTION_HEADER_BYTES, address + data.len());
    }
    let sections = u16::try_from(count + sections.len()).ok()?;
    out[count_at..count_at + 2].copy_from_slice(&sections.to_le_bytes());
    put(&mut out, optional + 56, end.next_multiple_of(image_alignment))?;
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A PE file with one section, of 16 bytes at 0x1000, and room for three more.
    fn stub() -> Vec<u8> {
        let mut file = vec![0; 0x400];
        let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
        put(0x3c, &[0x40]);
        put(0x40, b"PE\0\0\x64\x86\x01");
        put(0x40 + 20, &240u16.to_le_bytes());
        put(0x58 + 32, &0x1000u32.to_le_bytes());
        put(0x58 + 36, &0x200u32.to_le_bytes());
        put(0x148, b".text");
        for (at, value) in [(8, 16u32), (12, 0x1000), (16, 512), (20, 0x200)] {
            put(0x148 + at, &value.to_le_bytes());
        }
        file
    }

    #[test]
    fn each_section_has_its_place_in_the_file_and_in_memory() {
        let more: [(&str, &[u8]); 2] = [(".cmdline", b"quiet"), (".linux", &[7; 5000])];
        let image = with_sections(&stub(), &more).unwrap();
        let word = |at| u32_at(&image, at).unwrap() as usize;
        assert_eq!((word(0x46) & 0xffff, word(0x58 + 56)), (3, 0x5000));
        let (first, second) = (0x148 + 40, 0x148 + 80);
        assert_eq!(&image[first..first + 8], b".cmdline");
        let places = [8, 12, 16, 20].map(|at| word(first + at));
        assert_eq!(places, [5, 0x2000, 512, 0x400]);
        assert_eq!(&image[0x400..0x405], b"quiet");
        assert_eq!([8, 12, 16, 20].map(|at| word(second + at)), [5000, 0x3000, 5120, 0x600]);
        assert_eq!(&image[0x600..0x600 + 5000], [7; 5000]);
        assert_eq!(image[..0x46], stub()[..0x46]);
    }

    #[test]
    fn what_has_no_room_or_is_no_program_is_refused() {
        let five: [(&str, &[u8]); 5] = [(".a", b"a"); 5];
        assert!(with_sections(&stub(), &five[..3]).is_some());
        assert!(with_sections(&stub(), &five).is_none(), "data begins at 0x200");
        for cut in 0..0x170 {
            assert!(with_sections(&stub()[..cut], &five[..1]).is_none(), "{cut}");
        }
        for at in 0..0x170 {
            for byte in [0, 0x7f, 0xff] {
                let mut bad = stub();
                bad[at] = byte;
                let _ = with_sections(&bad, &five[..1]);
            }
        }
    }
}
