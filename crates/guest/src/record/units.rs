//! Units of systemd: when each was started and reached, what it waited for, and its process.
//!
//! `mark` asks systemd once the last mark is set, and sends the answer behind it. So nothing of it
//! lies in the time that is recorded.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::processes::quoted;
use super::{MARKS, PART, UNITS_FOLLOW};

/// What is asked of each unit.
const OF_UNIT: &str = "Id,ActiveState,InactiveExitTimestampMonotonic,\
                       ActiveEnterTimestampMonotonic,ExecMainPID,ExecMainStartTimestampMonotonic,\
                       After,RequiredBy";
/// What is asked of systemd itself.
const OF_MANAGER: &str = "FirmwareTimestampMonotonic,LoaderTimestampMonotonic,\
                          InitRDTimestampMonotonic,UserspaceTimestampMonotonic,\
                          GeneratorsFinishTimestampMonotonic,UnitsLoadFinishTimestampMonotonic";
/// Its times that are milestones of a boot.
const MILESTONES: [(&str, &str); 4] = [
    ("InitRDTimestampMonotonic", "initramfs"),
    ("UserspaceTimestampMonotonic", "systemd"),
    ("GeneratorsFinishTimestampMonotonic", "generators"),
    ("UnitsLoadFinishTimestampMonotonic", "units loaded"),
];
/// Bytes of a message.
const PART_BYTES: usize = 16 << 10;
/// Longest answer that is taken.
const ANSWER_BYTES_MAX: usize = 16 << 20;
/// How long an answer is waited for: a machine may be slow.
const PATIENCE: Duration = Duration::from_secs(120);

/// Ask systemd, and tell the recorder behind the mark.
pub(super) fn mark_with_units(name: &str) -> Result<u8, String> {
    let address = SocketAddr::from_abstract_name(MARKS).map_err(|why| why.to_string())?;
    let socket = UnixDatagram::unbound().map_err(|why| why.to_string())?;
    let send = |bytes: &[u8]| {
        let sent = socket.send_to_addr(bytes, &address);
        sent.map(drop).map_err(|why| format!("no recorder listens: {why}"))
    };
    let mut mark = name.as_bytes().to_vec();
    mark.push(UNITS_FOLLOW);
    send(&mark)?;
    let show = |arguments: &[&str]| {
        let mut command = Command::new("systemctl");
        command.args(["show", "--no-pager"]).args(arguments);
        command.stdin(Stdio::null()).stderr(Stdio::null());
        command.output().map(|done| done.stdout).unwrap_or_default()
    };
    let mut answer = show(&["--property", OF_MANAGER]);
    answer.extend(b"\n");
    answer.extend(show(&["*", "--property", OF_UNIT]));
    for part in answer.chunks(PART_BYTES) {
        send(&[&[PART], part].concat())?;
    }
    send(&[PART])?;
    Ok(0)
}

/// What `mark_with_units` sends behind the mark; what came until patience ended.
pub(super) fn heard(socket: &UnixDatagram) -> String {
    let end = Instant::now() + PATIENCE;
    let mut answer = Vec::new();
    let mut part = vec![0; PART_BYTES + 1];
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        // A socket that cannot wait says at once that there is nothing.
        let waits = socket
            .set_nonblocking(false)
            .and_then(|()| socket.set_read_timeout(Some(left.max(Duration::from_millis(1)))));
        if waits.is_err() || answer.len() > ANSWER_BYTES_MAX {
            break;
        }
        match socket.recv(&mut part) {
            Ok(1) if part[0] == PART => break,
            Ok(bytes) if bytes > 1 && part[0] == PART => answer.extend(&part[1..bytes]),
            Ok(_) => {}
            Err(_) => break,
        }
    }
    lines(&String::from_utf8_lossy(&answer))
}

/// Lines of the record from what `systemctl show` says: blocks of `Key=value` with an empty line
/// between them, systemd's own first.
pub fn lines(answer: &str) -> String {
    let mut out = String::new();
    let blocks: Vec<BTreeMap<&str, &str>> = answer
        .split("\n\n")
        .map(|block| block.lines().filter_map(|line| line.split_once('=')).collect())
        .collect();
    let ns = |block: &BTreeMap<&str, &str>, key: &str| -> Option<u64> {
        let us: u64 = block.get(key)?.parse().ok()?;
        us.checked_mul(1000).filter(|&ns| ns > 0)
    };
    if let Some(manager) = blocks.iter().find(|block| !block.contains_key("Id")) {
        for (key, name) in MILESTONES {
            if let Some(at) = ns(manager, key) {
                let _ = writeln!(out, "{{\"milestone\":{},\"at_ns\":{at}}}", quoted(name));
            }
        }
        let before = |key| ns(manager, key).unwrap_or(0);
        let firmware = before("FirmwareTimestampMonotonic");
        let loader = before("LoaderTimestampMonotonic");
        if loader > 0 {
            let firmware = firmware.saturating_sub(loader);
            let _ = writeln!(out, "{{\"firmware_ns\":{firmware},\"loader_ns\":{loader}}}");
        }
    }
    let began = |block: &BTreeMap<&str, &str>| {
        let active = ns(block, "ActiveEnterTimestampMonotonic");
        ns(block, "InactiveExitTimestampMonotonic").or(active)
    };
    let units: Vec<_> =
        blocks.iter().filter_map(|block| Some((*block.get("Id")?, block, began(block)?))).collect();
    let known: BTreeSet<&str> = units.iter().map(|(id, ..)| *id).collect();
    for (id, block, began) in units {
        let number = |value: Option<u64>| value.map_or("null".into(), |value| value.to_string());
        let names = |key: &str| {
            let all = block.get(key).copied().unwrap_or("").split_whitespace();
            all.filter(|one| known.contains(one)).map(quoted).collect::<Vec<_>>().join(",")
        };
        let process = block.get("ExecMainPID").and_then(|text| text.parse().ok());
        let _ = writeln!(
            out,
            "{{\"unit\":{},\"state\":{},\"activating_ns\":{began},\"active_ns\":{},\"main\":{},\
             \"main_start_ns\":{},\"after\":[{}],\"required_by\":[{}]}}",
            quoted(id),
            quoted(block.get("ActiveState").copied().unwrap_or("")),
            number(ns(block, "ActiveEnterTimestampMonotonic")),
            number(process.filter(|&pid: &u64| pid > 0)),
            number(ns(block, "ExecMainStartTimestampMonotonic")),
            names("After"),
            names("RequiredBy")
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = "FirmwareTimestampMonotonic=900\nLoaderTimestampMonotonic=400\n\
        InitRDTimestampMonotonic=0\nUserspaceTimestampMonotonic=5\n\n\
        Id=a.service\nActiveState=active\nInactiveExitTimestampMonotonic=7\n\
        ActiveEnterTimestampMonotonic=9\nExecMainPID=12\nExecMainStartTimestampMonotonic=8\n\
        After=b.target never.mount\nRequiredBy=b.target\n\n\
        Id=b.target\nActiveState=active\nInactiveExitTimestampMonotonic=6\n\
        ActiveEnterTimestampMonotonic=6\n\n\
        Id=never.mount\nActiveState=inactive\nInactiveExitTimestampMonotonic=0\n";

    #[test]
    fn units_that_were_started_become_lines() {
        let told = lines(ANSWER);
        let expected = concat!(
            "{\"milestone\":\"systemd\",\"at_ns\":5000}\n",
            "{\"firmware_ns\":500000,\"loader_ns\":400000}\n",
            "{\"unit\":\"a.service\",\"state\":\"active\",\"activating_ns\":7000,",
            "\"active_ns\":9000,\"main\":12,\"main_start_ns\":8000,\"after\":[\"b.target\"],",
            "\"required_by\":[\"b.target\"]}\n",
            "{\"unit\":\"b.target\",\"state\":\"active\",\"activating_ns\":6000,",
            "\"active_ns\":6000,\"main\":null,\"main_start_ns\":null,\"after\":[],",
            "\"required_by\":[]}\n",
        );
        assert_eq!(told, expected);
        assert_eq!(lines(""), "");
        assert_eq!(lines("Id=x\nInactiveExitTimestampMonotonic=99999999999999999999\n"), "");
    }
}
