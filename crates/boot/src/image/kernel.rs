//! A bzImage: where its payload is, and the ELF file in it.
//!
//! Layout: Linux, `Documentation/arch/x86/boot.rst`.

use config::Failure;

use super::pack;

pub(super) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(word.try_into().ok()?))
}

/// The payload of a bzImage.
///
/// # Errors
/// When the file is no bzImage, or cut off.
pub(crate) fn payload(file: &[u8]) -> Result<&[u8], Failure> {
    if file.get(0x202..0x206) != Some(b"HdrS") {
        return Err(Failure::input("not a Linux kernel: no `HdrS` at byte 0x202")
            .expected("a bzImage (vmlinuz) for x86"));
    }
    let version = file.get(0x206..0x208).map_or(0, |half| u16::from_le_bytes([half[0], half[1]]));
    if version < 0x208 {
        return Err(Failure::input(format!("boot protocol {version:#x}"))
            .expected("0x208 or newer (Linux 2.6.26), which says where the payload is"));
    }
    // Sectors of the setup code after the first; 0 means 4.
    let sectors = match usize::from(file[0x1f1]) {
        0 => 4,
        sectors => sectors,
    };
    let part = || {
        let offset = u32_at(file, 0x248)? as usize;
        let start = ((sectors + 1) * 512).checked_add(offset)?;
        file.get(start..start.checked_add(u32_at(file, 0x24c)? as usize)?)
    };
    part().ok_or_else(|| {
        Failure::input(format!("cut off: its payload goes beyond its {} bytes", file.len()))
            .help("fetch the kernel's package again")
    })
}

/// The version that a bzImage tells, such as `6.1.0-56-amd64`.
pub(crate) fn version(file: &[u8]) -> Option<&str> {
    payload(file).ok()?;
    let offset = usize::from(u16::from_le_bytes([*file.get(0x20e)?, *file.get(0x20f)?]));
    let text = file.get(offset.checked_add(0x200)?..)?;
    let end = text.iter().take(256).position(|byte| matches!(byte, 0 | b' '))?;
    std::str::from_utf8(&text[..end]).ok().filter(|_| offset > 0)
}

/// The ELF file in a kernel, which may be one already.
///
/// # Errors
/// When it is neither, or the program that unpacks it fails or is missing.
pub fn unpack(file: &[u8]) -> Result<Vec<u8>, Failure> {
    if file.starts_with(b"\x7fELF") {
        return Ok(file.to_vec());
    }
    let payload = payload(file)?;
    let Some(program) = pack::unpacker(payload) else {
        return Err(
            Failure::input("its payload is compressed in an unknown way").expected(pack::known())
        );
    };
    // All but gzip have their unpacked size behind them, which is not part of the format.
    let size_bytes = if program == "gzip" { 0 } else { 4 };
    let packed = &payload[..payload.len().saturating_sub(size_bytes)];
    pack::unpack_by(program, packed)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A bzImage around `payload`.
    fn bzimage(payload: &[u8]) -> Vec<u8> {
        let mut file = vec![0; 1024];
        file[0x1f1] = 1;
        file[0x202..0x206].copy_from_slice(b"HdrS");
        file[0x206..0x208].copy_from_slice(&0x20fu16.to_le_bytes());
        file[0x248..0x24c].copy_from_slice(&16u32.to_le_bytes());
        file[0x24c..0x250].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        file.extend([0; 16]);
        file.extend(payload);
        file
    }

    #[test]
    fn the_payload_is_found_and_unpacked() {
        let packed = pack::Packing::Gzip.pack(b"\x7fELF of a kernel").unwrap();
        let file = bzimage(&packed);
        assert_eq!(payload(&file).unwrap(), packed);
        assert_eq!(unpack(&file).unwrap(), b"\x7fELF of a kernel");
        assert_eq!(unpack(b"\x7fELF itself").unwrap(), b"\x7fELF itself");
    }

    #[test]
    fn what_is_no_kernel_is_refused() {
        let file = bzimage(b"no known magic");
        let message = |file: &[u8]| unpack(file).unwrap_err().message;
        assert!(message(&file).contains("unknown way"));
        for cut in 0..file.len() {
            assert!(!message(&file[..cut]).is_empty());
        }
        assert!(message(&file[..file.len() - 1]).contains("cut off"));
        let mut old = file.clone();
        old[0x206] = 0;
        assert_eq!(message(&old), "boot protocol 0x200");
    }
}
