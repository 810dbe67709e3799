//! The guest's memory, mapped.

use std::fs::File;

use rustix::fs::{SealFlags, fcntl_add_seals};
use vm_memory::{
    Bytes, FileOffset, GuestAddress, GuestMemory, GuestMemoryMmap, GuestMemoryRegion,
    GuestRegionMmap, MmapRegion, Permissions,
};

use super::message::{Malformed, Region};

const PAGE_BYTES: u64 = 4096;

/// Memory of another process. It may change at any moment, so what matters is copied once.
#[derive(Debug)]
pub struct Memory {
    mapped: GuestMemoryMmap,
    regions: Vec<Region>,
    /// Files that their owner may shorten at any moment, and how long each has to be.
    shrinkable: Vec<(FileOffset, u64)>,
}

impl Memory {
    /// Map `regions`, each from its file.
    ///
    /// # Errors
    /// When a region does not lie in its file, overlaps another, or cannot be mapped.
    pub fn map(regions: Vec<Region>, files: Vec<File>) -> Result<Memory, Malformed> {
        if regions.len() != files.len() {
            let (regions, files) = (regions.len(), files.len());
            return Err(Malformed(format!("{regions} memory regions with {files} descriptors")));
        }
        let mut mapped = Vec::with_capacity(regions.len());
        let mut shrinkable = Vec::new();
        for (region, file) in regions.iter().zip(files) {
            let sealed = fcntl_add_seals(&file, SealFlags::SHRINK).is_ok();
            let part = map(region, file)?;
            if let Some(file) = part.file_offset().filter(|_| !sealed) {
                shrinkable.push((file.clone(), file.start() + part.len()));
            }
            mapped.push(part);
        }
        mapped.sort_by_key(|region| region.start_addr().0);
        let mapped = GuestMemoryMmap::from_regions(mapped)
            .map_err(|why| Malformed(format!("memory regions: {why}")))?;
        Ok(Memory { mapped, regions, shrinkable })
    }

    /// Whether all of it is still there. What its owner has cut off would kill us when it is
    /// touched; memory that takes a seal cannot be cut off.
    ///
    /// # Errors
    /// When some is not.
    pub fn is_there(&self) -> Result<(), Malformed> {
        for (file, end) in &self.shrinkable {
            let length = file.file().metadata().map_or(0, |found| found.len());
            if length < *end {
                return Err(Malformed(format!("the memory's file was cut to {length} bytes")));
            }
        }
        Ok(())
    }

    /// `bytes` of memory at guest address 0, seen at the same address by the driver's side; for
    /// tests.
    ///
    /// # Errors
    /// When there is none.
    pub fn anonymous(bytes: usize) -> Result<Memory, Malformed> {
        let mapped = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), bytes)])
            .map_err(|why| Malformed(why.to_string()))?;
        let region = Region { guest: 0, bytes: bytes as u64, user: 0, offset: 0 };
        Ok(Memory { mapped, regions: vec![region], shrinkable: Vec::new() })
    }

    /// What virtqueues are found in.
    pub fn guest(&self) -> &GuestMemoryMmap {
        &self.mapped
    }

    /// The guest's name for what the driver's side sees at `user`.
    pub fn guest_address(&self, user: u64) -> Option<u64> {
        let region = self.regions.iter().find(|r| user.wrapping_sub(r.user) < r.bytes)?;
        region.guest.checked_add(user - region.user)
    }

    /// True when `bytes` at `address` are the guest's.
    pub fn has(&self, address: u64, bytes: usize) -> bool {
        self.mapped.check_range(GuestAddress(address), bytes, Permissions::ReadWrite)
    }

    /// Copy out of the guest.
    ///
    /// # Errors
    /// When the range is not the guest's.
    pub fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), Malformed> {
        self.mapped
            .read_slice(buffer, GuestAddress(address))
            .map_err(|why| Malformed(why.to_string()))
    }

    /// Copy into the guest.
    ///
    /// # Errors
    /// When the range is not the guest's.
    pub fn write(&self, address: u64, data: &[u8]) -> Result<(), Malformed> {
        self.mapped
            .write_slice(data, GuestAddress(address))
            .map_err(|why| Malformed(why.to_string()))
    }
}

fn map(region: &Region, file: File) -> Result<GuestRegionMmap, Malformed> {
    let refused = |why: &str| {
        Malformed(format!("memory region {:#x}+{:#x}: {why}", region.guest, region.bytes))
    };
    // A mapping begins at a whole page of the file.
    let before = region.offset % PAGE_BYTES;
    let (Some(guest), Some(bytes)) =
        (region.guest.checked_sub(before), region.bytes.checked_add(before))
    else {
        return Err(refused("it is not aligned"));
    };
    let length = file.metadata().map_err(|why| refused(&why.to_string()))?.len();
    // What lies behind the file's end would kill us when it is touched.
    if region.bytes == 0 || region.offset.checked_add(region.bytes).is_none_or(|end| end > length) {
        return Err(refused(&format!("its file has {length} bytes")));
    }
    let offset = FileOffset::new(file, region.offset - before);
    let mapping =
        MmapRegion::from_file(offset, bytes as usize).map_err(|why| refused(&why.to_string()))?;
    GuestRegionMmap::new(mapping, GuestAddress(guest)).ok_or_else(|| refused("it wraps around"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(bytes: u64) -> File {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let file = File::from(rustix::fs::memfd_create("test", flags).unwrap());
        file.set_len(bytes).unwrap();
        file
    }

    #[test]
    fn regions_are_mapped_where_they_say() {
        let one = Region { guest: 0x10000, bytes: 0x2000, user: 0x7000_0000, offset: 0x1000 };
        let memory = Memory::map(vec![one], vec![file(0x3000)]).unwrap();
        memory.write(0x11ffc, &[1, 2, 3, 4]).unwrap();
        let mut back = [0; 4];
        memory.read(0x11ffc, &mut back).unwrap();
        assert_eq!(back, [1, 2, 3, 4]);
        assert!(memory.write(0x11ffd, &[0; 4]).is_err() && memory.read(0, &mut back).is_err());
        assert_eq!(memory.guest_address(0x7000_0010), Some(0x10010));
        assert_eq!(memory.guest_address(0x7000_2000), None);
        assert!(memory.has(0x10000, 0x2000) && !memory.has(0x10000, 0x2001));
    }

    #[test]
    fn memory_that_was_cut_off_is_not_touched() {
        let region = Region { guest: 0, bytes: 0x2000, user: 0, offset: 0 };
        let owner = file(0x2000);
        let memory = Memory::map(vec![region], vec![owner.try_clone().unwrap()]).unwrap();
        memory.is_there().unwrap();
        owner.set_len(0x1000).unwrap();
        assert!(memory.is_there().unwrap_err().0.contains("cut to 4096 bytes"));

        let flags = rustix::fs::MemfdFlags::ALLOW_SEALING;
        let owner = File::from(rustix::fs::memfd_create("test", flags).unwrap());
        owner.set_len(0x2000).unwrap();
        let memory = Memory::map(vec![region], vec![owner.try_clone().unwrap()]).unwrap();
        assert!(owner.set_len(0x1000).is_err());
        memory.is_there().unwrap();
    }

    #[test]
    fn what_the_file_does_not_hold_is_refused() {
        let long = Region { guest: 0, bytes: 0x2000, user: 0, offset: 0x1000 };
        let error = Memory::map(vec![long], vec![file(0x2000)]).unwrap_err();
        assert!(error.0.contains("its file has 8192 bytes"), "{error}");
        let two = [long, Region { guest: 0x1000, ..long }];
        assert!(Memory::map(two.to_vec(), vec![file(0x9000), file(0x9000)]).is_err());
        assert!(Memory::map(vec![long], vec![]).is_err());
        let wraps = Region { guest: u64::MAX - 0xfff, bytes: 0x2000, user: 0, offset: 0 };
        assert!(Memory::map(vec![wraps], vec![file(0x9000)]).is_err());
    }
}
