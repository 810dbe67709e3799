//! What a program in a guest says it was promised, each with the moment.

use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use study::Failure;

use super::{inside, plan, unwritable};

/// The variable that names the file of promises in a guest where they are kept.
pub const TO: &str = "BLOCKLAB_ACK_TO";

/// What the helper is called in a guest.
pub(crate) const NAME: &str = "blocklab-ack";
/// Our own program is the guest's first process; its path may lie below what the guest has another
/// one of, as /tmp. A promise may begin with a dash.
const HELPER: &str = "#!/bin/sh\nexec /proc/1/exe travel-ack -- \"$*\"\n";

/// Say in a guest that `text` is promised from this moment on.
///
/// # Errors
/// When nobody keeps it.
pub fn acknowledge(text: &str) -> Result<(), Failure> {
    let path = std::env::var_os(TO).ok_or_else(|| {
        Failure::input("nobody keeps what is acknowledged here")
            .expected("a guest of `blocklab crash`")
    })?;
    if text.contains('\n') {
        return Err(Failure::input("an acknowledgement of several lines").expected("one line"));
    }
    // On the host when this returns, and written whole: others may append, too.
    let line = format!("{} {text}\n", inside::now_ns());
    let mut options = std::fs::OpenOptions::new();
    let file = options.append(true).create(true).custom_flags(libc::O_SYNC).open(path);
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .map_err(|why| Failure::machine(format!("cannot write what is acknowledged: {why}")))
}

/// Give a guest whose folder is `control` the program `blocklab-ack`.
pub(super) fn prepare(control: &Path) -> Result<(), Failure> {
    let folder = control.join(plan::HELPERS);
    let path = folder.join(NAME);
    let made = std::fs::create_dir(&folder)
        .and_then(|()| std::fs::write(control.join(plan::ACKS), ""))
        .and_then(|()| std::fs::write(&path, HELPER))
        .and_then(|()| std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)));
    made.map_err(|why| unwritable(&path, &why))
}

/// The environment of a program whose promises are kept.
pub(crate) fn environment() -> [(String, String); 2] {
    let (folder, path) = (inside::CONTROL, inside::PATH);
    [
        (TO.into(), format!("{folder}/{}", plan::ACKS)),
        ("PATH".into(), format!("{folder}/{}:{path}", plan::HELPERS)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_promise_may_look_like_an_option() {
        assert!(HELPER.ends_with("travel-ack -- \"$*\"\n"), "{HELPER}");
    }
}
