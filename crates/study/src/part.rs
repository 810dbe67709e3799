//! One part as a device, without a study around it.

use std::path::Path;

use config::{Failure, names};
use models::registry::DeviceModel;
use sim::{Device, Rng};

use crate::block::Block;
use crate::digest;
use crate::files::Files;
use crate::grid::{self, Part, parse_part, part_text};
use crate::library::CODE_VERSION;
use crate::load::parse_set;
use crate::locate;
use crate::tree::{Node, Origin};

/// A device built from a part.
pub struct BuiltPart {
    /// The device, as it comes out of the box.
    pub device: Box<dyn Device>,
    /// The model's name, such as `ssd`.
    pub model: String,
    /// What the part says about itself.
    pub part: Part,
    /// How it presents itself to a host.
    pub block: Block,
    /// Digest of everything the device depends on; a saved state fits a device of equal digest.
    pub digest: String,
}

/// The table of what a part tells the block layer.
const BLOCK: &str = "block";

/// Build the part `name` (a path, or the name of a shipped one) with `sets` laid over it:
/// `ssd.gc=greedy`, `block.serial=A1`, or `device.ssd.gc=greedy` as in a study. It is the very
/// device that a study of that seed builds.
///
/// # Errors
/// What is wrong with the part or a setting, with its place.
pub fn build_part(name: &str, sets: &[String], seed: u64) -> Result<BuiltPart, Failure> {
    let text = part_text(name, &Files::new(Path::new("")))
        .map_err(|failure| failure.help("blocklab list parts"))?;
    let (mut tree, part) = parse_part(name, &text)?;
    let origin = Origin { text: text.clone(), span: 0..0 };
    let known = |key: &&str| DeviceModel::NAMES.contains(key);
    let Some(model) = tree.entries().iter().map(|(key, _)| key.as_str()).find(known) else {
        return Err(Failure::input(format!("`{name}` describes no device"))
            .expected(format!("a table of {}", DeviceModel::NAMES.join(", ")))
            .help("a study is run by `blocklab run`; a part starts with `blocklab new part`"));
    };
    let model = model.to_string();
    let table = tree.take(&model).unwrap_or_else(|| Node::table(origin.clone()));
    let mut device = Node::table(origin.clone());
    device.put(&model, table);
    let mut root = Node::table(origin);
    root.put("device", device);
    let block = tree.take(BLOCK).unwrap_or_else(|| Node::table(root.value.clone()));
    root.put(BLOCK, block);
    for set in sets {
        let (mut path, value) = parse_set(set)?;
        if path[0] == BLOCK {
            root.assign(&path, value);
            continue;
        }
        if path[0] != "device" {
            path.insert(0, "device".into());
        }
        if path.get(1) != Some(&model) {
            let wrong = path.get(1).map_or("", String::as_str);
            return Err(Failure::input(format!("--set {set}: the part is no `{wrong}`"))
                .expected(names::expected(wrong, [model.as_str()])));
        }
        root.assign(&path, value);
    }
    if let Some(mut device) = root.take("device") {
        // Its legs, if it is made of others.
        let files = Files::new(Path::new(""));
        grid::lay_parts(&mut device, &files, &mut vec![name.to_string()], &mut Vec::new())?;
        root.put("device", device);
    }
    let choice: DeviceModel = locate::read_below(&root, &["device".to_string()])?;
    let rng = Rng::new(seed, "repeat 0");
    let context = config::device::Context { rng: rng.split("device") };
    let device = choice
        .build(&context)
        .map_err(|error| locate::config_failure(&root, &["device", &model], &error))?;
    let block: Block = locate::read_below(&root, &[BLOCK.to_string()])?;
    block
        .check(device.limits().capacity)
        .map_err(|error| locate::config_failure(&root, &[BLOCK], &error))?;
    let json = serde_json::json!({ "code": CODE_VERSION, "device": choice, "seed": seed });
    Ok(BuiltPart { device, model, part, block, digest: digest::of(&json) })
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
    fn wrong_names_are_explained() {
        let error = |name: &str, sets: &[&str]| {
            let sets: Vec<String> = sets.iter().map(|s| (*s).to_string()).collect();
            build_part(name, &sets, 1).err().expect("it is refused").to_string()
        };
        assert!(error("mqsim-g", &[]).contains("did you mean `mqsim-f`?"));
        assert!(error("mqsim-f", &["ssd.gcc=fifo"]).contains("did you mean `gc`?"));
        assert!(error("mqsim-f", &["hdd.rpm=1"]).contains("the part is no `hdd`"));
        assert!(error("./gone.toml", &[]).contains("cannot read the part ./gone.toml"));
    }
}
