//! Files of the loader that are ours, with nothing of anybody else's in them.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use config::Failure;

use super::{CUSTOM, MARK, grub};

/// The last line of ours; older versions wrote none. What follows is somebody else's.
const END: &str = "# End of what blocklab boot install wrote";

/// `text` as it is written, so that it is known again.
pub(super) fn ended(text: &str) -> String {
    format!("{text}{END}\n")
}

/// Whether the file is ours; one that is not there is not.
///
/// # Errors
/// Why it cannot be read, or that there is more in it than we wrote: who removes the file, or
/// writes it anew, would take that away.
pub(super) fn is_ours(path: &Path) -> Result<bool, Failure> {
    let text = match fs::read(path) {
        // Whatever was done to it, our lines are told by ASCII.
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(why) => {
            use ErrorKind::{IsADirectory, NotADirectory, NotFound};
            return match why.kind() {
                NotFound | NotADirectory | IsADirectory => Ok(false),
                _ => Err(super::super::failed("read", path, &why)),
            };
        }
    };
    if !text.lines().any(|line| line.trim_end() == MARK) {
        return Ok(false);
    }
    if is_only_ours(&text, path.ends_with(CUSTOM)) {
        return Ok(true);
    }
    let shown = path.display();
    Err(Failure::input(format!("{shown}: more is in it than blocklab boot install wrote"))
        .expected(format!("`{MARK}`, an entry and nothing else"))
        .help(format!(
            "take the entry out of {shown} by hand, from `{MARK}` to `{END}` (in older files, to \
             the `}}` of its menuentry), and do this again: what is left then stays as it is"
        )))
}

fn is_only_ours(text: &str, is_script: bool) -> bool {
    let Some(rest) = text.strip_prefix(MARK) else { return false };
    let (own, after) = match rest.split_once(&format!("\n{END}")) {
        Some((own, after)) => (own, after),
        None => (rest, ""),
    };
    // A file of the specification is one entry, whatever is in it.
    after.trim().is_empty() && (!is_script || grub::is_one_entry(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: &str = "menuentry 'a' --id blocklab {\n\tif x; then\n\tlinux ${v}\n\tfi\n}\n";

    #[test]
    fn ours_is_told_from_what_others_added() {
        let folder = attach::PrivateFolder::new().unwrap();
        let told = |name: &str, text: &[u8]| {
            let path = folder.path.join(name);
            fs::write(&path, text).unwrap();
            is_ours(&path).map_err(|why| why.message.replace(&path.display().to_string(), "F"))
        };
        let more = || Err("F: more is in it than blocklab boot install wrote".to_string());
        let (old, theirs) = (format!("{MARK}\n{ENTRY}"), "menuentry 'b' {\n\tlinux /b\n}\n");
        let new = ended(&old);
        for (text, is) in [
            (theirs.to_string(), Ok(false)),
            (old.clone(), Ok(true)),
            (new.clone(), Ok(true)),
            (format!("{new}\n"), Ok(true)),
            (format!("{new}{theirs}"), more()),
            (format!("{new}set timeout=9\n"), more()),
            (format!("{old}{theirs}"), more()),
            (format!("{old}set timeout=9\n"), more()),
            (ended(&format!("{old}{theirs}")), more()),
            (format!("{theirs}{new}"), more()),
            (format!("{MARK}\nset timeout=9\n{ENTRY}"), more()),
        ] {
            assert_eq!(told(CUSTOM, text.as_bytes()), is, "{text}");
        }
        let old = format!("{MARK}\ntitle a\nlinux /v\n");
        let new = ended(&old);
        assert_eq!(told("-blocklab.conf", new.as_bytes()), Ok(true));
        assert_eq!(told("blocklab.conf", old.as_bytes()), Ok(true));
        assert_eq!(told("-blocklab.conf", format!("{new}options x\n").as_bytes()), more());
        assert_eq!(told("-blocklab.conf", b"title a\n"), Ok(false));
        // Of another encoding, it is ours all the same.
        assert_eq!(told("blocklab.conf", &[old.as_bytes(), b"# \xe9\n"].concat()), Ok(true));
    }

    #[test]
    fn what_cannot_be_read_is_not_taken_for_another_file() {
        let folder = attach::PrivateFolder::new().unwrap();
        assert_eq!(is_ours(&folder.path), Ok(false));
        assert_eq!(is_ours(&folder.path.join("a")), Ok(false));
        std::os::unix::fs::symlink("b", folder.path.join("b")).unwrap();
        let told = is_ours(&folder.path.join("b")).unwrap_err().message;
        assert!(told.starts_with("cannot read "), "{told}");
    }
}
