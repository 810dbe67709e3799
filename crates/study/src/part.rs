//! One part as a device, without a study around it.

use std::path::Path;

use config::{Failure, names};
use models::registry::DeviceModel;
use sim::{Device, Rng};

use crate::block::{BLOCK, Block};
use crate::digest;
use crate::elevator::{self, ELEVATOR};
use crate::files::Files;
use crate::grid::{self, Part, parse_part, part_text};
use crate::library::CODE_VERSION;
use crate::load::parse_set;
use crate::locate;
use crate::tree::{Node, Origin, Text};

/// A device built from a part.
pub struct BuiltPart {
    /// The device, as it comes out of the box.
    pub device: Box<dyn Device>,
    /// The model's name, such as `ssd`.
    pub model: String,
    /// The policy's name, where the model is an elevator.
    pub elevator: Option<String>,
    /// What the part says about itself.
    pub part: Part,
    /// How it presents itself to a host.
    pub block: Block,
    /// Digest of everything the device depends on; a saved state fits a device of equal digest.
    pub digest: String,
}

/// The model of the device that the part `name` (a path, or the name of a shipped one) describes.
///
/// # Errors
/// When there is no such part, or it describes no device.
pub fn model_of(name: &str) -> Result<String, Failure> {
    let text = part_text(name, &Files::new(Path::new("")))
        .map_err(|failure| failure.help("blocklab list parts"))?;
    described(name, &parse_part(name, &text)?.0)
}

/// The text of the part `name` (a path, or the name of a shipped one).
///
/// # Errors
/// When there is no such part.
pub fn part_source(name: &str) -> Result<String, Failure> {
    let text = part_text(name, &Files::new(Path::new("")))
        .map_err(|failure| failure.help("blocklab list parts"))?;
    Ok(text.text.clone())
}

/// The model of the device that a part's tables describe.
fn described(name: &str, tree: &Node) -> Result<String, Failure> {
    locate::model_in(tree).map(str::to_string).ok_or_else(|| {
        Failure::input(format!("`{name}` describes no device"))
            .expected(format!("a table of {}", DeviceModel::NAMES.join(", ")))
            .help("a study is run by `blocklab run`; a part starts with `blocklab new part`")
    })
}

/// Build the part `name` (a path, or the name of a shipped one) with `sets` laid over it:
/// `ssd.gc=greedy`, `block.serial=A1`, or `device.ssd.gc=greedy` as in a study. It is the very
/// device that a study of that seed builds.
///
/// # Errors
/// What is wrong with the part or a setting, with its place.
pub fn build_part(name: &str, sets: &[String], seed: u64) -> Result<BuiltPart, Failure> {
    build_part_behind(None, name, sets, seed)
}

/// The same behind an elevator of this policy, to which `elevator.policy.cfq.quantum=8` and
/// `elevator.nr_requests=64` belong.
///
/// # Errors
/// The same; and when there is no such policy, or the part is an elevator.
pub fn build_part_behind(
    policy: Option<&str>,
    name: &str,
    sets: &[String],
    seed: u64,
) -> Result<BuiltPart, Failure> {
    policy.map_or(Ok(()), elevator::check)?;
    let text = part_text(name, &Files::new(Path::new("")))
        .map_err(|failure| failure.help("blocklab list parts"))?;
    let (mut tree, part) = parse_part(name, &text)?;
    let origin = Origin { text: text.clone(), span: 0..0 };
    let model = described(name, &tree)?;
    if policy.is_some() && model == ELEVATOR {
        return Err(Failure::input(format!("--elevator: `{name}` is an elevator already"))
            .expected("a part without one")
            .help("leave --elevator out, or name the part below it"));
    }
    let table = tree.take(&model).unwrap_or_else(|| Node::table(origin.clone()));
    let mut device = Node::table(origin.clone());
    device.put(&model, table);
    let mut root = Node::table(origin);
    root.put("device", device);
    if let Some(policy) = policy {
        let origin = Origin { text: Text::new("--elevator", policy), span: 0..policy.len() };
        elevator::put_before_device(&mut root, elevator::named(policy, &origin));
    }
    let block = tree.take(BLOCK).unwrap_or_else(|| Node::table(root.value.clone()));
    root.put(BLOCK, block);
    lay_sets(&mut root, name, sets, &model, policy.is_some())?;
    if let Some(mut device) = root.take("device") {
        // Its legs, if it is made of others.
        let files = Files::new(Path::new(""));
        grid::lay_parts(&mut device, &files, &mut vec![name.to_string()], &mut Vec::new())?;
        root.put("device", device);
    }
    let choice: DeviceModel = locate::read_below(&root, &["device".to_string()])?;
    let rng = Rng::new(seed, "repeat 0");
    let context = config::device::Context { rng: rng.split("device") };
    let model = choice.name().to_string();
    let device = choice
        .build(&context)
        .map_err(|error| locate::config_failure(&root, &["device", &model], &error))?;
    let block: Block = locate::read_below(&root, &[BLOCK.to_string()])?;
    block
        .check(device.limits().capacity)
        .map_err(|error| locate::config_failure(&root, &[BLOCK], &error))?;
    let json = serde_json::json!({ "code": CODE_VERSION, "device": choice, "seed": seed });
    let elevator = elevator_of(&choice);
    Ok(BuiltPart { device, model, elevator, part, block, digest: digest::of(&json) })
}

/// The policy's name, where the device is an elevator.
pub fn elevator_of(device: &DeviceModel) -> Option<String> {
    match device {
        DeviceModel::Elevator(params) => Some(params.policy.name().to_string()),
        _ => None,
    }
}

/// Of the part called `part`: a session has several.
fn lay_sets(
    root: &mut Node,
    part: &str,
    sets: &[String],
    model: &str,
    behind: bool,
) -> Result<(), Failure> {
    let known = [model].into_iter().chain(behind.then_some(ELEVATOR));
    for set in sets {
        let (mut path, value) = parse_set(set)?;
        if path[0] == BLOCK {
            root.assign(&path, value);
            continue;
        }
        if path[0] != "device" {
            path.insert(0, "device".into());
        }
        let named = path.get(1).map_or("", String::as_str);
        if !known.clone().any(|name| name == named) {
            return Err(Failure::input(format!("--set {set}: the part `{part}` is no `{named}`"))
                .expected(names::expected(named, known)));
        }
        if behind && named == model {
            path.splice(0..0, ["device".into(), ELEVATOR.into()]);
        }
        root.assign(&path, value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shipped_part_takes_settings() {
        let plain = build_part("mqsim-f", &[], 1).unwrap();
        assert_eq!((plain.model.as_str(), plain.part.name.as_str()), ("ssd", "mqsim-f"));
        let set = |set: &str| build_part("mqsim-f", &[set.to_string()], 1);
        assert_ne!(set("ssd.gc=fifo").unwrap().digest, plain.digest);
        assert_eq!(set("device.ssd.gc=fifo").unwrap().digest, set("ssd.gc=fifo").unwrap().digest);
    }

    #[test]
    fn how_it_presents_itself_is_no_part_of_what_it_is() {
        let plain = build_part("mqsim-f", &[], 1).unwrap();
        let set = |set: &str| build_part("mqsim-f", &[set.to_string()], 1);
        let named = set("block.serial=A1").unwrap();
        assert_eq!((named.block.serial.as_deref(), &named.digest), (Some("A1"), &plain.digest));
        let error = set("block.serail=A1").err().expect("it is refused").to_string();
        assert!(error.contains("did you mean `serial`?"), "{error}");
        let error = set("block.logical_block=3KiB").err().expect("it is refused").to_string();
        assert!(error.contains("block.logical_block: 3 KiB; expected a power"), "{error}");
    }

    #[test]
    fn an_elevator_stands_before_a_part() {
        let behind = |policy, part: &str, sets: &[&str]| {
            let sets: Vec<String> = sets.iter().map(|s| (*s).to_string()).collect();
            build_part_behind(Some(policy), part, &sets, 1)
        };
        let plain = behind("cfq", "wd-80g-5400", &[]).unwrap();
        assert_eq!((plain.model.as_str(), plain.elevator.as_deref()), ("elevator", Some("cfq")));
        assert_eq!(build_part("wd-80g-5400", &[], 1).unwrap().elevator, None);
        let changed = |set: &str| behind("cfq", "wd-80g-5400", &[set]).unwrap().digest;
        let plain = plain.digest;
        let of_policy = changed("elevator.policy.cfq.quantum=9");
        assert!(of_policy != plain && of_policy != changed("elevator.nr_requests=99"));
        // What belongs to the part is the part's, as without an elevator.
        assert_ne!(changed("hdd.rpm=7200"), plain);
        assert_eq!(changed("hdd.rpm=7200"), changed("device.hdd.rpm=7200"));
        let error = |policy, part: &str, sets: &[&str]| {
            behind(policy, part, sets).err().expect("it is refused").to_string()
        };
        assert!(error("cfk", "wd-80g-5400", &[]).contains("did you mean `cfq`?"));
        let wrong = error("cfq", "wd-80g-5400", &["elevator.policy.cfq.quantum=0"]);
        assert!(wrong.contains("quantum: expected 1 to"), "{wrong}");
        let wrong = error("cfq", "wd-80g-5400", &["elevator.policy.cfq.slice_idel='1ms'"]);
        assert!(wrong.contains("did you mean `slice_idle`?"), "{wrong}");
        let wrong = error("cfq", "wd-80g-5400", &["hdd.rpn=1"]);
        assert!(wrong.contains("did you mean `rpm`?"), "{wrong}");
        let wrong = error("cfq", "wd-80g-5400", &["elevatr.nr_requests=9"]);
        assert!(wrong.contains("the part `wd-80g-5400` is no `elevatr`"), "{wrong}");
        assert!(wrong.contains("did you mean"), "{wrong}");
        let part =
            std::env::temp_dir().join(format!("blocklab-behind-{}.toml", std::process::id()));
        std::fs::write(&part, "[elevator]\npolicy = \"noop\"\n").unwrap();
        let already = error("cfq", part.to_str().unwrap(), &[]);
        let named = build_part(part.to_str().unwrap(), &[], 1).unwrap().elevator;
        std::fs::remove_file(&part).unwrap();
        assert!(already.contains("is an elevator already"), "{already}");
        assert_eq!(named.as_deref(), Some("noop"));
    }

    #[test]
    fn wrong_names_are_explained() {
        let error = |name: &str, sets: &[&str]| {
            let sets: Vec<String> = sets.iter().map(|s| (*s).to_string()).collect();
            build_part(name, &sets, 1).err().expect("it is refused").to_string()
        };
        assert!(error("mqsim-g", &[]).contains("did you mean `mqsim-f`?"));
        assert!(error("mqsim-f", &["ssd.gcc=fifo"]).contains("did you mean `gc`?"));
        assert!(error("mqsim-f", &["hdd.rpm=1"]).contains("the part `mqsim-f` is no `hdd`"));
        assert!(error("./gone.toml", &[]).contains("cannot read the part ./gone.toml"));
    }
}
