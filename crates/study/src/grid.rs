//! The grid: devices x workloads x sweep axes x repeats, each point with every value in place.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Serialize;

use config::bounded::TEXT_BYTES_MAX;
use config::{Failure, names};
use models::registry::{DeviceModel, WorkloadModel};

use crate::axis_value::AxisValue;
use crate::block::{BLOCK, Block};
use crate::document::Point;
use crate::elevator;
use crate::files::{Files, read_text};
use crate::library;
use crate::load::{Loaded, unreadable};
use crate::locate;
use crate::tree::{Data, Node, Text, other_choice};
use crate::within;

/// More runs than this are a mistake, and their plan alone would fill the memory.
const RUNS_MAX: usize = 100_000;

/// An axis of the grid and its values, in the order of the document.
#[derive(Debug)]
pub(crate) struct Axis {
    pub(crate) name: String,
    values: Vec<(AxisValue, Node)>,
}

impl Axis {
    pub(crate) fn values(&self) -> impl Iterator<Item = &AxisValue> {
        self.values.iter().map(|(value, _)| value)
    }

    fn path(&self) -> Vec<String> {
        self.name.split('.').map(String::from).collect()
    }
}

/// The part a device was built from.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Part {
    /// Its name or path.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// How far it can be trusted: sketch, datasheet, calibrated or validated.
    pub status: String,
}

impl Part {
    /// Both, where a device is made of several.
    fn and(self, other: Part) -> Part {
        let both = |a: String, b: String| if a == b { a } else { format!("{a} + {b}") };
        Part {
            name: both(self.name, other.name),
            title: both(self.title, other.title),
            status: both(self.status, other.status),
        }
    }
}

/// One point of the grid.
#[derive(Debug)]
pub(crate) struct GridPoint {
    /// (axis, value) in the order of the axes, `repeat` not included.
    pub(crate) params: Vec<(String, AxisValue)>,
    pub(crate) repeat: u32,
    pub(crate) point: Point,
    pub(crate) part: Option<Part>,
    /// How its device presents itself to a guest.
    pub(crate) block: Block,
    /// The merged document the point was read from, to find places for later errors.
    pub(crate) tree: Node,
}

/// The axes of a study.
pub(crate) fn axes(loaded: &Loaded) -> Result<Vec<Axis>, Failure> {
    let mut axes = Vec::new();
    for (one, models) in [("device", DeviceModel::NAMES), ("workload", WorkloadModel::NAMES)] {
        let several = format!("{one}s");
        let travels = loaded.tree.get("travel").filter(|_| one == "workload");
        match (loaded.tree.get(one), loaded.tree.get(&several)) {
            (None, None) if travels.is_some() => {}
            (Some(also), _) | (_, Some(also)) if travels.is_some() => {
                let what = format!("[{one}] and [travel] exclude each other");
                return Err(Failure::input(what)
                    .at(also.key.place())
                    .expected("one of the two: what asks for data is simulated or travels"));
            }
            (None, None) => {
                return Err(Failure::input(format!("the study has no [{one}.<model>] table"))
                    .at(loaded.tree.key.place())
                    .expected(format!("[{one}.<model>] with one of {}", models.join(", "))));
            }
            (Some(single), Some(_)) => {
                return Err(Failure::input(format!("[{one}] and [{several}] exclude each other"))
                    .at(single.key.place()));
            }
            (Some(_), None) => {}
            (None, Some(table)) => axes.push(Axis {
                name: one.to_string(),
                values: table.entries().iter().map(labelled).collect(),
            }),
        }
    }
    for (name, node) in loaded.tree.get("sweep").map(Node::entries).unwrap_or_default() {
        let Data::Array(list) = &node.data else { continue };
        let value = |value: &Node| {
            // An unknown key is the axis name's fault, not its value's.
            let at_axis = Node { key: node.key.clone(), ..value.clone() };
            (AxisValue(value.to_value()), at_axis)
        };
        axes.push(Axis { name: name.clone(), values: list.iter().map(value).collect() });
    }
    for axis in &axes {
        let labels: Vec<String> = axis.values.iter().map(|(value, _)| value.label()).collect();
        let mut known = BTreeSet::new();
        let twice = labels.iter().position(|label| !known.insert(label));
        if let Some(index) = twice {
            let what = format!("the axis `{}` has the value {} twice", axis.name, labels[index]);
            return Err(Failure::input(what)
                .at(axis.values[index].1.value.place())
                .expected("each value once; [study] repeats runs each point again"));
        }
    }
    match axes.iter().find(|axis| axis.values.is_empty()) {
        Some(axis) => {
            let failure = Failure::input(format!("the axis `{}` has no values", axis.name))
                .expected("at least one value, such as [1, 2]")
                .help("leave the axis out, or give it values");
            let several = format!("{}s", axis.name);
            let path = ["sweep".to_string(), axis.name.clone()];
            let at = locate::place_of(&loaded.tree, &path[..])
                .filter(|_| loaded.tree.find(&path).depth == 2)
                .or_else(|| Some(loaded.tree.get(&several)?.key.place()));
            Err(Failure { place: at, ..failure })
        }
        None => Ok(axes),
    }
}

fn labelled((label, node): &(String, Node)) -> (AxisValue, Node) {
    (AxisValue(label.clone().into()), node.clone())
}

/// Every point, the last axis turning fastest.
pub(crate) fn points(
    loaded: &Loaded,
    axes: &[Axis],
    files: &Files,
) -> Result<Vec<GridPoint>, Failure> {
    let mut base = loaded.tree.clone();
    for outline in ["sweep", "expect", "claim", "report", "devices", "workloads"] {
        base.take(outline);
    }
    let count = axes.iter().fold(1, |count: usize, axis| count.saturating_mul(axis.values.len()));
    if count > RUNS_MAX {
        return Err(too_many(count));
    }
    let mut points = Vec::new();
    for number in 0..count {
        let mut rest = number;
        let mut choice: Vec<_> = axes
            .iter()
            .rev()
            .map(|axis| {
                let index = rest % axis.values.len();
                rest /= axis.values.len();
                (axis, index)
            })
            .collect();
        choice.reverse();
        let (tree, part, block) = resolve(loaded, &base, &choice, files)?;
        let point: Point = locate::read(&tree)?;
        let params = choice.iter().map(|(axis, i)| (axis.name.clone(), axis.values[*i].0.clone()));
        let params: Vec<_> = params.collect();
        let repeats = point.study.repeats;
        if repeats == 0 {
            let failure = Failure::input("no repeat is no run").expected("at least 1");
            let place = locate::place_of(&tree, &["study".to_string(), "repeats".to_string()]);
            return Err(Failure { place, ..failure });
        }
        if points.len() + repeats as usize > RUNS_MAX {
            return Err(too_many(points.len() + repeats as usize));
        }
        for repeat in 0..repeats {
            points.push(GridPoint {
                params: params.clone(),
                repeat,
                point: point.clone(),
                part: part.clone(),
                block: block.clone(),
                tree: tree.clone(),
            });
        }
    }
    Ok(points)
}

fn too_many(runs: usize) -> Failure {
    Failure::input(format!("the study has {runs} runs or more"))
        .expected(format!("at most {RUNS_MAX}: the points of its axes times its repeats"))
}

/// The document of one point.
fn resolve(
    loaded: &Loaded,
    base: &Node,
    choice: &[(&Axis, usize)],
    files: &Files,
) -> Result<(Node, Option<Part>, Block), Failure> {
    let mut tree = base.clone();
    let (chosen, swept): (Vec<_>, Vec<_>) =
        choice.iter().partition(|(axis, _)| ["device", "workload"].contains(&axis.name.as_str()));
    for (axis, index) in chosen {
        tree.put(&axis.name, axis.values[index].1.clone());
    }
    for (path, value) in &loaded.late {
        if within::holds(&tree, path) {
            tree.assign(path, value.clone());
        }
    }
    let mut swept: Vec<_> =
        swept.into_iter().map(|(axis, index)| (axis.path(), axis, index)).collect();
    check_nested(&swept)?;
    // What is chosen before what it is chosen with, in whatever order the document has them.
    swept.sort_by_key(|(path, ..)| path.len());
    for (path, axis, index) in &swept {
        check_model(&tree, path, axis, choice)?;
        tree.choose(path, axis.values[*index].1.clone());
    }
    check_all_hold(&tree, &swept)?;
    loaded.within.iter().for_each(|setting| setting.lay_over(&mut tree));
    let block = block_of(&tree, files)?;
    let part = lay_part_under(&mut tree, files)?;
    lay_elevator_before(&mut tree)?;
    Ok((tree, part, block))
}

/// An axis below another one says nothing of a point where that one chooses something else: laid
/// over it, it would choose anew, and the run would be of another policy than its label says.
fn check_nested(swept: &[(Vec<String>, &Axis, usize)]) -> Result<(), Failure> {
    let pairs = swept.iter().flat_map(|above| swept.iter().map(move |axis| (above, axis)));
    for ((above, chooser, index), (path, axis, _)) in pairs {
        let Some(below @ [_, ..]) = path.strip_prefix(&above[..]) else { continue };
        let key = above.last().map_or("", String::as_str);
        let found = other_choice(key, &chooser.values[*index].1, below);
        let Some((name, other)) = found else { continue };
        let (axis_name, above) = (&axis.name, &chooser.name);
        let what = format!(
            "the axis `{axis_name}` belongs to `{name}`, but the axis `{above}` chooses `{other}`"
        );
        let help = match below {
            [_, key] => {
                let value = axis.values.first().map_or(String::new(), |(value, _)| value.label());
                let table = format!("{{ {name} = {{ {key} = {value} }} }}");
                format!("sweep both with one axis: {above} = [..., {table}]")
            }
            _ => format!("sweep both with one axis: the values of `{above}` may be tables"),
        };
        return Err(Failure::input(what)
            .at(axis.values[0].1.key.place())
            .expected(format!("`{name}` in every value of `{above}`"))
            .help(help));
    }
    Ok(())
}

/// Two axes below different names of one choice: the later one has replaced the other's.
fn check_all_hold(tree: &Node, swept: &[(Vec<String>, &Axis, usize)]) -> Result<(), Failure> {
    for (path, axis, _) in swept {
        let depth = tree.find(path).depth;
        if depth == path.len() {
            continue;
        }
        let mut others = swept.iter().filter(|(other, ..)| other[..] != path[..]);
        let other =
            others.find(|(other, ..)| other.len() >= depth && other[..depth] == path[..depth]);
        let other = other.map_or("another one", |(_, other, _)| &other.name);
        let what = format!("the axes `{}` and `{other}` are of different choices", axis.name);
        return Err(Failure::input(what)
            .at(axis.values[0].1.key.place())
            .expected(format!("one choice of `{}` at a time", path[..depth].join(".")))
            .help("sweep one of the two, or the choice itself with tables as its values"));
    }
    Ok(())
}

/// An axis about one model says nothing of a point whose device is another one.
fn check_model(
    tree: &Node,
    path: &[String],
    axis: &Axis,
    choice: &[(&Axis, usize)],
) -> Result<(), Failure> {
    let [one, model, ..] = path else { return Ok(()) };
    let Some((labelled, index)) = choice.iter().find(|(other, _)| other.name == *one) else {
        return Ok(());
    };
    let entries = tree.get(one).map(Node::entries).unwrap_or_default();
    let models = if one == "device" { DeviceModel::NAMES } else { WorkloadModel::NAMES };
    let known = |name: &str| models.contains(&name);
    let other = match entries {
        [(other, _)] if known(other) && known(model) && other != model => other,
        _ => return Ok(()),
    };
    let label = labelled.values[*index].0.label();
    let what =
        format!("the axis `{}` belongs to `{model}`, but `{label}` is of `{other}`", axis.name);
    Err(Failure::input(what)
        .at(axis.values[0].1.key.place())
        .expected(format!("an axis that every {one} has"))
        .help(format!("ask about `{label}` in a study of its own, or leave the axis out")))
}

/// The elevator that `travel.elevator` names, or has a table of, stands before the device. It takes
/// every bio that a guest can have on its way, as behind `blocklab travel --elevator`.
fn lay_elevator_before(tree: &mut Node) -> Result<(), Failure> {
    let Some(wanted) = tree.get("travel").and_then(|travel| travel.get("elevator")) else {
        return Ok(());
    };
    let (wanted, value) = (wanted.clone(), wanted.to_value());
    let origin = wanted.value.clone();
    let (policy, choice) = match (value.as_str(), wanted.entries()) {
        (Some(name), _) => {
            elevator::check(name).map_err(|failure| failure.at(origin.place()))?;
            (name, elevator::named(name, &origin))
        }
        (None, [(name, _), ..]) => (&**name, wanted.clone()),
        // Refused where the table is read.
        (None, []) => return Ok(()),
    };
    if tree.get("device").is_some_and(|device| device.get("elevator").is_some()) {
        return Err(Failure::input(format!("travel.elevator: {policy} before an elevator"))
            .at(origin.place())
            .expected("one of the two: a device without one, or no travel.elevator"));
    }
    elevator::put_before_device(tree, choice);
    // From here on the device has its parameters.
    let path = ["travel", "elevator"].map(String::from);
    tree.assign(&path, Node::string(origin.clone(), policy));
    let data = Data::Leaf(i64::from(elevator::BIOS_MAX).into());
    let room = Node { key: origin.clone(), value: origin, data };
    let path = ["device", "elevator", "queue_depth_max"].map(String::from);
    tree.assign(&path, room);
    Ok(())
}

/// How the device presents itself to a guest, if that is what there is: as its part says. What the
/// parts say that it is made of is not told to anybody.
fn block_of(tree: &Node, files: &Files) -> Result<Block, Failure> {
    let part = |(_, table): &(String, Node)| table.get("part").map(Node::to_value);
    let device = tree.get("travel").and_then(|_| tree.get("device"));
    let named = device.and_then(|device| device.entries().iter().find_map(part));
    let Some(name) = named.as_ref().and_then(|name| name.as_str()) else {
        return Ok(Block::default());
    };
    // What is wrong with the part itself is told, with its place, where it is laid under.
    let Ok(text) = part_text(name, files) else { return Ok(Block::default()) };
    let (part, _) = parse_part(name, &text)?;
    match part.get(BLOCK) {
        Some(_) => locate::read_below(&part, &[BLOCK.to_string()]),
        None => Ok(Block::default()),
    }
}

/// Replace a device's `part = "..."` by the part's own keys, below the device's; the same in the
/// tables of the devices that it is made of.
fn lay_part_under(tree: &mut Node, files: &Files) -> Result<Option<Part>, Failure> {
    let Some(mut device) = tree.take("device") else { return Ok(None) };
    let mut parts = Vec::new();
    lay_parts(&mut device, files, &mut Vec::new(), &mut parts)?;
    tree.put("device", device);
    Ok(parts.into_iter().reduce(Part::and))
}

/// `within` names the parts that this table came from.
pub(crate) fn lay_parts(
    table: &mut Node,
    files: &Files,
    within: &mut Vec<String>,
    parts: &mut Vec<Part>,
) -> Result<(), Failure> {
    let keys: Vec<String> = table.entries().iter().map(|(key, _)| key.clone()).collect();
    for key in keys {
        let Some(mut node) = table.take(&key) else { continue };
        let depth = within.len();
        let is_model = DeviceModel::NAMES.contains(&key.as_str());
        if let Some(name) = is_model.then(|| node.take("part")).flatten() {
            let (mut merged, part) = read_part(&name, &key, files)?;
            if within.contains(&part.name) {
                let message = format!("the part `{}` contains itself", part.name);
                return Err(Failure::input(message)
                    .at(name.value.place())
                    .expected("legs that are other devices"));
            }
            merged.overlay(node);
            node = merged;
            within.push(part.name.clone());
            parts.push(part);
        }
        lay_parts(&mut node, files, within, parts)?;
        within.truncate(depth);
        table.put(&key, node);
    }
    Ok(())
}

/// The model's table of the part that `name` names, and what the part says about itself.
fn read_part(name: &Node, model: &str, files: &Files) -> Result<(Node, Part), Failure> {
    let value = name.to_value();
    let Some(wanted) = value.as_str() else {
        return Err(Failure::input("a part is named by a string").at(name.value.place()));
    };
    let text = part_text(wanted, files).map_err(|failure| failure.at(name.value.place()))?;
    let (mut tree, part) = parse_part(wanted, &text)?;
    if let Some(table) = tree.take(model) {
        return Ok((table, part));
    }
    let known = |key: &&str| DeviceModel::NAMES.contains(key);
    let other = tree.entries().iter().map(|(key, _)| key.as_str()).find(known);
    let described = other.map_or("no device".to_string(), |other| format!("a device.{other}"));
    Err(Failure::input(format!("the part `{wanted}` describes {described}, not a device.{model}"))
        .at(name.value.place()))
}

/// The text of the part `wanted`: a path, or the name of a shipped one.
pub(crate) fn part_text(wanted: &str, files: &Files) -> Result<Arc<Text>, Failure> {
    if library::is_path(wanted) {
        let path = files.locate(wanted);
        let read = path.and_then(|path| Ok((read_text(&path, TEXT_BYTES_MAX)?, path)));
        let (text, path) = read.map_err(|error| unreadable("part", wanted.as_ref(), &error))?;
        return Ok(Text::new(path, text));
    }
    match library::find(library::parts(), wanted) {
        Some(text) => Ok(Text::new(format!("devices/{wanted}.toml"), text)),
        None => {
            let parts = library::parts().iter().map(|(part, _)| *part);
            Err(Failure::input(format!("there is no part named `{wanted}`"))
                .expected(names::expected(wanted, parts)))
        }
    }
}

/// A part's tables, and what it says about itself.
pub(crate) fn parse_part(wanted: &str, text: &Arc<Text>) -> Result<(Node, Part), Failure> {
    let tree = Node::parse(text)?;
    let entry = |key: &str| {
        let value = tree.find(&["part".to_string(), key.to_string()]);
        let text = value.node.to_value();
        text.as_str().filter(|_| value.depth == 2).unwrap_or_default().to_string()
    };
    let part = Part { name: wanted.to_string(), title: entry("title"), status: entry("status") };
    Ok((tree, part))
}
