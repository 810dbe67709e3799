//! `mirror torture` from outside.

use crate::support::Test;

#[test]
fn the_same_seeds_give_the_same_digest() {
    let args = ["mirror", "torture", "--seeds", "20", "--operations", "100", "--json"];
    let first = Test::new().args(&args).json();
    assert_eq!(first["ok"], true);
    assert_eq!((&first["seeds"], &first["operations"]), (&20.into(), &2000.into()));
    for jobs in ["1", "3"] {
        let again = Test::new().args(&args).args(&["--jobs", jobs]).json();
        assert_eq!(first["digest"], again["digest"], "{jobs} threads");
    }
    let other = ["mirror", "torture", "--seeds", "20", "--seed-base", "21", "--json"];
    assert_ne!(first["digest"], Test::new().args(&other).json()["digest"]);
}

#[test]
fn a_trace_tells_every_event() {
    let output = Test::new()
        .args(&["mirror", "torture", "--trace", "--seed-base", "3", "--operations", "20"])
        .run();
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stdout.contains("us > Write {"), "{}", output.stdout);
    assert!(output.stdout.contains("us < Reply {"), "{}", output.stdout);
}

#[test]
fn time_is_kept_and_nonsense_refused() {
    let output = Test::new().args(&["mirror", "torture", "--seconds", "1"]).run();
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stdout.contains("host requests"), "{}", output.stdout);
    Test::new().args(&["mirror", "torture", "--seeds", "0"]).refuses(&["--seeds"]);
}
