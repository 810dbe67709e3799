//! Walls inside a room: a module does not name what it must know nothing of.

use super::Finding;
use super::modules::{module_of, resolve};
use crate::rust::Code;
use crate::tree::{File, Tree};

/// The modules of `inside` do not name those of `without`.
struct Wall {
    room: &'static str,
    inside: &'static [&'static str],
    without: &'static [&'static str],
    why: &'static str,
}

const WALLS: [Wall; 4] = [
    Wall {
        room: "flash",
        inside: &[
            "ssd::buffer",
            "ssd::geometry",
            "ssd::nand",
            "ssd::oracle",
            "ssd::plan",
            "ssd::timing",
        ],
        without: &["ftl", "ssd::controller"],
        why: "the flash does what a plan says and knows nothing of logical pages",
    },
    Wall {
        room: "flash",
        inside: &["ftl"],
        without: &["ssd::controller", "ssd::nand", "ssd::timing"],
        why: "an FTL decides and has no clock; it speaks to the flash in plans",
    },
    Wall {
        room: "mirror",
        inside: &["format"],
        without: &["core", "policy", "recovery", "torture"],
        why: "what is on disk outlives what decides about it",
    },
    Wall {
        room: "mirror",
        inside: &["core", "policy", "recovery"],
        without: &["torture"],
        why: "the protocol does not know how it is tested",
    },
];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    tree.with_extension("rs").flat_map(check_file).collect()
}

fn check_file(file: &File) -> Vec<Finding> {
    let Some((room, module)) = module_of(&file.path) else { return Vec::new() };
    let is_inside =
        |wall: &&Wall| wall.room == room && wall.inside.iter().any(|inside| is_in(&module, inside));
    let walls: Vec<&Wall> = WALLS.iter().filter(is_inside).collect();
    if walls.is_empty() {
        return Vec::new();
    }
    let code = Code::scan(&file.text);
    let tests = code.test_lines();
    let mut findings = Vec::new();
    for (at, names) in code.paths() {
        let line = code.line_of(at);
        let Some(named) = resolve(&module, &names) else { continue };
        if tests.iter().any(|&(from, to)| (from..=to).contains(&line)) {
            continue;
        }
        for wall in &walls {
            if let Some(beyond) = wall.without.iter().find(|without| is_in(&named, without)) {
                let what = format!("`{}` names `{beyond}`: {}", module.join("::"), wall.why);
                let fix = "move what both need to where both may look";
                findings.push(Finding::new(&file.path, line, what, fix));
            }
        }
    }
    findings
}

/// Is `module` the one called `name`, or one in it?
fn is_in(module: &[&str], name: &str) -> bool {
    let name: Vec<&str> = name.split("::").collect();
    module.starts_with(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<usize> {
        check(&Tree::planted(&[(path, text)])).iter().map(|f| f.line).collect()
    }

    /// Every wall from every side it guards, towards everything behind it.
    #[test]
    fn each_wall_stops_each_path_through_it() {
        for wall in &WALLS {
            for inside in wall.inside {
                let path = format!("crates/{}/src/{}", wall.room, inside.replace("::", "/"));
                for without in wall.without {
                    let text = format!("\nuse crate::{without}::x::Y;\n");
                    assert_eq!(findings(&format!("{path}.rs"), &text), [2], "{inside} {without}");
                    assert_eq!(findings(&format!("{path}/mod.rs"), &text), [2]);
                    assert_eq!(findings(&format!("{path}/deeper/a.rs"), &text), [2]);
                    let elsewhere = format!("crates/{}/src/lib.rs", wall.room);
                    assert!(findings(&elsewhere, &text).is_empty());
                }
            }
        }
    }

    #[test]
    fn a_wall_stops_a_path_however_it_is_written() {
        let nand = "crates/flash/src/ssd/nand/mod.rs";
        for text in [
            "use crate::ftl;",
            "use crate::{ssd::plan::Plan, ftl::mapping::Mapping};",
            "use crate::{\nssd::{plan::Plan, controller}};",
            "use super::super::ftl::flash::Flash;",
            "use super::{controller::Controller, plan::Plan};",
            "fn f(x: &crate::ftl::flash::Flash) {}",
        ] {
            assert_eq!(findings(nand, text).len(), 1, "{text}");
        }
        for text in [
            "use super::plan::Plan; use crate::device::A; use self::ftl::A; use ftl::B;",
            "// crate::ftl::mapping\n#[cfg(test)]\nmod tests {\nuse crate::ftl::flash::Flash;\n}\n",
            "use crate::ftls::A;",
        ] {
            assert!(findings(nand, text).is_empty(), "{text}");
        }
    }

    /// A module that was renamed takes its wall along.
    #[test]
    fn both_sides_of_each_wall_exist() {
        let tree = Tree::read(&crate::root().unwrap()).unwrap();
        for wall in &WALLS {
            for module in wall.inside.iter().chain(wall.without) {
                let path = format!("crates/{}/src/{}", wall.room, module.replace("::", "/"));
                assert!(tree.has(&path) || tree.has(&format!("{path}.rs")), "{path}");
            }
        }
    }
}
