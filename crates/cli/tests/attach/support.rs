//! A session under test, a folder of its own, and a client that can misbehave.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Nothing under test takes this long, on any machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A folder that is deleted in the end, with a small part in it.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("attach-test-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        let part = "[null]\nlatency = \"20us\"\ncapacity = \"256MiB\"\n";
        std::fs::write(path.join("part.toml"), part).unwrap();
        Folder(path)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_blocklab"));
        // Private folders of the session are looked for here.
        command.args(args).current_dir(&self.0).env("TMPDIR", &self.0);
        command
    }

    /// Run `blocklab` to its end.
    pub(crate) fn blocklab(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

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
        let text = std::fs::read_to_string(self.path("out/attach/attach.json"));
        Captive {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            report: text.map_or(Value::Null, |text| serde_json::from_str(&text).unwrap()),
        }
    }

    /// Start a session that goes on until it is told to end.
    pub(crate) fn serve(&self, args: &[&str]) -> Session {
        let mut all = vec!["attach"];
        all.extend(args);
        self.session(&all)
    }

    /// Start `blocklab ARGS`, and listen to nothing it says.
    pub(crate) fn start(&self, args: &[&str]) -> Child {
        self.command(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
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
        Session { child }
    }

    /// Everything below the folder that a session may not leave.
    pub(crate) fn leftovers(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("blocklab-") || name.ends_with(".sock")).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
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

/// Wait until something is so.
pub(crate) fn until(what: &str, mut so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !so() {
        assert!(began.elapsed() < PATIENCE, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// True when every tool is there; otherwise says why the test is skipped.
pub(crate) fn have(tools: &[&str]) -> bool {
    let found = |tool: &&str| {
        let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
        path.split(':').any(|folder| Path::new(folder).join(tool).exists())
    };
    match tools.iter().find(|tool| !found(tool)) {
        None => true,
        Some(missing) => {
            eprintln!("skipped: {missing} is not installed; get it: make clients");
            false
        }
    }
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
