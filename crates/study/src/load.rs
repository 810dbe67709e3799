//! Finding a study and laying `--set` over it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use config::bounded::TEXT_BYTES_MAX;
use config::{Failure, names};
use models::registry::WorkloadModel;

use crate::document::Frame;
use crate::files::read_text;
use crate::gone::Gone;
use crate::library;
use crate::locate;
use crate::own_command;
use crate::tree::{Data, Node, Origin, Text};
use crate::within::{self, Within, axis_above};

/// A study's text with everything the command line sets, not yet laid out.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// The file's stem, or the name of the shipped study.
    pub(crate) name: String,
    /// Its text, without what was set.
    pub(crate) text: Arc<Text>,
    /// Where the files it names are looked for first.
    pub(crate) directory: PathBuf,
    /// The document.
    pub(crate) tree: Node,
    /// Its outline.
    pub(crate) frame: Frame,
    /// Settings of single devices or workloads of a study that has several: (path, value).
    pub(crate) late: Vec<(Vec<String>, Node)>,
    /// Settings of what an axis chooses.
    pub(crate) within: Vec<Within>,
    /// What was taken out of its grid.
    pub(crate) gone: Gone,
    /// What a reader of the result must know.
    pub(crate) notes: Vec<String>,
}

/// Load the study `name`, a path or the name of a shipped one, with `sets` laid over it.
pub(crate) fn load(name: &str, sets: &[String]) -> Result<Loaded, Failure> {
    let (text, directory) =
        if library::is_path(name) { from_file(Path::new(name))? } else { shipped(name)? };
    let stem = if library::is_path(name) {
        Path::new(name).file_stem().unwrap_or_default().to_string_lossy()
    } else {
        name.into()
    };
    lay(&stem, &text, directory, sets)
}

/// Lay `sets` over the study in `text`, whose files are looked for in `directory`.
pub(crate) fn lay(
    name: &str,
    text: &Arc<Text>,
    directory: PathBuf,
    sets: &[String],
) -> Result<Loaded, Failure> {
    let mut tree = Node::parse(text)?;
    let sweep = tree.get("sweep").cloned();
    let document = sweep.iter().flat_map(Node::entries).map(|(axis, _)| axis.clone());
    let document: Vec<String> = document.collect();
    let (mut late, mut within, mut set_axes) = (Vec::new(), Vec::new(), Vec::new());
    let sets = sets.iter().map(|set| parse_set(set)).collect::<Result<Vec<_>, _>>()?;
    within::check_names(&tree, &sets)?;
    let own = sets.iter().any(|(path, _)| own_command::is_set(&tree, path));
    let own = own.then(|| own_command::make_room(&mut tree));
    for (mut path, value) in sets {
        // A trace is its file: `--set workload.trace=FILE` keeps the rest of the table.
        if path == ["workload", "trace"] && value.to_value().is_str() {
            path.push("file".into());
        }
        within::check_label(&tree, &path, &value)?;
        if let Some(setting) = below_axis(&mut tree, &path, &value, &mut set_axes) {
            within.push(setting);
        } else {
            apply(&mut tree, path, value, &mut late, &mut set_axes, &document);
        }
    }
    let frame = locate::read::<Frame>(&tree)?;
    let gone = Gone::of(set_axes, sweep.as_ref(), tree.get("sweep"));
    let mut notes: Vec<String> = own.into_iter().chain(gone.notes()).collect();
    within.iter().try_for_each(|setting: &Within| setting.check(&tree, &late))?;
    for (path, value) in &late {
        notes.extend(within::of_some(&tree, path, value)?);
    }
    let (name, text) = (name.to_string(), text.clone());
    Ok(Loaded { name, text, directory, tree, frame, late, within, gone, notes })
}

fn from_file(path: &Path) -> Result<(Arc<Text>, PathBuf), Failure> {
    let text = read_text(path, TEXT_BYTES_MAX).map_err(|error| {
        unreadable("study", path, &error).help("blocklab list studies shows the shipped ones")
    })?;
    let directory = path.parent().unwrap_or(Path::new("")).to_path_buf();
    Ok((Text::new(path, text), directory))
}

/// A file that cannot be read.
pub(crate) fn unreadable(what: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::input(format!("cannot read the {what} {}: {error}", path.display()))
}

fn shipped(name: &str) -> Result<(Arc<Text>, PathBuf), Failure> {
    let Some(text) = library::find(library::studies(), name) else {
        let names = library::studies().iter().map(|(name, _)| *name);
        return Err(Failure::input(format!("there is no study named `{name}`"))
            .expected(names::expected(name, names))
            .help("a study of yours is named by its path, such as ./question.toml"));
    };
    // Traces stand beside the shipped study in a checkout; look for one from here upwards.
    let file = format!("studies/{name}.toml");
    let here = std::env::current_dir().unwrap_or_default();
    let root = here.ancestors().find(|root| root.join(&file).exists());
    Ok((Text::new(&file, text), root.map(|root| root.join("studies")).unwrap_or_default()))
}

/// `key=value` as a path and a value: TOML, or else a string.
pub(crate) fn parse_set(set: &str) -> Result<(Vec<String>, Node), Failure> {
    let text = Text::new("--set", set);
    let Some((key, value)) = set.split_once('=') else {
        return Err(Failure::input(format!("--set {set}: there is no `=`"))
            .expected("key=value, such as device.ssd.gc=greedy"));
    };
    let path = parts(key);
    if path.iter().any(String::is_empty) {
        return Err(Failure::input(format!("--set {set}: the key has an empty part"))
            .at(text.place(0..key.len()))
            .expected("key=value, such as device.ssd.gc=greedy"));
    }
    let span = key.len() + 1..set.len();
    let origin = Origin { text: text.clone(), span: span.clone() };
    let mut node = Node::parse_value(&text, span).unwrap_or_else(|_| Node::string(origin, value));
    node.key = Origin { text, span: 0..key.len() };
    Ok((path, node))
}

/// The same for whoever has no tree.
///
/// # Errors
/// When there is no `=`, or a part of the key is empty.
pub fn set_value(set: &str) -> Result<(Vec<String>, toml::Value), Failure> {
    let (path, node) = parse_set(set)?;
    Ok((path, node.to_value()))
}

/// The parts of a key; one in quotes, as in `sweep."device.ssd.gc"`, may have points itself.
fn parts(key: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut quoted = false;
    for letter in key.chars() {
        match letter {
            '"' => quoted = !quoted,
            '.' if !quoted => parts.push(String::new()),
            letter => parts.last_mut().expect("there is always one").push(letter),
        }
    }
    parts.iter().map(|part| part.trim().to_string()).collect()
}

/// A setting of what an axis chooses. An axis that does not choose it is gone: it is set.
fn below_axis(
    tree: &mut Node,
    path: &[String],
    value: &Node,
    gone: &mut Vec<String>,
) -> Option<Within> {
    let axis = axis_above(tree.get("sweep")?, path)?;
    let mut sweep = tree.take("sweep")?;
    let within = Within::of(&sweep, &axis, path, value);
    if within.is_none() {
        sweep.take(&axis);
        gone.push(axis);
    }
    tree.put("sweep", sweep);
    within
}

/// Lay one setting over the document, which swept `document`, in this order.
fn apply(
    tree: &mut Node,
    path: Vec<String>,
    value: Node,
    late: &mut Vec<(Vec<String>, Node)>,
    gone: &mut Vec<String>,
    document: &[String],
) {
    if let Some(mut sweep) = tree.take("sweep") {
        let dotted = path.join(".");
        let axis = sweep.get(&dotted).cloned();
        // A list is the axis's own, unless its values are lists; one value is no axis.
        let list = axis.as_ref().is_some_and(|axis| is_list(&value) && !is_list_of_lists(axis));
        // One that an earlier setting ended begins again: the last word holds.
        let again = is_list(&value) && gone.contains(&dotted);
        gone.retain(|axis| !again || *axis != dotted);
        let list = list || again;
        if list && axis.is_some() {
            // Where it is: the grid and the answer go by the order of the axes.
            sweep.put(&dotted, value.clone());
        } else if list {
            let rank = |name: &str| document.iter().position(|axis| axis == name);
            let own = rank(&dotted);
            sweep.put_before(|other| own.is_some() && rank(other) > own, &dotted, value.clone());
        } else if sweep.take(&dotted).is_some() {
            gone.push(dotted.clone());
        }
        for axis in inside(&sweep, &dotted, &value) {
            sweep.take(&axis);
            gone.push(axis);
        }
        tree.put("sweep", sweep);
        if list {
            return;
        }
    }
    if is_instead(tree, &path) {
        tree.take("workloads");
        gone.push("workload".into());
    }
    let several = format!("{}s", path[0]);
    let plural = ["device", "workload"].contains(&path[0].as_str()) && tree.get(&several).is_some();
    if plural { late.push((path, value)) } else { tree.assign(&path, value) }
}

/// The axes below `path` that the table `value` has a value for.
fn inside(sweep: &Node, path: &str, value: &Node) -> Vec<String> {
    let given = |axis: &str| {
        let below = axis.strip_prefix(path)?.strip_prefix('.')?;
        let below: Vec<String> = below.split('.').map(String::from).collect();
        Some(value.find(&below).depth == below.len())
    };
    let axes = sweep.entries().iter().map(|(axis, _)| axis);
    axes.filter(|axis| given(axis) == Some(true)).cloned().collect()
}

fn is_list(node: &Node) -> bool {
    matches!(node.data, Data::Array(_))
}

fn is_list_of_lists(node: &Node) -> bool {
    matches!(&node.data, Data::Array(list) if list.iter().any(is_list))
}

/// True when a workload is set of a model that none of the labelled ones has: it takes the place of
/// all of them.
fn is_instead(tree: &Node, path: &[String]) -> bool {
    let ["workload", model, ..] = path.iter().map(String::as_str).collect::<Vec<_>>()[..] else {
        return false;
    };
    let labelled = tree.get("workloads").map(Node::entries).unwrap_or_default();
    WorkloadModel::NAMES.contains(&model)
        && !labelled.is_empty()
        && labelled.iter().all(|(_, workload)| workload.get(model).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_value_is_toml_or_else_a_string() {
        let value = |set: &str| parse_set(set).unwrap().1.to_value();
        assert_eq!(value("a.b=greedy").as_str(), Some("greedy"));
        assert_eq!(value("a.b=25us").as_str(), Some("25us"));
        assert_eq!(value("a.b=7").as_integer(), Some(7));
        assert_eq!(value("a={ d = 2 }")["d"].as_integer(), Some(2));
        let path = |set: &str| parse_set(set).unwrap().0;
        assert_eq!(path("sweep.\"a.b\"=[1]"), ["sweep", "a.b"]);
        assert_eq!(path("a. b .c=1"), ["a", "b", "c"]);
        assert!(parse_set("greedy").unwrap_err().to_string().contains("no `=`"));
        assert!(parse_set("a..b=1").unwrap_err().to_string().contains("--set:1:1"));
    }

    #[test]
    fn a_trace_is_set_by_its_file() {
        let text = "[workload.trace]\nfirst = 3\n[sweep]\n\"workload.trace.file\" = ['a', 'b']\n";
        let sets = ["workload.trace=my.trace".to_string()];
        let loaded = lay("t", &Text::new("t", text), PathBuf::new(), &sets).unwrap();
        let trace = loaded.tree.to_value();
        let trace = &trace["workload"]["trace"];
        assert_eq!(
            (trace["file"].as_str(), trace["first"].as_integer()),
            (Some("my.trace"), Some(3))
        );
        assert_eq!(loaded.gone.axes, ["workload.trace.file"]);
    }

    #[test]
    fn an_axis_inside_a_table_that_is_set_is_gone() {
        let text = "[workload.fio]\nrw = 'read'\n[sweep]\n'workload.fio.iodepth' = [1, 4]\n\
                    'workload.fio.bs' = ['4k', '8k']\n";
        let sets = ["workload.fio={ rw = 'randread', iodepth = 2 }".to_string()];
        let loaded = lay("t", &Text::new("t", text), PathBuf::new(), &sets).unwrap();
        let tree = loaded.tree.to_value();
        assert_eq!(tree["workload"]["fio"]["iodepth"].as_integer(), Some(2));
        assert_eq!(loaded.gone.axes, ["workload.fio.iodepth"]);
        assert!(tree["sweep"].get("workload.fio.bs").is_some());
    }

    #[test]
    fn what_an_axis_chooses_can_be_set() {
        let text = "[device.elevator]\ndevice = 'null'\n[sweep]\n\
                    'device.elevator.policy' = ['noop', 'deadline', 'bfq']\n";
        let lay = |sets: &[&str]| {
            let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
            lay("t", &Text::new("t", text), PathBuf::new(), &sets).unwrap()
        };
        let key = |name: &str| format!("device.elevator.policy.{name}");
        let two = lay(&[&key("deadline.fifo_batch=1"), &key("bfq.slice_idle=0us")]);
        assert!(two.gone.is_nothing() && two.notes.is_empty());
        let point = |loaded: &Loaded, policy: &str| {
            let text = Text::new("p", format!("[device.elevator]\npolicy = {policy}\n"));
            let mut tree = Node::parse(&text).unwrap();
            loaded.within.iter().for_each(|setting| setting.lay_over(&mut tree));
            tree.to_value()["device"]["elevator"]["policy"].clone()
        };
        assert_eq!(point(&two, "'noop'").as_str(), Some("noop"));
        assert_eq!(point(&two, "'deadline'")["deadline"]["fifo_batch"].as_integer(), Some(1));
        let table = point(&two, "{ deadline = { writes_starved = 9 } }");
        assert_eq!(table["deadline"].as_table().unwrap().len(), 2);
        assert_eq!(point(&two, "'bfq'")["bfq"]["slice_idle"].as_str(), Some("0us"));
        let first = key("deadline.fifo_batch=1");
        // The axis is set after what it chooses.
        let axis = |value: &str| format!("device.elevator.policy={value}");
        for value in ["deadline", "[\"noop\", \"deadline\"]"] {
            assert_eq!(lay(&[&first, &axis(value)]).within.len(), 1, "{value}");
        }
        for value in ["noop", "[\"noop\", \"bfq\"]"] {
            let sets = [first.clone(), axis(value)];
            let error = super::lay("t", &Text::new("t", text), PathBuf::new(), &sets).unwrap_err();
            assert!(error.to_string().contains("is set to what is no `deadline`"), "{error}");
        }
        // A choice that is not swept is set, as any other key.
        let other = lay(&[&key("cfq.quantum=2")]);
        assert_eq!(other.notes, ["device.elevator.policy is set and no longer swept"]);
        let tree = other.tree.to_value();
        let policy = &tree["device"]["elevator"]["policy"];
        assert_eq!(policy["cfq"]["quantum"].as_integer(), Some(2));
    }

    #[test]
    fn a_trace_takes_the_place_of_labelled_workloads() {
        let text = "[workloads.a.ie]\nwrites = 0.3\n[workloads.b.pc]\n";
        let lay = |sets: &[&str]| {
            let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
            lay("t", &Text::new("t", text), PathBuf::new(), &sets).unwrap()
        };
        let trace = lay(&["workload.trace=my.trace", "workload.trace.replay=back-to-back"]);
        let tree = trace.tree.to_value();
        assert_eq!(tree["workload"]["trace"]["file"].as_str(), Some("my.trace"));
        assert_eq!(tree["workload"]["trace"]["replay"].as_str(), Some("back-to-back"));
        assert!(tree.get("workloads").is_none() && trace.late.is_empty());
        assert_eq!(trace.notes, ["workload is set and no longer swept"]);
        // A model that is there is set where it is.
        let set = lay(&["workload.ie.writes=0.5"]);
        assert!(set.tree.get("workloads").is_some() && set.gone.is_nothing());
        assert_eq!(set.late.len(), 1);
    }

    #[test]
    fn what_is_swept_over_all_devices_is_not_set_of_one() {
        let text = "[devices]\na.ssd = {}\nb.ssd = {}\n[sweep]\n'device.ssd.gc' = ['fifo']\n";
        let lay = |set: &str| lay("t", &Text::new("t", text), PathBuf::new(), &[set.to_string()]);
        for set in ["devices.a.ssd.gc=greedy", "devices.a.ssd={gc=\"greedy\"}"] {
            let error = lay(set).unwrap_err().to_string();
            assert!(error.contains("`device.ssd.gc` is swept over all devices"), "{error}");
        }
        // Another key, and what holds where the axis chooses that name.
        for set in ["devices.a.ssd.part=mqsim-f", "devices.a.ssd.gc.fifo={}"] {
            assert!(lay(set).is_ok(), "{set}");
        }
    }

    #[test]
    fn a_label_that_is_not_there_is_refused() {
        let text = "[devices]\na.ssd = {}\nb.ssd = {}\n[workloads.mail.pc]\n";
        let lay = |sets: &[&str]| {
            let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
            lay("t", &Text::new("t", text), PathBuf::new(), &sets)
        };
        for (set, parts) in [
            ("devices.c.ssd.gc=fifo", ["--set:1:1", "one of a, b", "--set 'devices.c={ ... }'"]),
            ("devices.c.ssd.gc={ fifo = {} }", ["no `c` among the devices", "a, b", "help"]),
            ("workloads.mial.pc.seed=1", ["among the workloads", "expected: mail", "`mail`?"]),
        ] {
            let error = lay(&[set]).unwrap_err().to_string();
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
        for sets in [
            &["devices.c={ ssd = {} }", "devices.c.ssd.gc=fifo"][..],
            &["devices.c.ssd={}"],
            &["devices.b.ssd.gc=fifo"],
        ] {
            assert!(lay(sets).is_ok(), "{sets:?}");
        }
    }

    #[test]
    fn the_last_of_two_settings_holds() {
        let text = "[device.ssd]\n[sweep]\n'device.ssd.gc' = ['fifo']\n";
        let lay = |sets: [&str; 2]| {
            let sets = sets.map(String::from);
            lay("t", &Text::new("t", text), PathBuf::new(), &sets).unwrap()
        };
        let list = lay(["device.ssd.gc=greedy", "device.ssd.gc=['random']"]);
        assert!(list.gone.axes.is_empty());
        let tree = list.tree.to_value();
        assert_eq!(tree["sweep"]["device.ssd.gc"][0].as_str(), Some("random"));
        let one = lay(["device.ssd.gc=['random']", "device.ssd.gc=greedy"]);
        assert_eq!(one.gone.axes, ["device.ssd.gc"]);
    }

    #[test]
    fn an_axis_that_is_given_values_keeps_its_place() {
        let text = "[device.ssd]\n[sweep]\n'device.ssd.gc' = ['fifo']\n'run.requests' = [1]\n\
                    'study.seed' = [1]\n";
        let order = |sets: &[&str]| -> Vec<String> {
            let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
            let loaded = lay("t", &Text::new("t", text), PathBuf::new(), &sets).unwrap();
            let sweep = loaded.tree.get("sweep").unwrap().entries();
            sweep.iter().map(|(axis, _)| axis.clone()).collect()
        };
        let own = ["device.ssd.gc", "run.requests", "study.seed"];
        assert_eq!(order(&["device.ssd.gc=['random']"]), own);
        assert_eq!(order(&["run.requests=[7]", "device.ssd.gc=['random']"]), own);
        assert_eq!(order(&["run.requests=9", "run.requests=[7]"]), own);
        assert_eq!(order(&["run.requests=9"]), [own[0], own[2]]);
        let more = order(&["sweep.\"run.time\"=['1s']", "study.seed=[3]"]);
        assert_eq!(more[..3], own);
    }

    #[test]
    fn a_setting_of_a_model_holds_for_the_devices_of_that_model() {
        let text = "[devices]\na.ssd = {}\nb.hdd = {}\nc.ssd = {}\n";
        let lay = |set: &str| lay("t", &Text::new("t", text), PathBuf::new(), &[set.to_string()]);
        let two = lay("device.ssd.gc=fifo").unwrap();
        let note = "device.ssd.gc is set of a, c; of another model, and as it was: b";
        assert_eq!(two.notes, [note]);
        let holds = |label: &str| {
            let mut point = Node::parse(&Text::new("p", "")).unwrap();
            point.put("device", two.tree.get("devices").unwrap().get(label).unwrap().clone());
            crate::within::holds(&point, &two.late[0].0)
        };
        assert_eq!(["a", "b", "c"].map(holds), [true, false, true]);
        let none = lay("device.null.gc=fifo").unwrap_err().to_string();
        for part in ["--set:1:1", "none of the devices is of the model `null`", "devices.b.hdd"] {
            assert!(none.contains(part), "{none}");
        }
        // What is no model is refused where each device is read.
        assert!(lay("device.sdd.gc=fifo").unwrap().notes.is_empty());
    }

    #[test]
    fn an_unknown_study_names_what_there_is() {
        let error = load("no-such-study", &[]).unwrap_err().to_string();
        assert!(error.contains("there is no study named `no-such-study`"), "{error}");
        assert!(error.contains("./question.toml"), "{error}");
    }
}
