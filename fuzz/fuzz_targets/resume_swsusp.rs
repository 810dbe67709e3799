//! A kernel's own image: its signature, its map and its groups, packed by LZO or LZ4.
#![no_main]

use libfuzzer_sys::fuzz_target;
use resume::swsusp::{GROUP_BYTES, Packing, Signature, group_pages, map, unpack};
use resume::{PAGE_BYTES, lz4, lzo};

fuzz_target!(|bytes: &[u8]| {
    if let Some(page) = bytes.first_chunk::<PAGE_BYTES>() {
        let _ = Signature::read(page);
        let mut page = *page;
        assert!(map(&page).0.count() < PAGE_BYTES / 8);
        let _ = group_pages(&page);
        Signature::erase(&mut page);
    }
    // A group with a right length in front, and what it is without one.
    let group = [&(bytes.len() as u64).to_le_bytes(), bytes].concat();
    let mut out = Box::new([0; GROUP_BYTES]);
    for packing in [Packing::Lzo, Packing::Lz4, Packing::Plain] {
        let found = unpack(&group, packing, &mut out);
        assert!(found.is_none_or(|count| count > 0 && count % PAGE_BYTES == 0));
        let _ = unpack(bytes, packing, &mut out);
    }
    // Little room is no more of a danger.
    let mut small = [0; 100];
    for unpack in [lzo::unpack, lz4::unpack] {
        assert!(unpack(bytes, &mut small).is_none_or(|count| count <= 100));
    }
});
