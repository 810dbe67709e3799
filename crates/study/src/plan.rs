//! The plan: everything that can be wrong with a study is found before the first run starts.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use sim::Nanos;

use crate::digest;
use crate::document::{Claim, Expect, Header, PreconditionStep, Report, RunSection};
use crate::files::{FileSource, Files};
use crate::grid::{self, GridPoint};
use crate::hashed::HashedFile;
use crate::library::CODE_VERSION;
use crate::load::{self, Loaded, unreadable};
use crate::locate;
use crate::metrics;
use crate::outline;
use crate::planned::{PlannedRun, Setup, build_device, label};
use crate::runner::Runner;
use crate::simulated::Simulated;
use crate::tree::Text;
use crate::within;
use config::Failure;

/// A study that is known to be sound.
#[derive(Debug)]
pub struct PlannedStudy {
    /// The file's stem.
    pub name: String,
    /// Title, question, seed.
    pub header: Header,
    /// The runs, in the order of the grid.
    pub runs: Vec<PlannedRun>,
    /// Names of the axes, `repeat` not included.
    pub axes: Vec<String>,
    /// What is claimed about the results.
    pub expectations: Vec<Expect>,
    /// What others say about them.
    pub claims: Vec<Claim>,
    /// What the report shows.
    pub report: Report,
    /// Digest over every run's digest.
    pub digest: String,
    /// The document with `--set` laid over it, as TOML.
    pub resolved: String,
    /// What a reader of the result must know.
    pub notes: Vec<String>,
    text: Arc<Text>,
    pub(crate) directory: PathBuf,
    pub(crate) runner: Box<dyn Runner>,
}

impl PlannedStudy {
    /// Read the study `name` (a path, or the name of a shipped one) with `sets` (`key=value`) laid
    /// over it, and check every point of its grid.
    ///
    /// # Errors
    /// Everything that is wrong with the study, its parts and its traces, with its place.
    pub fn read(name: &str, sets: &[String]) -> Result<PlannedStudy, Failure> {
        PlannedStudy::read_for(Box::new(Simulated), name, sets)
    }

    /// As [`PlannedStudy::read`], for runs that `runner` runs.
    ///
    /// # Errors
    /// As [`PlannedStudy::read`], and what the runner finds wrong.
    pub fn read_for(
        runner: Box<dyn Runner>,
        name: &str,
        sets: &[String],
    ) -> Result<PlannedStudy, Failure> {
        PlannedStudy::of(runner, load::load(name, sets)?)
    }

    /// Read a study from `text`. Files that it names are looked for in the current directory;
    /// errors call it `name`.
    ///
    /// # Errors
    /// As [`PlannedStudy::read`].
    pub fn parse(name: &str, text: &str) -> Result<PlannedStudy, Failure> {
        PlannedStudy::parse_for(Box::new(Simulated), name, text)
    }

    /// As [`PlannedStudy::parse`], with `sets` laid over it, and files looked for in
    /// `directory` first.
    ///
    /// # Errors
    /// As [`PlannedStudy::read`].
    pub fn parse_in(
        directory: &Path,
        name: &str,
        text: &str,
        sets: &[String],
    ) -> Result<PlannedStudy, Failure> {
        let loaded = load::lay(name, &Text::new(name, text), directory.to_path_buf(), sets)?;
        PlannedStudy::of(Box::new(Simulated), loaded)
    }

    /// Its text as it was read, before anything was laid over it.
    pub fn text(&self) -> &str {
        &self.text.text
    }

    /// Where the files it names are looked for first.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// As [`PlannedStudy::parse`], for runs that `runner` runs.
    ///
    /// # Errors
    /// As [`PlannedStudy::read_for`].
    pub fn parse_for(
        runner: Box<dyn Runner>,
        name: &str,
        text: &str,
    ) -> Result<PlannedStudy, Failure> {
        PlannedStudy::of(runner, load::lay(name, &Text::new(name, text), PathBuf::new(), &[])?)
    }

    /// The recorded boots that it replays: the key of each, for `--set`, and its file.
    pub fn recorded_boots(&self) -> Vec<(String, PathBuf)> {
        let document: toml::Table = self.resolved.parse().unwrap_or_default();
        let labelled = document.get("workloads").and_then(|all| all.as_table());
        let labelled = labelled.into_iter().flatten();
        let workloads = labelled.map(|(label, workload)| (format!("workloads.{label}"), workload));
        let one = document.get("workload").map(|workload| ("workload".to_string(), workload));
        let files = Files::new(&self.directory);
        let found = workloads.chain(one).filter_map(|(key, workload)| {
            let file = workload.get("boot")?.get("file")?.as_str()?;
            Some((format!("{key}.boot.file"), files.locate(file).ok()?))
        });
        found.collect()
    }

    /// The metrics that it asks for, each once: of its claims, its expectations and its figures.
    pub fn asked(&self) -> Vec<&str> {
        let claims = self.claims.iter().map(|claim| &claim.metric);
        let expectations = self.expectations.iter().map(|expect| &expect.metric);
        let figures = self.report.figure.iter().map(|figure| &figure.y);
        let mut asked: Vec<&str> = Vec::new();
        for metric in claims.chain(expectations).chain(figures) {
            if !asked.contains(&metric.as_str()) {
                asked.push(metric);
            }
        }
        asked
    }

    /// True when its runs are sessions of a guest.
    pub fn travels(&self) -> bool {
        self.runs.iter().any(|run| run.point.travel.is_some())
    }

    fn of(runner: Box<dyn Runner>, mut loaded: Loaded) -> Result<PlannedStudy, Failure> {
        let files = Files::new(&loaded.directory);
        let axes = grid::axes(&loaded)?;
        let points = grid::points(&loaded, &axes, &files)?;
        let single = points.len() == 1;
        let hashes = RefCell::default();
        let plan = |point| plan_run(&*runner, point, &loaded, &hashes, single);
        let runs = points.into_iter().map(plan).collect::<Result<Vec<_>, _>>()?;
        outline::check(&loaded, &axes)?;
        outline::narrow(&mut loaded);
        let digests: Vec<&str> = runs.iter().map(|run| run.digest.as_str()).collect();
        let digest = digest::of(&digests);
        loaded.notes.extend(same_twice(&runs));
        let resolved = toml::to_string(&within::at_each(&loaded.tree, &loaded.late).to_value());
        Ok(PlannedStudy {
            digest,
            runs,
            axes: axes.iter().map(|axis| axis.name.clone()).collect(),
            header: loaded.frame.study,
            expectations: loaded.frame.expect,
            claims: loaded.frame.claim,
            report: loaded.frame.report,
            resolved: resolved.map_err(|e| Failure::input(format!("cannot be TOML: {e}")))?,
            notes: loaded.notes,
            name: loaded.name,
            text: loaded.text,
            directory: loaded.directory,
            runner,
        })
    }
}

/// What a reader must know of points that are one and the same run: an axis changes nothing there.
fn same_twice(runs: &[PlannedRun]) -> Option<String> {
    let mut known = BTreeMap::new();
    let twice = runs.iter().filter_map(|run| Some((known.insert(&run.digest, run)?, run)));
    let twice: Vec<_> = twice.collect();
    let (one, other) = twice.first()?;
    let others = match twice.len() {
        1 => String::new(),
        more => format!(" ({} runs are the same as another one)", more),
    };
    Some(format!("{} and {} are the same run, by its digest{others}", one.label, other.label))
}

fn plan_run(
    runner: &dyn Runner,
    grid: GridPoint,
    loaded: &Loaded,
    hashes: &RefCell<KnownFiles>,
    single: bool,
) -> Result<PlannedRun, Failure> {
    let GridPoint { params, repeat, point, part, block, tree } = grid;
    let limits = build_device(&point, &tree, repeat)?.limits();
    let files = Files::new(&loaded.directory);
    let (of_point, of_tree) = (&point, &tree);
    let setup =
        Setup { point: of_point, repeat, limits, block: &block, tree: of_tree, files: &files };
    let with_cause = |failure| files.with_cause(failure);
    check_steps(&setup).map_err(with_cause)?;
    let precondition_files = hash_files(&files, hashes)?;
    let by_runner = runner.plan(&setup).map_err(with_cause)?;
    let all_files = hash_files(&files, hashes)?;
    let hashed = all_files.iter().map(|(_, file)| Arc::clone(file)).collect();
    let (precondition_files, all_files) = (names(&precondition_files), names(&all_files));

    let seed = (point.study.seed, repeat);
    let precondition_digest = (!point.precondition.is_empty()).then(|| {
        digest::of(&json!({
            "code": CODE_VERSION, "device": point.device, "precondition": point.precondition,
            "seed": seed, "files": precondition_files,
        }))
    });
    let mut inputs = json!({
        "code": CODE_VERSION, "device": point.device, "precondition": point.precondition,
        "workload": point.workload, "run": point.run, "seed": seed, "files": all_files,
    });
    if let Some(travel) = &point.travel {
        inputs["travel"] = json!(travel);
    }
    if let Some(crash) = &point.crash {
        inputs["crash"] = json!(crash);
    }
    if let Some(by_runner) = by_runner {
        inputs["runner"] = by_runner;
    }
    let digest = digest::of(&inputs);
    let label = label(&params, repeat, &point, part.as_ref(), single);
    let run = PlannedRun {
        label,
        params,
        repeat,
        point,
        part,
        block,
        limits,
        digest,
        precondition_digest,
        files: hashed,
        tree,
    };
    Ok(run)
}

/// Tables that do not go together.
fn check_tables(setup: &Setup) -> Result<(), Failure> {
    let point = setup.point;
    if point.travel.is_some() && point.run != RunSection::default() {
        let failure = Failure::input("a program in a guest decides itself when it ends")
            .expected("no [run] beside [travel]");
        return Err(setup.at(&["run"], failure));
    }
    if point.crash.is_some() && point.travel.is_none() {
        let failure = Failure::input("[crash] cuts the power under a program in a guest")
            .expected("a table [travel] with its command");
        return Err(setup.at(&["crash"], failure));
    }
    Ok(())
}

/// Sectors that the device's own size is no multiple of, and the like.
fn check_block(setup: &Setup) -> Result<(), Failure> {
    setup.block.check(setup.limits.capacity).map_err(|error| {
        let what = format!("block.{} of its part: {}", error.key, error.message);
        setup.at(&["device", setup.point.device.name()], Failure::input(what))
    })
}

/// Steps that no device of these limits can take, and workloads that cannot be built.
fn check_steps(setup: &Setup) -> Result<(), Failure> {
    let &Setup { point, limits, tree, files, .. } = setup;
    check_tables(setup)?;
    check_block(setup)?;
    let nothing = [
        ("requests", point.run.requests == Some(0)),
        ("time", point.run.time.is_some_and(|time| time.0 == Nanos::ZERO)),
    ];
    if let Some((key, _)) = nothing.into_iter().find(|(_, is_nothing)| *is_nothing) {
        let failure = Failure::input(format!("a run of no {key} measures nothing"));
        return Err(setup.at(&["run", key], failure.expected("more than 0, or no such key")));
    }
    let rng = setup.rng();
    for (index, step) in point.precondition.iter().enumerate() {
        let number = index.to_string();
        let at = |keys: &[&str], failure: Failure| {
            let keys = ["precondition", &number].into_iter().chain(keys.iter().copied());
            let path: Vec<String> = keys.map(String::from).collect();
            match locate::place_of(tree, &path) {
                Some(place) => failure.at(place),
                None => failure,
            }
        };
        match step {
            PreconditionStep::Fill(fill) if fill.span.of(limits.capacity) > limits.capacity => {
                let what = format!("{} is more than the device's {}", fill.span, limits.capacity);
                return Err(at(&["fill", "span"], Failure::input(what)));
            }
            PreconditionStep::Overwrite(over) => {
                let span = over.span.of(limits.capacity);
                let unit = over.unit.0;
                if span > limits.capacity {
                    let what =
                        format!("{} is more than the device's {}", over.span, limits.capacity);
                    return Err(at(&["overwrite", "span"], Failure::input(what)));
                }
                if u32::try_from(unit.sectors()).is_err() {
                    let failure = Failure::input(format!("no request is of {}", over.unit));
                    let failure = failure.expected("less than 2TiB");
                    return Err(at(&["overwrite", "unit"], failure));
                }
                if unit.sectors() == 0 || unit.0 % sim::SECTOR_BYTES != 0 || unit > span {
                    let what = format!("a write of {} does not fit into {span}", over.unit);
                    let failure = Failure::input(what).expected("whole 512-byte sectors");
                    return Err(at(&["overwrite", "unit"], failure));
                }
            }
            PreconditionStep::Fill(_) => {}
            PreconditionStep::UntilSteady(steady) => {
                metrics::check_name(&steady.metric)
                    .map_err(|failure| at(&["until_steady", "metric"], failure))?;
                if steady.window < 2 || steady.rounds_max < steady.window {
                    let failure = Failure::input("the window does not fit")
                        .expected("2 <= window <= rounds_max");
                    return Err(at(&["until_steady", "window"], failure));
                }
                let open = |name: &str| files.open(name);
                let context = workload::Context { rng, limits, open: &open };
                let model = &steady.workload;
                model.build(&context).map_err(|error| {
                    let path = ["precondition", &number, "until_steady", "workload", model.name()];
                    locate::config_failure(tree, &path, &error)
                })?;
            }
        }
    }
    Ok(())
}

/// Files that were read for some run already: each is hashed once.
type KnownFiles = BTreeMap<FileSource, Arc<HashedFile>>;

/// Every file that was opened, under its name.
fn hash_files(
    files: &Files,
    known: &RefCell<KnownFiles>,
) -> Result<Vec<(String, Arc<HashedFile>)>, Failure> {
    let mut hashed = Vec::new();
    for (name, found) in files.opened() {
        let file = known.borrow().get(&found).cloned();
        let file = match file {
            Some(file) => file,
            None => HashedFile::of(found.clone())
                .map(Arc::new)
                .map_err(|error| unreadable("file", Path::new(&name), &error))?,
        };
        known.borrow_mut().insert(found, Arc::clone(&file));
        hashed.push((name, file));
    }
    Ok(hashed)
}

/// (name, content digest) of each.
fn names(files: &[(String, Arc<HashedFile>)]) -> Vec<(&str, &str)> {
    files.iter().map(|(name, file)| (&**name, &*file.hash)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use config::Cause;

    #[test]
    fn a_file_that_cannot_be_opened_is_a_cause_of_its_own() {
        let cause = |workload: &str| {
            let text = format!("[device.null]\n{workload}");
            PlannedStudy::parse("test", &text).unwrap_err().cause
        };
        let missing = "[workload.trace]\nfile = \"no-such.log\"\n";
        assert_eq!(cause(missing), Some(Cause::FileNotOpened));
        assert_eq!(cause("[workload.fio]\niodepth = 0\n"), None);
        let step = "[[precondition]]\nuntil_steady.workload.trace.file = \"no-such.log\"\n";
        assert_eq!(cause(&format!("[workload.fio]\n{step}")), Some(Cause::FileNotOpened));
    }

    #[test]
    fn a_setting_of_all_labelled_devices_is_in_the_document_of_the_run() {
        let text = "[devices]\na.ssd = {}\nb.null = {}\nc.ssd = { gc = 'random' }\n\
                    [workload.fio]\n[run]\nrequests = 9\n";
        let set = ["device.ssd.gc=fifo".to_string()];
        let once = PlannedStudy::parse_in(Path::new(""), "t", text, &set).unwrap();
        let again = PlannedStudy::parse("t", &once.resolved).unwrap();
        assert_eq!(again.digest, once.digest);
        assert_ne!(PlannedStudy::parse("t", text).unwrap().digest, once.digest);
    }

    #[test]
    fn an_axis_below_a_choice_is_of_the_points_that_choose_it() {
        let study = |axes: &str| {
            let text =
                format!("[device.ssd]\n[workload.fio]\n[run]\nrequests = 9\n[sweep]\n{axes}");
            PlannedStudy::parse("t", &text)
        };
        let gc = |values: &str| format!("'device.ssd.gc' = {values}\n");
        let d = "'device.ssd.gc.d-choices.d' = [3, 4]\n";
        let op = "'device.ssd.over_provisioning";
        let variant = "device.ssd.mapping.block.variant.nftl-n.replacements";
        let mapping = "'device.ssd.mapping' = ['page', { block = { variant = 'nftl-1' } }]\n";
        for (axes, line, names) in [
            (
                gc("['greedy', 'random']") + d,
                7,
                ["gc.d-choices.d`", "`device.ssd.gc` chooses `greedy`"],
            ),
            (
                d.to_string() + &gc("['greedy', 'random']"),
                6,
                ["gc.d-choices.d`", "`device.ssd.gc` ch"],
            ),
            (gc("['d-choices', 'fifo']") + d, 7, ["gc.d-choices.d`", "chooses `fifo`"]),
            (
                gc("[{ windowed = { window = 3 } }]") + d,
                7,
                ["gc.d-choices.d`", "chooses `windowed`"],
            ),
            (format!("{op}' = ['7%']\n{op}.live_percent' = [70]\n"), 7, ["live_percent`", "`7%`"]),
            (format!("{mapping}'{variant}' = [2]\n"), 7, ["belongs to `block`", "chooses `page`"]),
            (
                format!("{}'{variant}' = [2]\n", mapping.replace("'page', ", "")),
                7,
                ["belongs to `nftl-n`", "chooses `nftl-1`"],
            ),
            (
                format!("{d}'device.ssd.gc.windowed.window' = [5]\n"),
                6,
                ["gc.d-choices.d`", "`device.ssd.gc.windowed.window` are of different choices"],
            ),
        ] {
            let error = study(&axes).map(|plan| plan.digest).unwrap_err().to_string();
            let found = names.iter().all(|name| error.contains(name));
            assert!(found && error.contains(&format!("t:{line}:")), "{error}");
        }
        // In either order, and where the axis above is no choice.
        let points = |axes: &str| {
            let plan = study(axes).unwrap();
            assert_eq!(plan.notes, [""; 0]);
            let mut digests: Vec<_> = plan.runs.iter().map(|run| run.digest.clone()).collect();
            digests.sort();
            digests
        };
        let (first, last) = (gc("['d-choices']") + d, d.to_string() + &gc("['d-choices']"));
        assert_eq!(points(&first), points(&last));
        assert_eq!(points(&(d.to_string() + &gc("[{ d-choices = {} }]"))), points(&first));
        let buffer = "'device.ssd.buffer' = [{ capacity = '1MiB' }, { capacity = '2MiB' }]\n";
        assert_eq!(
            points(&format!("{buffer}'device.ssd.buffer.destage_depth' = [2, 3]\n")).len(),
            4
        );
    }

    #[test]
    fn points_that_are_the_same_run_are_said() {
        let text = "[device.ssd]\n[workload.fio]\n[run]\nrequests = 9\n[sweep]\n\
                    'device.ssd.gc' = ['d-choices', { d-choices = { d = 10 } }]\n\
                    'study.seed' = [1, 2]\n";
        let notes = PlannedStudy::parse("t", text).unwrap().notes;
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].contains("are the same run, by its digest (2 runs"), "{notes:?}");
    }

    #[test]
    fn a_write_larger_than_a_request_is_refused() {
        let study = |unit: &str| {
            let text = format!(
                "[device.null]\ncapacity = '4TiB'\n[workload.fio]\n\
                 [[precondition]]\noverwrite = {{ unit = '{unit}' }}\n"
            );
            PlannedStudy::parse("t", &text).map(drop)
        };
        let error = study("2TiB").unwrap_err().to_string();
        assert!(error.contains("no request is of 2TiB") && error.contains("t:5:"), "{error}");
        assert!(study("1TiB").is_ok());
    }

    /// What travels needs a kernel to be planned, but not to be read.
    #[derive(Debug)]
    struct AnyGuest;

    impl Runner for AnyGuest {
        fn plan(&self, setup: &Setup) -> Result<Option<serde_json::Value>, Failure> {
            if setup.point.travel.is_some() { Ok(None) } else { Simulated.plan(setup) }
        }

        fn run(&self, _: crate::Job) -> Result<crate::RunResult, Failure> {
            unreachable!("nothing is run")
        }
    }

    #[test]
    fn every_shipped_study_that_travels_is_sound() {
        let travelling =
            crate::library::studies().iter().filter(|(_, text)| text.contains("[travel]"));
        let mut points = 0;
        for (name, _) in travelling {
            let read = PlannedStudy::read_for(Box::new(AnyGuest), name, &[]);
            points += read.unwrap_or_else(|failure| panic!("{name}: {failure}")).runs.len();
        }
        assert!(points > 100, "{points}");
    }
}
