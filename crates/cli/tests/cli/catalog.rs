//! `list`, `explain` and `schema` from outside.

use crate::support::Test;

#[test]
fn everything_listed_can_be_explained() {
    let kinds = Test::new().args(&["list", "--json"]).json();
    for (kind, names) in kinds.as_object().unwrap() {
        let kind = match kind.as_str() {
            "studies" => "study",
            "parts" => "part",
            "hosts" => "host",
            "metrics" => "metric",
            slot => slot,
        };
        for name in names.as_array().unwrap() {
            let path = format!("{kind}.{}", name.as_str().unwrap());
            let output = Test::new().args(&["explain", &path]).run();
            assert_eq!(output.code, 0, "{}", output.stderr);
            assert!(output.stdout.len() > 20, "{path}: {}", output.stdout);
        }
    }
}

#[test]
fn a_bare_name_is_enough_where_it_is_unique() {
    let output = Test::new().args(&["explain", "greedy"]).run();
    assert!(output.stdout.contains("# What it models"), "{}", output.stdout);
    let explained = Test::new().args(&["explain", "waf", "--json"]).json();
    assert_eq!(explained["name"], "metric.waf");
    // Each parameter with what it takes, its default and its meaning.
    let null = Test::new().args(&["explain", "device.null"]).run().stdout;
    let latency =
        "latency = a duration with a unit, such as \"25us\"; default 10us\n      Time from";
    assert!(null.contains(latency), "{null}");
    Test::new().args(&["explain", "gredy"]).refuses(&["did you mean `greedy`?"]);
    let kind = ["`gc` is a kind of things", "help: blocklab list gc"];
    Test::new().args(&["explain", "gc"]).refuses(&kind);
    Test::new().args(&["explain", "device"]).refuses(&["help: blocklab list device"]);
    Test::new().args(&["list", "part"]).refuses(&["did you mean `parts`?"]);
}

#[test]
fn checked_in_schemas_are_current() {
    for document in ["study", "part"] {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema");
        let checked_in = std::fs::read_to_string(format!("{root}/{document}.json")).unwrap();
        let output = Test::new().args(&["schema", document]).run();
        assert!(
            output.stdout == checked_in,
            "docs/schema/{document}.json is out of date; run: cargo run -p xtask -- generate"
        );
    }
}
