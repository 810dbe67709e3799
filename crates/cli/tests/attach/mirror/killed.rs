//! `kill -9` at every step: of making a mirror, starting it, and replacing a leg.

use super::*;

/// Whether the program counts its steps, which only a build with debug assertions does; otherwise
/// says why the test is skipped.
fn can_be_killed() -> bool {
    if !cfg!(debug_assertions) {
        skip("debug-assertions", "this build does not count its steps");
    }
    cfg!(debug_assertions)
}

/// Have the process killed before its so-manieth step on a device; true when it was.
fn killed_at(folder: &Folder, args: &[&str], step: u64) -> bool {
    let at = step.to_string();
    let output = folder.blocklab_with(args, &[("BLOCKLAB_MIRROR_KILL_AT", &at)]);
    match output.status.code() {
        None => true,
        Some(0) => false,
        Some(_) => panic!("step {step}: {}", String::from_utf8_lossy(&output.stderr)),
    }
}

#[test]
fn a_start_killed_at_every_step_loses_nothing() {
    if !can_be_killed() {
        return;
    }
    let folder = made(&[]);
    let mut session = serve(&folder, &[]);
    let mut client = Client::new(&folder.path("s.sock"));
    let data: Vec<u8> = (0..8u32 << 20).map(|n| (n % 249) as u8).collect();
    assert_eq!(client.write(0, &data), 0);
    assert_eq!(client.flush(), 0);
    // Not flushed: the extents stay hot, so every start has something to compare.
    assert_eq!(client.write(9 << 20, &data[..100_000]), 0);
    session.signal("KILL");
    session.ended();
    let start = [&["mirror", "serve"], LEGS, &["--run", "true"]].concat();
    let mut step = 1;
    while killed_at(&folder, &start, step) {
        step += 1;
    }
    assert!(step > 5, "{step} steps");
    let mut session = serve(&folder, &[]);
    assert!(Client::new(&folder.path("s.sock")).read(0, 8 << 20).unwrap() == data);
    session.end();
    alike(&folder);
}

#[test]
fn create_killed_at_every_step_leaves_no_mirror_or_a_whole_one() {
    if !can_be_killed() {
        return;
    }
    let folder = made(&[]);
    blank(&folder, "third");
    let third = ["--witness", "third"];
    let overwrite = ["--overwrite", "fast", "--overwrite", "slow", "--overwrite", "third"];
    let create = [&["mirror", "create"], LEGS, &third, &overwrite].concat();
    let (mut step, mut none) = (1, 0);
    while killed_at(&folder, &create, step) {
        let output = run(&folder, "serve", &[LEGS, &third, &["--run", "true"]]);
        match output.status.code() {
            Some(0) => {}
            _ => {
                refused(&output, &["--without"]);
                none += 1;
            }
        }
        step += 1;
    }
    // Three devices: six steps at least to wipe each, two copies of each superblock.
    assert!(step > 20 && none > 15, "{step} steps, {none} without a mirror");
    serve(&folder, &third).end();
}

#[test]
fn replace_at_rest_killed_at_every_step_leaves_the_old_leg_or_the_new_one() {
    if !can_be_killed() {
        return;
    }
    let folder = made(&[]);
    let mut session = serve(&folder, &[]);
    let data = [7; 100_000];
    assert_eq!(Client::new(&folder.path("s.sock")).write(0, &data), 0);
    session.end();
    let replace = ["mirror", "replace", "slow", "--with", "new", "--overwrite", "new"];
    let replace = [&replace, LEGS].concat();
    let mut step = 1;
    loop {
        blank(&folder, "new");
        let killed = killed_at(&folder, &replace, step);
        let new = ["--fast", "fast", "--slow", "new"];
        // What was there is there all the same.
        let look = run(&folder, "status", &[LEGS, &["--json"]]);
        let status: Value = serde_json::from_slice(&look.stdout).unwrap();
        assert_eq!(status["devices"][1]["trouble"], Value::Null);
        let output = run(&folder, "serve", &[&new, &["--run", "true"]]);
        if !killed {
            assert_eq!(output.status.code(), Some(0));
            break;
        }
        if output.status.code() == Some(0) {
            // The last page was there already. Its start left the old leg out: begin anew.
            serve(&folder, &[]).end();
            let mut session = serve(&folder, &[]);
            until("the old leg is back", || live(&folder)["states"][1] == "member");
            session.end();
        } else {
            refused(&output, &["new is no device of a mirror", "--without slow"]);
        }
        step += 1;
    }
    assert!(step > 5, "{step} steps");
}

/// A served mirror is killed while a leg is being replaced: at steps all over the copy.
#[test]
fn replace_killed_while_served_loses_nothing() {
    if !can_be_killed() {
        return;
    }
    let data: Vec<u8> = (0..3u32 << 20).map(|n| (n % 247) as u8).collect();
    let folder = made(&["--size", "8MiB"]);
    let mut session = serve(&folder, &[]);
    let mut client = Client::new(&folder.path("s.sock"));
    assert_eq!(client.write(0, &data), 0);
    assert_eq!(client.flush(), 0);
    session.end();
    for name in ["fast", "slow"] {
        std::fs::copy(folder.path(name), folder.path(&format!("{name}.0"))).unwrap();
    }
    let (mut step, mut reached, mut filled) = (1, [0; 3], false);
    while !filled {
        for name in ["fast", "slow"] {
            std::fs::copy(folder.path(&format!("{name}.0")), folder.path(name)).unwrap();
        }
        blank(&folder, "new");
        let script = "\"$BLOCKLAB\" mirror replace slow --with new --control c.sock --wait";
        let at = step.to_string();
        let environment =
            [("BLOCKLAB_MIRROR_KILL_AT", &at[..]), ("BLOCKLAB", env!("CARGO_BIN_EXE_blocklab"))];
        let serving = [SERVE, LEGS, &["--run", script]].concat();
        let output = folder.blocklab_with(&serving, &environment);
        filled = output.status.code() == Some(0);
        // With the new leg, if it says that it is one; else with the old one.
        let new = run(&folder, "serve", &[&["--fast", "fast", "--slow", "new", "--run", "true"]]);
        let (slow, which) = match new.status.code() {
            Some(0) => ("new", 1),
            _ => {
                refused(&new, &["new is no device of a mirror"]);
                ("slow", 0)
            }
        };
        reached[which] += 1;
        reached[2] += u32::from(filled);
        let mut session = folder.session(&[SERVE, &["--fast", "fast", "--slow", slow]].concat());
        let read = Client::new(&folder.path("s.sock")).read(0, data.len() as u32).unwrap();
        assert!(read == data, "step {step}: what was flushed is not there");
        until("both are members", || live(&folder)["states"][1] == "member");
        session.end();
        let mut alone = folder
            .session(&[SERVE, &["--fast", "fast", "--slow", slow, "--without", "fast"]].concat());
        let read = Client::new(&folder.path("s.sock")).read(0, data.len() as u32).unwrap();
        assert!(read == data, "step {step}: the new leg alone lacks something");
        alone.end();
        // Where the superblocks are, then samples of the copy.
        step += match step {
            0..9 => 1,
            9..60 => 3,
            _ => 41,
        };
        assert!(step < 5000, "it is never filled");
    }
    assert!(reached[0] > 0 && reached[1] > 1 && reached[2] == 1, "{reached:?}");
}
