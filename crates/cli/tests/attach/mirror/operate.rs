//! What an operator does to a mirror: compare, replace, take back, change the mode, end it.

use serde_json::json;

use super::*;

const CONTROL: &[&str] = &["--control", "c.sock"];

fn overwrite(folder: &Folder, name: &str, at: u64, bytes: &[u8]) {
    let file = OpenOptions::new().write(true).open(folder.path(name)).unwrap();
    file.write_all_at(bytes, at).unwrap();
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn good(output: Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    text(&output)
}

fn written(folder: &Folder, at: u64, value: u8, bytes: usize) {
    let mut client = Client::new(&folder.path("s.sock"));
    assert_eq!(client.write(at, &vec![value; bytes]), 0);
    assert_eq!(client.flush(), 0);
}

#[test]
fn a_scrub_repairs_what_it_can_and_says_what_it_cannot() {
    let folder = made(&[]);
    let mut session = serve(&folder, &[]);
    written(&folder, 0, 9, 1 << 20);
    session.end();
    overwrite(&folder, "slow", DATA + 5 * 4096 + 17, b"rotten");
    overwrite(&folder, "fast", DATA + 9 * 4096, &[0; 4096]);
    let mut session = serve(&folder, &[]);
    let scrub = || run(&folder, "scrub", &[CONTROL, &["--wait", "--json"]]);
    let found: Value = serde_json::from_str(&good(scrub())).unwrap();
    assert_eq!((&found["mismatches"], &found["undecided"]), (&2.into(), &0.into()));
    let found: Value = serde_json::from_str(&good(scrub())).unwrap();
    assert_eq!((&found["scrub"], &found["mismatches"]), (&2.into(), &0.into()));
    session.end();
    alike(&folder);

    // Never written, so no checksum says which of the two is right: it is not guessed.
    overwrite(&folder, "slow", DATA + (20 << 20), b"unknown");
    let mut session = serve(&folder, &[]);
    let output = run(&folder, "scrub", &[CONTROL, &["--wait"]]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("0 wrong copies repaired, 1 blocks differ"), "{output:?}");
    assert_eq!(live(&folder)["undecided"], 1);
    assert_eq!(live(&folder)["scrub"]["completed"], 1);
    session.end();

    let mut session = serve(&folder, &["--without", "slow"]);
    refused(&run(&folder, "scrub", &[CONTROL]), &["nothing to compare with: slow is out"]);
    session.end();
    refused(&run(&folder, "scrub", &[CONTROL]), &["no mirror is served with c.sock"]);
}

#[test]
fn a_leg_is_replaced_and_filled_under_load() {
    let folder = made(&[]);
    blank(&folder, "new");
    let mut session = serve(&folder, &[]);
    written(&folder, 0, 5, 3 << 20);
    let replace = |with: &str, more: &[&str]| {
        run(&folder, "replace", &[&["slow", "--with", with], CONTROL, more])
    };
    refused(&replace("slow", &[]), &["is the mirror's slow already", "another device"]);
    refused(&replace("fast", &[]), &["is the mirror's fast already"]);
    refused(&replace("nothing", &[]), &["cannot open nothing"]);
    File::create(folder.path("small")).unwrap().set_len(LEG_BYTES - 4096).unwrap();
    refused(&replace("small", &[]), &["small has 67104768 bytes", "at least 67108864 bytes"]);
    overwrite(&folder, "new", 1080, &[0x53, 0xef]);
    refused(&replace("new", &[]), &["new holds an ext2, ext3 or ext4 file system", "--overwrite"]);
    refused(&replace("new", &["--overwrite", "fast"]), &["--overwrite fast", "--overwrite new"]);
    std::fs::copy(folder.path("fast"), folder.path("copy")).unwrap();
    refused(&replace("copy", &["--overwrite", "copy"]), &["copy is the fast of this mirror"]);
    std::fs::copy(folder.path("slow"), folder.path("copy")).unwrap();
    refused(&replace("copy", &["--overwrite", "copy"]), &["copy is the device that is to be"]);
    let witness = run(&folder, "replace", &[&["witness", "--with", "new"], CONTROL]);
    refused(&witness, &["was made without a witness"]);
    // None of that has changed anything.
    assert_eq!(live(&folder)["states"], serde_json::json!(["member", "member", "never"]));
    assert_eq!(live(&folder)["drops"], 0);

    let filled = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Without a pause, all over the mirror, and for as long as it takes.
        let writer = scope.spawn(|| {
            let mut n = 0;
            while !filled.load(Ordering::SeqCst) {
                written(&folder, (n * 7 % 600) << 16, 6, 200_000);
                n += 1;
            }
            n
        });
        let output = replace("new", &["--overwrite", "new", "--wait"]);
        filled.store(true, Ordering::SeqCst);
        assert!(writer.join().unwrap() > 0);
        let said = good(output);
        assert!(said.contains("slow is now"), "{said}");
        assert!(said.ends_with("slow is a full member\n"), "{said}");
    });
    let status = live(&folder);
    assert!(status["paths"][1].as_str().unwrap().ends_with("/new"), "{status}");
    assert!(status["copied_bytes"].as_u64().unwrap() >= status["bytes"].as_u64().unwrap());
    session.end();
    std::fs::rename(folder.path("slow"), folder.path("old")).unwrap();
    std::fs::rename(folder.path("new"), folder.path("slow")).unwrap();
    serve(&folder, &[]).end();
    alike(&folder);
    // The old leg is no longer current, and beside the other it is not believed.
    let status = run(&folder, "status", &[&["--fast", "fast", "--slow", "old", "--json"]]);
    let status: Value = serde_json::from_slice(&status.stdout).unwrap();
    assert!(status["devices"][1]["trouble"].as_str().unwrap().contains("older copy"), "{status}");
    let output = run(&folder, "serve", &[&["--fast", "fast", "--slow", "old"]]);
    refused(&output, &["old is an older copy of the slow, or was replaced", "--without slow"]);
    let output = run(&folder, "serve", &[&["--fast", "old", "--slow", "slow"]]);
    refused(&output, &["both claim to be the slow"]);
    let alone = ["--fast", "fast", "--slow", "old", "--without", "fast", "--run", "true"];
    let output = run(&folder, "serve", &[&alone]);
    // Nobody else is there to say so: only the operator's word stands against it.
    assert!(output.status.success());
    refused(&run(&folder, "serve", &[&["--fast", "fast", "--slow", "old"]]), &["split brain"]);
}

#[test]
fn a_dead_leg_is_replaced_at_rest() {
    let folder = made(&[]);
    let mut session = serve(&folder, &[]);
    written(&folder, 0, 5, 3 << 20);
    session.end();
    std::fs::remove_file(folder.path("slow")).unwrap();
    blank(&folder, "new");
    let replace =
        |more: &[&str]| run(&folder, "replace", &[&["slow", "--with", "new"], LEGS, more]);
    refused(&replace(&[]), &["cannot open slow", "--without slow"]);
    overwrite(&folder, "new", 0, b"XFSB");
    refused(&replace(&["--without", "slow"]), &["new holds an XFS file system"]);
    let said = good(replace(&["--without", "slow", "--overwrite", "new"]));
    assert!(said.contains("mirror serve --slow new"), "{said}");
    std::fs::rename(folder.path("new"), folder.path("slow")).unwrap();
    // It holds nothing, and says so.
    let alone = run(&folder, "serve", &[LEGS, &["--without", "fast"]]);
    refused(&alone, &["the leg that went on is missing"]);
    let mut session = serve(&folder, &[]);
    refused(&run(&folder, "replace", &[&["slow", "--with", "new"], LEGS]), &["cannot open new"]);
    until("the leg is a member again", || live(&folder)["states"][1] == "member");
    session.end();
    alike(&folder);

    // The fast leg is behind: the slow one must not go.
    let mut session = serve(&folder, &["--without", "fast"]);
    written(&folder, 0, 8, 4096);
    session.end();
    blank(&folder, "new");
    refused(&replace(&[]), &["only slow has everything: fast was left out earlier"]);
}

/// Whoever was told that a leg was replaced can rely on it.
#[test]
fn a_leg_that_was_replaced_is_not_believed_though_the_server_is_killed_at_once() {
    let folder = made(&[]);
    blank(&folder, "new");
    let mut session = serve(&folder, &[]);
    written(&folder, 0, 5, 100_000);
    good(run(&folder, "replace", &[&["slow", "--with", "new"], CONTROL]));
    session.signal("KILL");
    session.ended();
    let said = good(run(&folder, "status", &[LEGS]));
    assert!(said.contains("slow    slow: out"), "{said}");
    let mut session = serve(&folder, &[]);
    until("the old leg is filled", || live(&folder)["states"][1] == "member");
    assert_eq!(live(&folder)["joins"], 1, "{}", live(&folder));
    session.end();
    alike(&folder);
}

#[test]
fn a_witness_is_replaced() {
    let folder = Folder::new();
    ["fast", "slow", "third", "new"].iter().for_each(|name| blank(&folder, name));
    assert!(run(&folder, "create", &[LEGS, &["--witness", "third"]]).status.success());
    let mut session = serve(&folder, &["--witness", "third"]);
    good(run(&folder, "replace", &[&["witness", "--with", "new", "--wait"], CONTROL]));
    assert_eq!(live(&folder)["states"][2], "member");
    written(&folder, 0, 1, 4096);
    session.end();
    serve(&folder, &["--witness", "new"]).end();
}

#[test]
fn taking_back_what_is_no_longer_out_or_was_never_there_is_said() {
    let folder = made(&[]);
    let resync = |name: &str| run(&folder, "resync", &[&[name], CONTROL]);
    let mut session = serve(&folder, &[]);
    assert_eq!(good(resync("slow")), "slow is a full member: it lacks nothing\n");
    refused(&resync("witness"), &["made without a witness"]);
    session.end();
    let mut session = serve(&folder, &["--without", "slow"]);
    written(&folder, 0, 3, 100_000);
    refused(
        &resync("slow"),
        &["was not there when this mirror was started", "mirror replace slow"],
    );
    // What the help says works: all of it is copied.
    let replace = ["slow", "--with", "slow", "--overwrite", "slow", "--wait"];
    good(run(&folder, "replace", &[&replace, CONTROL]));
    session.end();
    serve(&folder, &[]).end();
    alike(&folder);
}

#[test]
fn the_mode_changes_while_it_is_served_and_at_rest() {
    let folder = made(&[]);
    let mut session = serve(&folder, &[]);
    let change = |mode: &str| run(&folder, "set-mode", &[&[mode, "--wait"], CONTROL]);
    let output = change("relaxed");
    let warned = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(warned.contains("8388608 bytes that were flushed may be gone"), "{warned}");
    assert!(good(output).ends_with("it runs in mode relaxed\n"));
    assert_eq!(live(&folder)["mode"], "relaxed");
    written(&folder, 0, 3, 100_000);
    good(change("strict"));
    assert!(good(change("strict")).starts_with("it runs in mode strict already"));
    session.signal("KILL");
    session.ended();
    assert_eq!(offline(&folder)["mode"], "strict");
    let at_rest = |mode: &str| run(&folder, "set-mode", &[&[mode], LEGS]);
    refused(&at_rest("log"), &["was not stopped in order", "--control PATH"]);
    let mut session = serve(&folder, &[]);
    refused(&at_rest("log"), &["fast is in use"]);
    session.end();
    assert_eq!(good(at_rest("log")), "mode log from the next start on; it was strict\n");
    let mut session = serve(&folder, &[]);
    assert_eq!(live(&folder)["mode"], "log");
    session.end();
    alike(&folder);
}

#[test]
fn a_mirror_ends_only_by_its_name() {
    let folder = made(&[]);
    let id = offline(&folder)["array"].as_str().unwrap().to_string();
    let destroy = |more: &[&str]| run(&folder, "destroy", &[LEGS, more]);
    let mut session = serve(&folder, &[]);
    refused(&destroy(&["--yes-destroy", &id]), &["fast is in use", "stop that one first"]);
    session.end();
    let say = format!("--yes-destroy {}", &id[..8]);
    refused(&destroy(&[]), &["this would end mirror", &id, &say]);
    refused(&destroy(&["--yes-destroy", &id[..7]]), &["first eight digits"]);
    refused(&destroy(&["--yes-destroy", "00000000"]), &["this is mirror", &id]);
    blank(&folder, "other");
    let stranger = ["--fast", "fast", "--slow", "other", "--yes-destroy", &id[..8]];
    refused(&run(&folder, "destroy", &[&stranger]), &["other is no device of a mirror"]);
    assert_eq!(offline(&folder)["clean"], true);
    assert!(good(destroy(&["--yes-destroy", &id[..8]])).contains(&id));
    refused(&run(&folder, "serve", &[LEGS]), &["fast is no device of a mirror"]);
    // Nothing is in the way of a new one.
    good(run(&folder, "create", &[LEGS]));
}

#[test]
fn every_change_is_one_json_object_too() {
    let folder = made(&[]);
    let object = |verb: &str, code: i32, args: &[&[&str]]| -> Value {
        let output = run(&folder, verb, &[args, &[&["--json"]]].concat());
        assert_eq!(output.status.code(), Some(code), "{}", text(&output));
        serde_json::from_slice(&output.stdout).expect("one JSON object")
    };
    let mut session = serve(&folder, &[]);
    let changed = object("set-mode", 0, &[&["strict", "--wait"], CONTROL]);
    assert_eq!((&changed["mode"], &changed["waited"]), (&"strict".into(), &true.into()));
    assert_eq!(changed["steps"].as_array().unwrap().last().unwrap(), "it runs in mode strict");
    let back = object("resync", 0, &[&["slow"], CONTROL]);
    assert_eq!((&back["device"], &back["waited"]), (&"slow".into(), &false.into()));
    assert_eq!(back["steps"], json!(["slow is a full member: it lacks nothing"]));
    let refused = object("resync", 2, &[&["witness"], CONTROL]);
    assert!(refused["error"]["message"].as_str().unwrap().contains("without a witness"));
    session.end();
    blank(&folder, "new");
    let replaced = object("replace", 0, &[&["slow", "--with", "new"], LEGS]);
    assert!(replaced["with"].as_str().unwrap().ends_with("/new"), "{replaced}");
    assert_eq!(replaced["steps"].as_array().unwrap().len(), 1, "{replaced}");
    let legs = ["--fast", "fast", "--slow", "new"];
    let served = object("serve", 0, &[&legs, &["--run", "true"]]);
    assert_eq!((&served["mode"], &served["states"][0]), (&"strict".into(), &"member".into()));
    assert!(object("destroy", 2, &[&legs])["error"]["message"].is_string());
    let id = served["array"].as_str().unwrap();
    let ended = object("destroy", 0, &[&legs, &["--yes-destroy", &id[..8]]]);
    assert_eq!(ended, json!({ "array": id }));
}
