//! Archives for an initramfs: what is in one, and how it is taken apart.
//!
//! Format: Linux, `Documentation/driver-api/early-userspace/buffer-format.rst`.

/// The header of an entry in the format `newc`: the magic word and 13 numbers of 8 digits.
const HEADER_BYTES: usize = 6 + 13 * 8;
const MAGICS: [&[u8]; 2] = [b"070701", b"070702"];
const LAST: &str = "TRAILER!!!";

/// An archive, if `bytes` begins with one.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Archive<'a> {
    /// Names of its entries.
    pub(super) names: Vec<&'a str>,
    /// Where it ends, with the zeros behind it.
    pub(super) end: usize,
}

/// Read the archive at the start of `bytes`.
///
/// # Errors
/// What is wrong, and at which byte.
pub(super) fn read(bytes: &[u8]) -> Result<Archive<'_>, String> {
    let (mut names, mut at) = (Vec::new(), 0);
    loop {
        let entry = Entry::read(bytes, at).ok_or_else(|| format!("no entry at byte {at}"))?;
        at = entry.end;
        if entry.name == LAST {
            break;
        }
        names.push(entry.name);
    }
    let zeros = bytes[at..].iter().take_while(|byte| **byte == 0).count();
    Ok(Archive { names, end: at + zeros })
}

/// Where the first archive in `bytes` begins that is not packed.
pub(super) fn first_in(bytes: &[u8]) -> Option<usize> {
    let words = bytes.windows(MAGICS[0].len()).enumerate();
    // What is packed may have the word in it, but no whole archive.
    let mut found = words.filter(|(_, word)| MAGICS.contains(word)).map(|(at, _)| at);
    found.find(|&at| read(&bytes[at..]).is_ok())
}

/// One file of an archive.
struct Entry<'a> {
    name: &'a str,
    end: usize,
}

impl Entry<'_> {
    fn read(bytes: &[u8], at: usize) -> Option<Entry<'_>> {
        let header = bytes.get(at..at.checked_add(HEADER_BYTES)?)?;
        if !MAGICS.contains(&&header[..6]) {
            return None;
        }
        let number = |index: usize| {
            let digits = std::str::from_utf8(&header[6 + index * 8..][..8]).ok()?;
            usize::try_from(u32::from_str_radix(digits, 16).ok()?).ok()
        };
        let (data_bytes, name_bytes) = (number(6)?, number(11)?);
        let name_at = at + HEADER_BYTES;
        let name_end = name_at.checked_add(name_bytes)?;
        let name = bytes.get(name_at..name_end)?.strip_suffix(&[0])?;
        let data_end = name_end.next_multiple_of(4).checked_add(data_bytes)?;
        let end = data_end.next_multiple_of(4);
        (data_end <= bytes.len()).then_some(())?;
        Some(Entry { name: std::str::from_utf8(name).ok()?, end: end.min(bytes.len()) })
    }
}

/// The kernel's version that the modules in an archive are for.
pub(super) fn modules_for<'a>(names: &[&'a str]) -> Option<&'a str> {
    names.iter().find_map(|name| {
        let rest = name.trim_start_matches("./");
        let rest = rest.strip_prefix("usr/").unwrap_or(rest).strip_prefix("lib/modules/")?;
        rest.split('/').next().filter(|version| !version.is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::initramfs;

    fn archive() -> Vec<u8> {
        let mut out = Vec::new();
        initramfs::entry(&mut out, "usr/lib/modules/6.1.0-1/kernel/a.ko", 0o100_644, b"abc");
        initramfs::entry(&mut out, "init", 0o100_755, b"");
        initramfs::entry(&mut out, LAST, 0, b"");
        out
    }

    #[test]
    fn names_and_the_end_are_found() {
        let one = archive();
        let found = read(&one).unwrap();
        assert_eq!(found.names, ["usr/lib/modules/6.1.0-1/kernel/a.ko", "init"]);
        assert_eq!((found.end, modules_for(&found.names)), (one.len(), Some("6.1.0-1")));
        let more = [one.clone(), vec![0; 300], b"\x1f\x8b".to_vec()].concat();
        assert_eq!(read(&more).unwrap().end, one.len() + 300);
    }

    #[test]
    fn a_damaged_archive_is_refused_and_never_a_panic() {
        let whole = archive();
        // Zeros that fill the last entry up may be missing.
        for cut in 0..whole.len() - 4 {
            assert!(read(&whole[..cut]).is_err(), "{cut}");
        }
        for at in 0..whole.len() {
            for byte in [0, b'f', 0xff] {
                let mut bad = whole.clone();
                bad[at] = byte;
                let _ = read(&bad);
            }
        }
        assert_eq!(modules_for(&["lib/modules/", "etc/passwd"]), None);
    }
}
