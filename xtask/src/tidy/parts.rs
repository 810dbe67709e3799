//! Every value of a part, and of a host, says where it comes from.

use super::Finding;
use crate::tree::{File, Tree};

/// Hosts have a folder of their own.
const HOSTS: &str = "devices/hosts/";
const STATUS: [&str; 4] = ["sketch", "datasheet", "calibrated", "validated"];

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let parts = tree.with_extension("toml").filter(|file| file.path.starts_with("devices/"));
    parts.flat_map(check_part).collect()
}

fn check_part(file: &File) -> Vec<Finding> {
    let found = |key: &str, what: String, fix: &str| {
        Finding::new(&file.path, line_of(&file.text, key), what, fix)
    };
    let table: toml::Table = match file.text.parse() {
        Ok(table) => table,
        Err(error) => {
            return vec![found("", format!("not valid TOML: {error}"), "correct it")];
        }
    };
    let mut findings = Vec::new();
    let about = if file.path.starts_with(HOSTS) { "host" } else { "part" };
    let status = table.get(about).and_then(|p| p.get("status")).and_then(|s| s.as_str());
    if !status.is_some_and(|status| STATUS.contains(&status)) {
        let what = format!("[{about}] has no status of {}", STATUS.join(", "));
        findings.push(found("status", what, &format!("say how far the {about} can be trusted")));
    }
    let (mut values, mut sources) = (Vec::new(), Vec::new());
    for (key, value) in &table {
        if ![about, "source"].contains(&key.as_str()) {
            leaves(key, value, &mut values);
        }
    }
    if let Some(toml::Value::Table(table)) = table.get("source") {
        table.iter().for_each(|(key, value)| leaves(key, value, &mut sources));
    }
    for value in values.iter().filter(|value| !sources.iter().any(|s| covers(s, value))) {
        let fix = format!("add `\"{value}\" = \"where it comes from\"` under [source]");
        findings.push(found(value, format!("`{value}` has no source"), &fix));
    }
    for source in sources.iter().filter(|source| !values.iter().any(|v| covers(source, v))) {
        let what = format!("the source `{source}` covers no value");
        findings.push(found(source, what, "delete it or correct its key"));
    }
    findings
}

/// Does the source of `key` speak for `value`, too?
fn covers(key: &str, value: &str) -> bool {
    value.strip_prefix(key).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Dotted keys of everything that is not a table.
fn leaves(path: &str, value: &toml::Value, out: &mut Vec<String>) {
    match value {
        toml::Value::Table(table) if !table.is_empty() => {
            table.iter().for_each(|(key, value)| leaves(&format!("{path}.{key}"), value, out));
        }
        _ => out.push(path.into()),
    }
}

/// The first line that assigns the last part of a dotted key, or names it in full; else 1.
fn line_of(text: &str, key: &str) -> usize {
    let last = key.rsplit('.').next().unwrap_or(key);
    let lines = || text.lines().enumerate().map(|(index, line)| (index + 1, line.trim_start()));
    let assigns = |line: &str, name: &str| {
        !name.is_empty()
            && line.strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with('='))
    };
    let whole = lines().find(|(_, line)| assigns(line, &format!("\"{key}\"")));
    let short = || lines().find(|(_, line)| assigns(line, last));
    whole.or_else(short).map_or(1, |(number, _)| number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<(usize, String)> {
        let tree = Tree::planted(&[("devices/x.toml", text)]);
        check(&tree).into_iter().map(|f| (f.line, f.what)).collect()
    }

    const PART: &str = "[part]\nname = \"x\"\ntitle = \"X\"\nstatus = \"datasheet\"\n\
                        [ssd]\nop = 0.07\n[ssd.nand]\nt_read = \"25us\"\nt_erase = \"2ms\"\n";

    #[test]
    fn a_source_may_cover_one_value_or_a_table() {
        let sources = "[source]\n\"ssd.op\" = \"datasheet p. 3\"\n\"ssd.nand\" = \"table 2\"\n";
        assert!(findings(&format!("{PART}{sources}")).is_empty());
        let nested = "[source.ssd]\nop = \"datasheet p. 3\"\nnand = \"table 2\"\n";
        assert!(findings(&format!("{PART}{nested}")).is_empty());
    }

    #[test]
    fn a_value_without_a_source_is_found() {
        let sources = "[source]\n\"ssd.op\" = \"p. 3\"\n\"ssd.nand.t_read\" = \"table 2\"\n";
        let expected = (9, "`ssd.nand.t_erase` has no source".into());
        assert_eq!(findings(&format!("{PART}{sources}")), [expected]);
    }

    #[test]
    fn a_source_of_nothing_is_found() {
        let sources = "[source]\n\"ssd\" = \"datasheet\"\n\"ssd.nan\" = \"table 2\"\n";
        let expected = (12, "the source `ssd.nan` covers no value".into());
        assert_eq!(findings(&format!("{PART}{sources}")), [expected]);
    }

    #[test]
    fn a_host_is_looked_at_as_a_part_is() {
        let host = "[host]\nname = \"x\"\nstatus = \"sketch\"\n[processor]\ncores = 2\n";
        let found = |path: &str, text: &str| {
            let findings = check(&Tree::planted(&[(path, text)]));
            findings.into_iter().map(|f| (f.line, f.what)).collect::<Vec<_>>()
        };
        let sources = "[source]\n\"processor.cores\" = \"counted\"\n";
        assert_eq!(found("devices/hosts/x.toml", &format!("{host}{sources}")), []);
        let missing = (5, "`processor.cores` has no source".to_string());
        assert_eq!(found("devices/hosts/x.toml", host), [missing]);
        assert!(found("devices/x.toml", &format!("{host}{sources}"))[0].1.contains("[part]"));
    }

    #[test]
    fn a_status_is_needed() {
        let text = PART.replace("datasheet", "perfect") + "[source]\nssd = \"datasheet\"\n";
        assert_eq!(findings(&text).len(), 1);
        assert_eq!(findings("[part\n").len(), 1);
    }
}
