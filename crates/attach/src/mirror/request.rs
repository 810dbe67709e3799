//! What a running mirror may be asked, over its control socket: a line of JSON each way.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mirror::{Mode, Slot};
use serde::{Deserialize, Serialize};
use study::{Failure, Kind};

use super::NAMES;
use super::live::Live;

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
    let shown = path.display();
    let mut stream = UnixStream::connect(path).map_err(|why| {
        Failure::input(format!("no mirror is served with {shown}: {why}"))
            .help("blocklab mirror serve --control PATH")
    })?;
    let line = serde_json::to_string(request).map_err(|why| Failure::bug(why.to_string()))?;
    let mut answer = String::new();
    stream
        .set_read_timeout(wait)
        .and_then(|()| stream.set_write_timeout(wait))
        .and_then(|()| stream.write_all(format!("{line}\n").as_bytes()))
        .and_then(|()| BufReader::new(stream).read_line(&mut answer))
        .map_err(|why| unanswered(path, wait, &why))?;
    if answer.is_empty() {
        return Err(Failure::machine(format!("{shown} was closed without an answer"))
            .help("is the mirror being stopped? see what `mirror serve` says"));
    }
    match serde_json::from_str(&answer) {
        Ok(Answer::Refused { message, expected, help, machine }) => {
            let failure = if machine { Failure::machine } else { Failure::input };
            Err(Failure { expected, help, ..failure(message) })
        }
        Ok(answer) => Ok(answer),
        Err(_) => Err(Failure::input(format!("{shown} is no mirror's: it says {}", answer.trim()))),
    }
}

/// Nobody waits longer for an answer: a server looks at its control socket all the time.
const ANSWER_MAX: Duration = Duration::from_secs(10);

fn unanswered(path: &Path, wait: Option<Duration>, why: &io::Error) -> Failure {
    let shown = path.display();
    let Some(wait) = wait.filter(|_| why.kind() == io::ErrorKind::WouldBlock) else {
        return Failure::machine(format!("{shown} does not answer: {why}"));
    };
    Failure::machine(format!("{shown} has not answered in {} s", wait.as_secs_f64())).help(
        "is `mirror serve` still starting, or stopped (SIGSTOP)? What was asked is done when it \
         goes on",
    )
}

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
