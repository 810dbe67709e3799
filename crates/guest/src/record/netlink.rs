//! The socket by which the kernel tells of tasks.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::time::{ClockId, clock_gettime};

use super::taskstats::{self, FAMILY, Malformed, Task};

/// The controller of generic netlink, which knows the families.
const CONTROLLER: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_NAME: u16 = 2;
const GET: u8 = 1;
const OF_PID: u16 = 1;
const OF_TGID: u16 = 2;
const REGISTER_PROCESSORS: u16 = 3;
/// For a burst of exits while nobody reads.
const BUFFER_BYTES: usize = 4 << 20;
/// Questions that are sent at once. Their answers fit into a socket's usual buffer.
const GROUP: usize = 32;

/// Two sockets: for what is told, and for what is asked.
pub(super) struct Taskstats {
    family: u16,
    /// Number of the next question.
    sequence: u32,
    asked: OwnedFd,
    /// Exit records come here.
    pub(super) told: OwnedFd,
    /// What did not fit into the socket was thrown away.
    pub(super) overflowed: bool,
    buffer: Vec<u8>,
}

fn socket() -> Result<OwnedFd, String> {
    let kind = (AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC);
    let socket = net::socket_with(kind.0, kind.1, kind.2, Some(net::netlink::GENERIC));
    let socket = socket.map_err(|why| format!("no socket of generic netlink: {why}"))?;
    // Without the right to more than the default there is the default.
    let _ = net::sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER_BYTES);
    Ok(socket)
}

fn send(socket: &OwnedFd, request: &[u8]) -> Result<(), String> {
    let sent = net::send(socket, request, SendFlags::empty());
    sent.map(drop).map_err(|why| format!("cannot ask the kernel about tasks: {why}"))
}

impl Taskstats {
    /// Be told of every task that exits from now on, on `processors` of them.
    pub(super) fn listen(processors: usize) -> Result<Taskstats, String> {
        let (asked, told) = (socket()?, socket()?);
        let mut all = Taskstats {
            family: 0,
            sequence: 0,
            asked,
            told,
            overflowed: false,
            buffer: vec![0; 1 << 16],
        };
        send(&all.asked, &taskstats::request(CONTROLLER, GET_FAMILY, FAMILY_NAME, FAMILY))?;
        let bytes = all.receive()?;
        all.family = taskstats::family(&all.buffer[..bytes]).map_err(|why| {
            format!("this kernel tells nothing of tasks ({why}); it needs CONFIG_TASKSTATS")
        })?;
        let mask = format!("0-{}\0", processors.max(1) - 1);
        let ask = taskstats::request(all.family, GET, REGISTER_PROCESSORS, mask.as_bytes());
        send(&all.told, &ask)?;
        // A refusal, such as in a namespace, is the first message.
        all.exits().map_err(|why| format!("the kernel does not tell of exits: {why}"))?;
        Ok(all)
    }

    /// The next answer, in the buffer: so many bytes.
    fn receive(&mut self) -> Result<usize, String> {
        loop {
            match net::recv(&self.asked, &mut self.buffer[..], RecvFlags::empty()) {
                Ok((_, bytes)) => return Ok(bytes),
                Err(Errno::INTR) => {}
                Err(why) => return Err(format!("no answer about tasks: {why}")),
            }
        }
    }

    /// The tasks that exited since the last call.
    pub(super) fn exits(&mut self) -> Result<Vec<Task>, Malformed> {
        let mut all = Vec::new();
        loop {
            match net::recv(&self.told, &mut self.buffer[..], RecvFlags::DONTWAIT) {
                Ok((_, bytes)) => all.extend(taskstats::tasks(&self.buffer[..bytes], false)?),
                Err(Errno::NOBUFS) => self.overflowed = true,
                Err(_) => return Ok(all),
            }
        }
    }

    /// Living threads; `None` for one that is gone by now.
    pub(super) fn threads(&mut self, pids: &[u32]) -> Vec<Option<Task>> {
        self.ask(OF_PID, pids, false)
    }

    /// The calling thread, which has this number. The kernel knows how long it has run when it
    /// last stopped, and when it was asked for its clock.
    pub(super) fn itself(&mut self, pid: u32) -> Option<Task> {
        let _ = clock_gettime(ClockId::ThreadCPUTime);
        self.threads(&[pid]).pop()?
    }

    /// The sums over living processes; `None` for one that is gone by now.
    pub(super) fn processes(&mut self, pids: &[u32]) -> Vec<Option<Task>> {
        self.ask(OF_TGID, pids, true)
    }

    /// One call sends a group of questions; each has one answer, which has its number.
    fn ask(&mut self, attribute: u16, pids: &[u32], sums: bool) -> Vec<Option<Task>> {
        let mut all = vec![None; pids.len()];
        for (group, answers) in pids.chunks(GROUP).zip(all.chunks_mut(GROUP)) {
            let first = self.sequence;
            let mut questions = Vec::new();
            for pid in group {
                let content = pid.to_ne_bytes();
                let question = taskstats::request(self.family, GET, attribute, &content);
                questions.extend(taskstats::numbered(question, self.sequence));
                self.sequence = self.sequence.wrapping_add(1);
            }
            if send(&self.asked, &questions).is_err() {
                continue;
            }
            for _ in group {
                let Ok(bytes) = self.receive() else { break };
                let answer = &self.buffer[..bytes];
                let place = taskstats::number(answer).map(|number| number.wrapping_sub(first));
                if let Some(place) = place.and_then(|at| answers.get_mut(at as usize)) {
                    *place = taskstats::tasks(answer, sums).ok().and_then(|mut all| all.pop());
                }
            }
        }
        all
    }
}
