//! `blocklab attach ctl`: one line to a running session, one line back.

use std::path::PathBuf;

use serde_json::{Value, json};
use study::Failure;

use crate::say;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The socket that the session was given with --control
    socket: PathBuf,
    /// inject KIND [range=1MiB+4KiB] [op=read] [by=10ms] [after=10] [one-in=100] [count=3]
    /// [export=NAME], lift ID|all, faults, status, save, power-cut or quit
    #[arg(required = true)]
    words: Vec<String>,
    /// One JSON object on stdout: what is answered, or null, as `answer`
    #[arg(long)]
    json: bool,
}

impl Args {
    pub(crate) fn run(self) -> Result<u8, Failure> {
        let answer = attach::control::ask(&self.socket, &self.words.join(" "))?;
        let answer = answer.trim_end();
        match answer.split_once(' ').unwrap_or((answer, "")) {
            ("ok", rest) => {
                match (self.json, rest) {
                    (true, _) => say(json!({ "answer": value(rest) })),
                    (false, "") => {}
                    (false, _) => say(rest),
                }
                Ok(0)
            }
            ("error", why) => Err(Failure::input(why)),
            _ => {
                let shown = self.socket.display();
                Err(Failure::input(format!("{shown} is no session of ours: it says {answer:?}")))
            }
        }
    }
}

/// Every answer with something to it is JSON: a fault's number, or an object.
fn value(answer: &str) -> Value {
    match answer {
        "" => Value::Null,
        _ => serde_json::from_str(answer).unwrap_or_else(|_| answer.into()),
    }
}
