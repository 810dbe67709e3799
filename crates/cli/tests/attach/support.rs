//! A session under test, and a client that can misbehave.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::common::PATIENCE;
pub(crate) use crate::common::{Folder, have, same_times, skip, until};

impl Folder {
    /// Run `blocklab` to its end with these variables.
    pub(crate) fn blocklab_with(&self, args: &[&str], variables: &[(&str, &str)]) -> Output {
        self.command(args).envs(variables.iter().copied()).output().unwrap()
    }

    /// Run a session around a shell script; its stdout, exit code and report.
    pub(crate) fn captive(&self, args: &[&str], script: &str) -> Captive {
        let mut all = vec!["attach"];
        all.extend(args);
        all.extend(["--run", script]);
        let output = self.blocklab(&all);
        Captive {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            report: self.report("out/attach/attach.json"),
        }
    }

    /// Start a session that goes on until it is told to end.
    pub(crate) fn serve(&self, args: &[&str]) -> Session {
        let mut all = vec!["attach"];
        all.extend(args);
        self.session(&all)
    }

    /// Start `blocklab ARGS`, which serves until it is told to end.
    pub(crate) fn session(&self, args: &[&str]) -> Session {
        self.session_with(args, &[])
    }

    /// The same with these variables.
    pub(crate) fn session_with(&self, args: &[&str], variables: &[(&str, &str)]) -> Session {
        let mut command = self.command(args);
        command.envs(variables.iter().copied());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains("end with Ctrl-C") {
            let got = lines.read_line(&mut said).unwrap();
            assert!(got > 0, "it ended: {said}");
        }
        // What it says later must not block it.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        Session { child, said }
    }
}

/// A small file system in memory.
pub(crate) struct Small(pub(crate) Folder);

impl Small {
    /// Of a size such as `44m`, as `fs` in a folder; `None` where nobody may mount it.
    pub(crate) fn new(size: &str) -> Option<Small> {
        let folder = Folder::new();
        std::fs::create_dir(folder.path("fs")).unwrap();
        let small = Small(folder);
        if !small.mount(&format!("size={size}")) {
            skip("mount", "no file system may be mounted");
            return None;
        }
        Some(small)
    }

    pub(crate) fn mount(&self, options: &str) -> bool {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "blocklab"]).arg(self.0.path("fs"));
        mount.status().is_ok_and(|status| status.success())
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // What cannot be undone here is seen by whoever looks for leftovers.
        let _ = Command::new("umount").arg("-l").arg(self.0.path("fs")).status();
    }
}

/// What a session around a script left.
pub(crate) struct Captive {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) report: Value,
}

impl Captive {
    /// It must have gone well.
    pub(crate) fn good(self) -> Captive {
        assert_eq!(self.code, Some(0), "{}\n{}", self.stdout, self.stderr);
        self
    }
}

/// A running session.
pub(crate) struct Session {
    child: Child,
    /// What it said before it was ready.
    pub(crate) said: String,
}

impl Session {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// A number of `/proc/ID/status`, such as `VmHWM` in KiB.
    pub(crate) fn status(&self, key: &str) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("{key}:"))).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Descriptors it has open.
    pub(crate) fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.id())).unwrap().count()
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(self.id(), name);
    }

    /// Its exit code; `None` when a signal ended it.
    pub(crate) fn ended(&mut self) -> Option<i32> {
        until("the session ends", || self.child.try_wait().unwrap().is_some());
        let status = self.child.wait().unwrap();
        assert_eq!(status.code().is_none(), status.signal().is_some());
        status.code()
    }

    /// End it with Ctrl-C.
    pub(crate) fn end(&mut self) {
        self.signal("INT");
        assert_eq!(self.ended(), Some(0));
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn signal(id: u32, name: &str) {
    let sent = Command::new("kill").arg(format!("-{name}")).arg(id.to_string()).status();
    assert!(sent.unwrap().success());
}

/// A client that speaks NBD by hand.
pub(crate) struct Client {
    pub(crate) stream: UnixStream,
}

impl Client {
    /// Connect, read the greeting, send nothing.
    pub(crate) fn connect(socket: &Path) -> Client {
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
        Client { stream }
    }

    /// Negotiate the first export, simple replies.
    pub(crate) fn new(socket: &Path) -> Client {
        let mut client = Client::connect(socket);
        let mut hello = 3u32.to_be_bytes().to_vec();
        hello.extend(b"IHAVEOPT");
        hello.extend([1u32.to_be_bytes(), 0u32.to_be_bytes()].concat());
        client.stream.write_all(&hello).unwrap();
        client.stream.read_exact(&mut [0; 10]).unwrap();
        client
    }

    pub(crate) fn request(kind: u16, offset: u64, bytes: u32) -> Vec<u8> {
        let mut out = 0x2560_9513u32.to_be_bytes().to_vec();
        out.extend([0u16.to_be_bytes(), kind.to_be_bytes()].concat());
        out.extend([7u64.to_be_bytes(), offset.to_be_bytes()].concat());
        out.extend(bytes.to_be_bytes());
        out
    }

    /// The error number of the next reply.
    pub(crate) fn reply(&mut self) -> u32 {
        let mut head = [0; 16];
        self.stream.read_exact(&mut head).unwrap();
        assert_eq!(head[..4], 0x6744_6698u32.to_be_bytes());
        u32::from_be_bytes(head[4..8].try_into().unwrap())
    }

    /// Ask for this much at once, in pieces of 512 bytes, and wait for all answers.
    pub(crate) fn reads_at_once(&mut self, requests: u32) {
        let mut sender = self.stream.try_clone().unwrap();
        let sending = std::thread::spawn(move || {
            for n in 0..requests {
                let offset = u64::from(n % 8192) * 512;
                sender.write_all(&Client::request(0, offset, 512)).unwrap();
            }
        });
        for n in 0..requests {
            assert_eq!(self.reply(), 0, "answer {n}");
            self.stream.read_exact(&mut [0; 512]).unwrap();
        }
        sending.join().unwrap();
    }

    pub(crate) fn write(&mut self, offset: u64, data: &[u8]) -> u32 {
        self.stream.write_all(&Client::request(1, offset, data.len() as u32)).unwrap();
        self.stream.write_all(data).unwrap();
        self.reply()
    }

    pub(crate) fn flush(&mut self) -> u32 {
        self.stream.write_all(&Client::request(3, 0, 0)).unwrap();
        self.reply()
    }

    pub(crate) fn read(&mut self, offset: u64, bytes: u32) -> Result<Vec<u8>, u32> {
        self.stream.write_all(&Client::request(0, offset, bytes)).unwrap();
        match self.reply() {
            0 => {
                let mut data = vec![0; bytes as usize];
                self.stream.read_exact(&mut data).unwrap();
                Ok(data)
            }
            error => Err(error),
        }
    }
}
