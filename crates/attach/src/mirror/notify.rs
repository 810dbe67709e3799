//! Telling a service manager how it goes: `sd_notify(3)`, of which this is all that is needed.

use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::clock::Wall;

/// Who is to be told, if anybody.
pub(super) struct Manager {
    socket: Option<(UnixDatagram, SocketAddr)>,
    /// How often it wants to hear that the event loop turns, in nanoseconds.
    every_ns: Option<u64>,
    due: Wall,
}

impl Manager {
    /// As the environment says.
    pub(super) fn from_environment() -> Manager {
        let variable = |name: &str| std::env::var(name).ok();
        let mine = variable("WATCHDOG_PID").is_none_or(|id| id.parse() == Ok(std::process::id()));
        let usec = variable("WATCHDOG_USEC").filter(|_| mine).and_then(|text| text.parse().ok());
        Manager::new(variable("NOTIFY_SOCKET").as_deref(), usec)
    }

    /// A name that begins with `@` is abstract. One that is neither that nor a path is nobody's.
    fn new(name: Option<&str>, watchdog_usec: Option<u64>) -> Manager {
        let address = name.and_then(|name| match name.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name).ok(),
            None => SocketAddr::from_pathname(name).ok(),
        });
        let unbound = || {
            let socket = UnixDatagram::unbound().ok()?;
            // One that does not read must not hold up the mirror.
            socket.set_nonblocking(true).ok()?;
            Some(socket)
        };
        let socket = address.and_then(|address| Some((unbound()?, address)));
        // Half of what it allows, as its manual advises.
        let every_ns = watchdog_usec.map(|usec: u64| usec.saturating_mul(1000) / 2);
        let every_ns = every_ns.filter(|&ns| socket.is_some() && ns > 0);
        Manager { socket, every_ns, due: Wall::NEVER }
    }

    fn tell(&self, text: &str) {
        if let Some((socket, address)) = &self.socket {
            // One that does not listen draws its own conclusions.
            let _ = socket.send_to_addr(text.as_bytes(), address);
        }
    }

    /// Clients may come.
    pub(super) fn ready(&mut self, now: Wall) {
        self.tell("READY=1\nSTATUS=serving");
        if self.every_ns.is_some() {
            self.due = now;
        }
    }

    /// Something that a person should know.
    pub(super) fn status(&self, text: &str) {
        self.tell(&format!("STATUS={text}"));
    }

    /// It ends.
    pub(super) fn stopping(&self) {
        self.tell("STOPPING=1\nSTATUS=making all of it durable on every leg");
    }

    /// The event loop turns; returns when it must turn again.
    pub(super) fn turns(&mut self, now: Wall) -> Wall {
        if let Some(every_ns) = self.every_ns.filter(|_| now >= self.due) {
            self.tell("WATCHDOG=1");
            self.due = now.plus(every_ns);
        }
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(listener: &UnixDatagram) -> Option<String> {
        let mut buffer = [0; 256];
        let got = listener.recv(&mut buffer).ok()?;
        Some(String::from_utf8_lossy(&buffer[..got]).into_owned())
    }

    #[test]
    fn an_abstract_socket_hears_of_every_half_period() {
        let name = format!("blocklab-notify-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let listener = UnixDatagram::bind_addr(&address).unwrap();
        listener.set_nonblocking(true).unwrap();
        let mut manager = Manager::new(Some(&format!("@{name}")), Some(2000));
        assert_eq!(manager.turns(Wall(5)), Wall::NEVER);
        assert_eq!(said(&listener), None, "the watchdog begins with READY");
        manager.ready(Wall(10));
        assert!(said(&listener).unwrap().starts_with("READY=1\n"));
        assert_eq!(manager.turns(Wall(10)), Wall(1_000_010));
        assert_eq!(said(&listener).unwrap(), "WATCHDOG=1");
        assert_eq!(manager.turns(Wall(999_999)), Wall(1_000_010));
        assert_eq!(said(&listener), None);
        manager.turns(Wall(1_000_010));
        assert_eq!(said(&listener).unwrap(), "WATCHDOG=1");
        manager.stopping();
        assert!(said(&listener).unwrap().starts_with("STOPPING=1\n"));
    }

    #[test]
    fn one_that_does_not_read_holds_up_nobody() {
        let name = format!("blocklab-notify-full-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let _listener = UnixDatagram::bind_addr(&address).unwrap();
        let (told, hears) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut manager = Manager::new(Some(&format!("@{name}")), Some(2000));
            manager.ready(Wall(0));
            // Far more than a socket's queue.
            for ms in 1..10_000 {
                manager.turns(Wall(ms * 1_000_000));
            }
            manager.stopping();
            told.send(()).unwrap();
        });
        assert!(hears.recv_timeout(std::time::Duration::from_secs(60)).is_ok());
    }

    #[test]
    fn without_a_manager_nothing_is_due() {
        let mut manager = Manager::new(None, Some(1000));
        manager.ready(Wall(0));
        assert_eq!(manager.turns(Wall(0)), Wall::NEVER);
    }
}
