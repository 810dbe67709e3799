//! What a mirror is: from its superblocks, or from the process that serves it.

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::Path;

use mirror::core::State;
use mirror::format::superblock::Membership;
use mirror::{DEVICES, LEGS};
use serde::Serialize;
use study::Failure;

use super::device::{Access, PAGE};
use super::engine::Array;
use super::{NAMES, Paths, open};
use crate::clock::Wall;

/// A mirror at rest, as its devices describe it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Offline {
    /// Its id.
    pub array: String,
    /// Bytes offered to the host.
    pub bytes: u64,
    /// `strict`, `log` or `relaxed`.
    pub mode: String,
    /// Every device that was asked and is there stopped in order.
    pub clean: bool,
    /// Starts so far, as the device that knows most of them counts.
    pub starts: u64,
    /// Each device that was asked.
    pub devices: Vec<DeviceStatus>,
}

/// What one device says of itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct DeviceStatus {
    /// `fast`, `slow` or `witness`, as it was named.
    pub name: String,
    /// Where it is.
    pub path: String,
    /// What is wrong with it, if it is no device of this mirror.
    pub trouble: Option<String>,
    /// What the device that knows most says of it: `never`, `member` or `out`.
    pub membership: String,
    /// It stopped in order.
    pub clean: bool,
    /// Starts it has seen.
    pub starts: u64,
}

/// A mirror that is served.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Live {
    /// `strict`, `log` or `relaxed`.
    pub mode: String,
    /// What each device is now: `never`, `member`, `leaving`, `out`, `filling` or `joining`.
    pub states: [String; DEVICES],
    /// Bytes acknowledged that are in one failure domain only.
    pub bytes_at_risk: u64,
    /// Age of the oldest of them in milliseconds.
    pub age_at_risk_ms: Option<f64>,
    /// Bytes that each leg lacks, in whole regions.
    pub out_of_sync_bytes: [u64; LEGS],
    /// Freezes that were seen since the start.
    pub freezes: u64,
    /// Writes acknowledged before the second copy was there.
    pub early_acks: u64,
    /// Log records written.
    pub log_records: u64,
    /// Times a device was left out.
    pub drops: u64,
    /// Times a leg became a full member again.
    pub joins: u64,
    /// Bytes copied to fill or repair a leg.
    pub copied_bytes: u64,
    /// Wrong copies found.
    pub mismatches: u64,
}

impl Live {
    pub(super) fn of(array: &Array, now: Wall) -> Live {
        let core = array.core();
        let (blocks, since) = core.exposed();
        let stats = core.stats();
        let region = array.region_bytes();
        let latest = array.latest().0.max(now.0);
        let state = |state: State| match state {
            State::Never => "never",
            State::Member => "member",
            State::Leaving => "leaving",
            State::Out => "out",
            State::Filling => "filling",
            State::Joining => "joining",
        };
        Live {
            mode: core.mode().to_string(),
            states: core.states().map(|it| state(it).to_string()),
            bytes_at_risk: blocks * PAGE,
            age_at_risk_ms: since.map(|since| latest.saturating_sub(since.0) as f64 / 1e6),
            out_of_sync_bytes: core.out_of_sync().map(|regions| regions * region),
            freezes: stats.freezes,
            early_acks: stats.early_acks,
            log_records: stats.records,
            drops: stats.drops,
            joins: stats.joins,
            copied_bytes: stats.copied_blocks * PAGE,
            mismatches: stats.mismatches,
        }
    }
}

/// Read what the devices say; nothing is changed.
///
/// # Errors
/// When a device cannot be opened, or none is a mirror's.
pub fn status(paths: &Paths, without: [bool; DEVICES]) -> Result<Offline, Failure> {
    let found = open::look(paths, without, Access::Look)?;
    let valid = || found.iter().flatten().filter_map(|(_, found)| found.as_ref().ok());
    let Some(newest) = valid().max_by_key(|superblock| superblock.incarnation) else {
        return Err(Failure::input("none of these is a device of a mirror")
            .help("make one: blocklab mirror create --help"));
    };
    let mut devices = Vec::new();
    for (slot, path) in paths.each() {
        let Some((_, found)) = &found[slot] else { continue };
        let membership = match newest.members[slot] {
            Membership::Never => "never",
            Membership::Member => "member",
            Membership::Out => "out",
        };
        let trouble = match found {
            Err(damages) => damages.first().map(ToString::to_string),
            Ok(own) if own.array != newest.array => {
                Some(format!("it belongs to mirror {:032x}", own.array))
            }
            Ok(own) if usize::from(own.device) != slot => {
                Some(format!("it is the {}", NAMES[usize::from(own.device)]))
            }
            Ok(_) => None,
        };
        let own = found.as_ref().ok();
        devices.push(DeviceStatus {
            name: NAMES[slot].into(),
            path: path.display().to_string(),
            trouble,
            membership: membership.into(),
            clean: own.is_some_and(|own| own.clean),
            starts: own.map_or(0, |own| own.incarnation - 1),
        });
    }
    Ok(Offline {
        array: format!("{:032x}", newest.array),
        bytes: newest.geometry.blocks * PAGE,
        mode: newest.mode.to_string(),
        clean: valid().all(|superblock| superblock.clean),
        starts: newest.incarnation - 1,
        devices,
    })
}

/// Ask the process that serves a mirror with the control socket `path`: one line of JSON.
///
/// # Errors
/// When nobody answers there.
pub fn ask(path: &Path) -> Result<String, Failure> {
    let shown = path.display();
    let stream = UnixStream::connect(path).map_err(|why| {
        Failure::input(format!("no mirror is served with {shown}: {why}"))
            .help("blocklab mirror serve --control PATH")
    })?;
    let mut line = String::new();
    BufReader::new(stream)
        .read_line(&mut line)
        .map_err(|why| Failure::machine(format!("{shown} does not answer: {why}")))?;
    Ok(line.trim_end().to_string())
}
