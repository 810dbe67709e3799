//! From the loader's ELF to what a UEFI firmware starts: a PE file with the same parts at the same
//! addresses, and the same words to adjust when it is moved.

use object::elf::{PF_W, PF_X, PT_LOAD, R_X86_64_RELATIVE};
use object::pe;
use object::read::elf::{ElfFile64, FileHeader, ProgramHeader};
use object::write::pe::{NtHeaders, Writer};
use object::{Endianness, Object, RelocationFlags, RelocationTarget};

const PAGE: u32 = 4096;
const FILE_ALIGNMENT: u32 = 512;
/// The segments of code and data; the one behind them is of tables that PE has in its own form.
const SEGMENTS: usize = 3;

struct Segment {
    address: u32,
    virtual_size: u32,
    data: Vec<u8>,
    flags: u32,
}

/// Convert it.
pub(crate) fn from_elf(elf: &[u8]) -> Vec<u8> {
    let file: ElfFile64 = ElfFile64::parse(elf).expect("the linker wrote an ELF file");
    let mut segments = segments(&file, elf);
    let mut words = Vec::new();
    for (address, relocation) in file.dynamic_relocations().expect("it can be moved") {
        let RelocationFlags::Elf { r_type } = relocation.flags() else { unreachable!("ELF") };
        assert!(r_type == R_X86_64_RELATIVE && relocation.target() == RelocationTarget::Absolute);
        let segment = segments.iter_mut().find(|segment| {
            u64::from(segment.address) <= address
                && address < u64::from(segment.address) + segment.data.len() as u64
        });
        let segment = segment.expect("what is adjusted is data");
        let at = (address - u64::from(segment.address)) as usize;
        segment.data[at..at + 8].copy_from_slice(&relocation.addend().to_le_bytes());
        words.push(address as u32);
    }
    words.sort_unstable();
    write(&segments, &words, file.entry() as u32)
}

fn segments(file: &ElfFile64, elf: &[u8]) -> Vec<Segment> {
    let endian = Endianness::Little;
    let headers = file.elf_header().program_headers(endian, elf).expect("there are segments");
    let loaded = headers.iter().filter(|header| header.p_type(endian) == PT_LOAD);
    let segment = |header: &object::elf::ProgramHeader64<Endianness>| {
        let flags = header.p_flags(endian);
        let kind = match (flags.contains(PF_X), flags.contains(PF_W)) {
            (true, _) => pe::IMAGE_SCN_CNT_CODE | pe::IMAGE_SCN_MEM_EXECUTE,
            (_, true) => pe::IMAGE_SCN_CNT_INITIALIZED_DATA | pe::IMAGE_SCN_MEM_WRITE,
            _ => pe::IMAGE_SCN_CNT_INITIALIZED_DATA,
        };
        Segment {
            address: header.p_vaddr(endian) as u32,
            virtual_size: header.p_memsz(endian) as u32,
            data: header.data(endian, elf).expect("a segment lies in the file").to_vec(),
            flags: (kind | pe::IMAGE_SCN_MEM_READ).0,
        }
    };
    let found: Vec<Segment> = loaded.map(segment).collect();
    assert_eq!(found.len(), SEGMENTS + 1, "`link.ld` makes these");
    found.into_iter().take(SEGMENTS).collect()
}

fn write(segments: &[Segment], words: &[u32], entry: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = Writer::new(true, PAGE, FILE_ALIGNMENT, &mut out);
    writer.reserve_dos_header();
    writer.reserve_nt_headers(16);
    writer.reserve_section_headers(SEGMENTS as u16 + 1);
    let mut ranges = Vec::new();
    for (segment, name) in segments.iter().zip([b".text\0\0\0", b".rdata\0\0", b".data\0\0\0"]) {
        let flags = pe::SectionFlags(segment.flags);
        let size = segment.data.len() as u32;
        let range = writer.reserve_section(*name, flags, segment.virtual_size, size);
        assert_eq!(range.virtual_address, segment.address, "as `link.ld` has it");
        ranges.push(range);
    }
    words.iter().for_each(|word| writer.add_reloc(*word, pe::IMAGE_REL_BASED_DIR64));
    writer.reserve_reloc_section();
    writer.write_empty_dos_header().expect("there is room for it");
    writer.write_nt_headers(NtHeaders {
        machine: pe::IMAGE_FILE_MACHINE_AMD64,
        time_date_stamp: 0,
        characteristics: pe::IMAGE_FILE_EXECUTABLE_IMAGE | pe::IMAGE_FILE_LARGE_ADDRESS_AWARE,
        major_linker_version: 0,
        minor_linker_version: 0,
        address_of_entry_point: entry,
        image_base: 0,
        major_operating_system_version: 0,
        minor_operating_system_version: 0,
        major_image_version: 0,
        minor_image_version: 0,
        major_subsystem_version: 0,
        minor_subsystem_version: 0,
        subsystem: pe::IMAGE_SUBSYSTEM_EFI_APPLICATION,
        dll_characteristics: pe::IMAGE_DLLCHARACTERISTICS_DYNAMIC_BASE
            | pe::IMAGE_DLLCHARACTERISTICS_NX_COMPAT,
        size_of_stack_reserve: 0,
        size_of_stack_commit: 0,
        size_of_heap_reserve: 0,
        size_of_heap_commit: 0,
    });
    writer.write_section_headers();
    for (segment, range) in segments.iter().zip(ranges) {
        writer.write_section(range.file_offset, &segment.data);
    }
    writer.write_reloc_section();
    out
}
