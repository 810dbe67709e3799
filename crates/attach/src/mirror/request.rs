//! What a running mirror may be asked, over its control socket: a line of JSON each way.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mirror::{Mode, Slot};
use serde::{Deserialize, Serialize};
use study::{Failure, Kind};

use super::NAMES;
use super::live::Live;
use crate::control_socket::{self, ANSWER_MAX, Server};

/// Something to ask of a mirror that is served.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// How it is.
    Status {},
    /// Compare both legs.
    Scrub {},
    /// Take this device back.
    Resync {
        /// `fast`, `slow` or `witness`.
        device: String,
    },
    /// Use another device instead of this one.
    Replace {
        /// `fast`, `slow` or `witness`.
        device: String,
        /// The other one: an absolute path.
        with: PathBuf,
        /// Whatever it holds is to be lost.
        overwrite: bool,
    },
    /// Run in another mode.
    SetMode {
        /// `strict`, `log` or `relaxed`.
        mode: String,
    },
}

/// The answer.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// How it is.
    Status(Box<Live>),
    /// It has begun, or there was nothing to do.
    Done {
        /// For people.
        text: String,
        /// The number of a scrub, from 1.
        number: u64,
    },
    /// It is refused.
    Refused {
        /// What is wrong.
        message: String,
        /// What was expected.
        expected: Option<String>,
        /// What to do next.
        help: Option<String>,
        /// The machine is to blame, not who asks.
        machine: bool,
    },
}

impl Answer {
    pub(super) fn refused(failure: &Failure) -> Answer {
        Answer::Refused {
            message: failure.message.clone(),
            expected: failure.expected.clone(),
            help: failure.help.clone(),
            machine: failure.kind != Kind::Input,
        }
    }
}

/// The slot of that name.
pub(super) fn slot(name: &str) -> Result<Slot, Failure> {
    NAMES
        .iter()
        .position(|known| *known == name)
        .ok_or_else(|| Failure::input(format!("`{name}` is no device")).expected(NAMES.join(", ")))
}

/// The mode of that name.
///
/// # Errors
/// When there is none.
pub fn mode(name: &str) -> Result<Mode, Failure> {
    let modes = [Mode::Strict, Mode::Log, Mode::Relaxed];
    modes.into_iter().find(|mode| mode.to_string() == name).ok_or_else(|| {
        Failure::input(format!("`{name}` is no mode")).expected("strict, log or relaxed")
    })
}

/// Ask the process that serves a mirror with the control socket `path`.
///
/// # Errors
/// When nobody answers there, or what is asked is refused.
pub fn ask(path: &Path, request: &Request) -> Result<Answer, Failure> {
    // To prepare a new medium takes as long as it takes.
    let wait = (!matches!(request, Request::Replace { .. })).then_some(ANSWER_MAX);
    ask_for(path, request, wait)
}

fn ask_for(path: &Path, request: &Request, wait: Option<Duration>) -> Result<Answer, Failure> {
    let line = serde_json::to_string(request).map_err(|why| Failure::bug(why.to_string()))?;
    let answer = control_socket::ask(path, &line, wait, SERVER)?;
    match serde_json::from_str(&answer) {
        Ok(Answer::Refused { message, expected, help, machine }) => {
            let failure = if machine { Failure::machine } else { Failure::input };
            Err(Failure { expected, help, ..failure(message) })
        }
        Ok(answer) => Ok(answer),
        Err(_) => {
            let shown = path.display();
            Err(Failure::input(format!("{shown} is no mirror's: it says {}", answer.trim())))
        }
    }
}

const SERVER: Server = Server {
    listens: "no mirror is served with",
    start: "blocklab mirror serve --control PATH",
    verb: "mirror serve",
};

/// How a mirror is that is served with the control socket `path`.
///
/// # Errors
/// When nobody answers there.
pub fn live(path: &Path) -> Result<Live, Failure> {
    match ask(path, &Request::Status {})? {
        Answer::Status(live) => Ok(*live),
        _ => Err(Failure::bug("a status was asked for")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_a_server_that_is_stopped() {
        let folder = crate::private_folder::PrivateFolder::new().unwrap();
        let path = folder.path.join("c");
        // The kernel lets who asks in; nobody reads.
        let _stopped = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let wait = Some(Duration::from_millis(20));
        let why = ask_for(&path, &Request::Status {}, wait).unwrap_err();
        assert!(why.message.ends_with("has not answered in 0.02 s"), "{}", why.message);
    }
}
