//! The socket by which the kernel tells of tasks.

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

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

/// Two sockets: for what is told, and for what is asked.
pub(super) struct Taskstats {
    family: u16,
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
        let mut all =
            Taskstats { family: 0, asked, told, overflowed: false, buffer: vec![0; 1 << 16] };
        send(&all.asked, &taskstats::request(CONTROLLER, GET_FAMILY, FAMILY_NAME, FAMILY))?;
        let answer = all.receive()?;
        all.family = taskstats::family(&answer).map_err(|why| {
            format!("this kernel tells nothing of tasks ({why}); it needs CONFIG_TASKSTATS")
        })?;
        let mask = format!("0-{}\0", processors.max(1) - 1);
        let ask = taskstats::request(all.family, GET, REGISTER_PROCESSORS, mask.as_bytes());
        send(&all.told, &ask)?;
        // A refusal, such as in a namespace, is the first message.
        all.exits().map_err(|why| format!("the kernel does not tell of exits: {why}"))?;
        Ok(all)
    }

    fn receive(&mut self) -> Result<Vec<u8>, String> {
        let received = net::recv(&self.asked, &mut self.buffer[..], RecvFlags::empty());
        let (_, bytes) = received.map_err(|why| format!("no answer about tasks: {why}"))?;
        Ok(self.buffer[..bytes].to_vec())
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

    /// A living thread; `None` when it is gone by now.
    pub(super) fn thread(&mut self, pid: u32) -> Option<Task> {
        self.ask(OF_PID, pid, false)
    }

    /// The sums over a living process; `None` when it is gone by now.
    pub(super) fn process(&mut self, pid: u32) -> Option<Task> {
        self.ask(OF_TGID, pid, true)
    }

    fn ask(&mut self, attribute: u16, pid: u32, sums: bool) -> Option<Task> {
        let ask = taskstats::request(self.family, GET, attribute, &pid.to_ne_bytes());
        send(&self.asked, &ask).ok()?;
        let answer = self.receive().ok()?;
        taskstats::tasks(&answer, sums).ok()?.pop()
    }
}
