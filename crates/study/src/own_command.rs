//! A command of the user's own in the place of a study's: what the study states of its own command
//! says nothing about it.

use crate::tree::{Node, Text};

/// True when `path` puts another command in place of the study's.
pub(crate) fn is_set(tree: &Node, path: &[String]) -> bool {
    let travel = tree.get("travel");
    path == ["travel", "command"] && travel.is_some_and(|travel| travel.get("command").is_some())
}

/// Leave out what the study states. Any command can be asked how long it takes, along the axis
/// that the study compared; one that is crashed, what was lost. Returns what a reader of the result
/// must know.
pub(crate) fn make_room(tree: &mut Node) -> String {
    if tree.get("crash").is_none() {
        let by = compared(tree).map_or(String::new(), |axis| format!(", by = {axis:?}"));
        let answer = format!("{{ metric = \"program_s\"{by} }}");
        let text = Text::new("answer", &*answer);
        let node = Node::parse_value(&text, 0..answer.len()).expect("it is written above");
        tree.assign(&["study", "answer"].map(String::from), node);
    }
    let stated = ["claim", "expect"].map(|key| tree.take(key));
    let count = stated.iter().flatten().map(|all| all.items().len()).sum::<usize>();
    let about = "expectations and claims about the study's own are left out";
    format!("travel.command is set: {count} {about}")
}

/// The axis along which the study compares: its answer says it, or else its first statement.
fn compared(tree: &Node) -> Option<String> {
    let stated = tree.get("study").and_then(|it| it.get("answer")).and_then(|it| it.get("by"));
    let stated = stated.and_then(|by| by.to_value().as_str().map(String::from));
    let all = ["claim", "expect"].iter().filter_map(|key| tree.get(key));
    let mut relative = all.flat_map(Node::items).filter_map(|one| one.get("relative_to"));
    stated.or_else(|| relative.find_map(|it| it.entries().first().map(|(axis, _)| axis.clone())))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use crate::load::{Loaded, lay};
    use crate::tree::Text;

    const STUDY: &str = "\
[study]
answer = { metric = \"fio_read_iops\", by = \"travel.memory\" }
[travel]
command = \"fio a.fio\"
[[claim]]
text = \"a\"
source = \"b\"
metric = \"waf\"
relative_to = { \"travel.scheduler\" = \"none\" }
holds = { min = 1 }
[[expect]]
text = \"c\"
metric = \"waf\"
max = 1
";

    fn laid(study: &str, sets: &[&str]) -> Loaded {
        let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
        lay("study", &Text::new("study.toml", study), PathBuf::new(), &sets).unwrap()
    }

    fn answer(loaded: &Loaded) -> (&str, Option<&str>) {
        let answer = loaded.frame.study.answer.as_ref().unwrap();
        (&answer.metric, answer.by.as_deref())
    }

    #[test]
    fn what_a_study_states_is_about_its_own_command() {
        let other = laid(STUDY, &["travel.memory=64MiB"]);
        assert_eq!((other.frame.claim.len(), other.frame.expect.len()), (1, 1));
        assert_eq!(
            (answer(&other), other.notes.len()),
            (("fio_read_iops", Some("travel.memory")), 0)
        );
        let own = laid(STUDY, &["travel.command=make"]);
        assert_eq!((own.frame.claim.len(), own.frame.expect.len()), (0, 0));
        assert_eq!(answer(&own), ("program_s", Some("travel.memory")));
        assert!(own.notes[0].contains("2 expectations and claims"), "{:?}", own.notes);
    }

    #[test]
    fn its_own_comparison_and_a_question_of_the_users_own_stay() {
        let silent = STUDY.replace("answer", "#");
        let own = laid(&silent, &["travel.command=make"]);
        assert_eq!(answer(&own), ("program_s", Some("travel.scheduler")));
        let asked = ["study.answer.metric=flushes", "travel.command=make"];
        assert_eq!(answer(&laid(STUDY, &asked)), ("flushes", Some("travel.memory")));
        let crashed = laid(&format!("{STUDY}[crash]\n"), &["travel.command=make"]);
        assert_eq!((answer(&crashed).0, crashed.frame.claim.len()), ("fio_read_iops", 0));
    }
}
