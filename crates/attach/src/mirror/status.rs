//! What a mirror at rest is, from its superblocks.

use mirror::DEVICES;
use mirror::format::Superblock;
use mirror::format::superblock::Membership;
use mirror::policy::Rules;
use mirror::policy::fresh::{Standing, standing};
use serde::Serialize;
use study::Failure;

use super::device::{Access, PAGE};
use super::{NAMES, Paths, open};

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
    /// Why they would not start together, such as a split brain.
    pub trouble: Option<String>,
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

/// Has the one by another device seen a newer superblock in its place?
fn is_older(own: &Superblock, by: &Superblock) -> bool {
    let other = by.array == own.array && by.device != own.device;
    other && standing(&Rules::new(own.mode), own, by) == Standing::Older
}

/// Read what the devices say; nothing is changed.
///
/// # Errors
/// When a device cannot be opened, or none is a mirror's.
pub fn status(paths: &Paths, without: [bool; DEVICES]) -> Result<Offline, Failure> {
    let found = open::look(paths, without, Access::Look, &super::media::Asked::default())?;
    let valid = || found.iter().flatten().filter_map(|(_, found)| found.as_ref().ok());
    // Of one start, whoever was left out has not heard of it.
    let left_out = |own: &Superblock| {
        let says_so = |by: &Superblock| by.members[usize::from(own.device)] == Membership::Out;
        valid().any(|by| by.array == own.array && by.incarnation == own.incarnation && says_so(by))
    };
    let knows_most = |own: &&Superblock| (own.incarnation, !left_out(own));
    let Some(newest) = valid().max_by_key(knows_most) else {
        return Err(Failure::input("none of these is a device of a mirror")
            .help("make one: blocklab mirror create --help"));
    };
    let mut devices = Vec::new();
    for (slot, path) in paths.each() {
        let Some((_, found)) = &found[slot] else { continue };
        // A medium that has just taken the place of another says of no generation.
        let is_new = found.as_ref().is_ok_and(|own| own.generations.current == 0);
        let membership = match newest.members[slot] {
            Membership::Member if is_new => "out",
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
            Ok(own) if valid().any(|by| is_older(own, by)) => {
                Some("it is an older copy of itself, or was replaced".into())
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
    let (clean, newest) = (valid().all(|superblock| superblock.clean), newest.clone());
    let trouble = open::refusal(paths, found);
    Ok(Offline {
        array: format!("{:032x}", newest.array),
        bytes: newest.geometry.blocks * PAGE,
        mode: newest.mode.to_string(),
        clean,
        starts: newest.incarnation - 1,
        devices,
        trouble,
    })
}
