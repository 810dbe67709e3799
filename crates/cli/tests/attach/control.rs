//! Faults while the device is in use.

use serde_json::{Value, json};

use crate::support::{Client, Folder, until};

pub(crate) fn ctl(folder: &Folder, words: &[&str]) -> (i32, String) {
    let mut args = vec!["attach", "ctl", "c.sock"];
    args.extend(words);
    let output = folder.blocklab(&args);
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(text).unwrap())
}

const ARGS: [&str; 6] = ["part.toml", "--socket", "s.sock", "--control", "c.sock", "--power-cuts"];

#[test]
fn faults_are_injected_and_lifted_while_the_device_is_in_use() {
    let folder = Folder::new();
    let mut session = folder.serve(&ARGS);
    let mut client = Client::new(&folder.path("s.sock"));
    assert_eq!(client.write(0, &[1; 8192]), 0);
    let inject = |words: &[&str]| {
        let (code, id) = ctl(&folder, &[&["inject"], words].concat());
        assert_eq!(code, 0, "{id}");
        id.trim().to_string()
    };
    let error = inject(&["error", "range=4KiB+4KiB", "op=read"]);
    assert_eq!(client.read(4096, 512), Err(5));
    assert_eq!(client.read(0, 512).unwrap(), [1; 512]);
    assert!(ctl(&folder, &["faults"]).1.contains("error range=4096+4096 op=read"));
    assert_eq!(ctl(&folder, &["lift", &error]).0, 0);
    // One that could not strike would look like a client that stands it.
    let (code, said) = ctl(&folder, &["inject", "error", "range=1TiB+4KiB"]);
    assert!(code == 2 && said.contains("it would never strike: the device has"), "{said}");
    inject(&["error", "op=write", "count=1"]);
    assert_eq!(client.write(4096, &[9; 512]), 5);
    assert_eq!(client.read(4096, 512).unwrap(), [1; 512], "what failed was not done");
    inject(&["lost", "count=1"]);
    assert_eq!(client.write(0, &[2; 512]), 0);
    assert_eq!(client.read(0, 512).unwrap(), [1; 512], "the device lied");
    inject(&["rot", "range=0+512"]);
    assert_ne!(client.read(0, 512).unwrap(), [1; 512]);
    assert_eq!(ctl(&folder, &["lift", "all"]).0, 0);
    assert_eq!(client.read(0, 512).unwrap(), [1; 512]);
    let status: Value = serde_json::from_str(&ctl(&folder, &["status"]).1).unwrap();
    assert!(status["measured"]["replies"].as_u64().unwrap() >= 7);
    let (code, said) = ctl(&folder, &["lift", "99"]);
    assert!(code == 2 && said.contains("there is no fault 99"), "{said}");
    let (code, said) = ctl(&folder, &["statsu"]);
    assert!(code == 2 && said.contains("did you mean `status`?"), "{said}");
    assert_eq!(ctl(&folder, &["quit"]).0, 0);
    assert_eq!(session.ended(), Some(0));
    let device = &folder.report("out/attach/attach.json")["devices"][0];
    let writes = device["operations"].as_array().unwrap().iter().find(|it| it["op"] == "write");
    // Of what failed nothing was written.
    let (requests, bytes) = (&writes.unwrap()["requests"], &writes.unwrap()["bytes"]);
    assert_eq!((requests, bytes), (&3.into(), &(8192 + 512).into()));
    let failures = &device["failures"];
    let one = |op| json!({"op": op, "requests": 1, "why": "I/O error"});
    assert_eq!(failures, &json!([one("read"), one("write")]));
    assert_eq!(folder.leftovers(), [""; 0]);
}

#[test]
fn a_hang_holds_a_request_until_it_is_lifted_and_never_the_end() {
    let folder = Folder::new();
    let mut session = folder.serve(&ARGS);
    let mut client = Client::new(&folder.path("s.sock"));
    let (_, id) = ctl(&folder, &["inject", "hang", "op=read"]);
    use std::io::Write;
    client.stream.write_all(&Client::request(0, 0, 512)).unwrap();
    let in_flight = || {
        let status: Value = serde_json::from_str(&ctl(&folder, &["status"]).1).unwrap();
        status["in_flight"].as_u64().unwrap()
    };
    until("it hangs", || in_flight() == 1);
    assert_eq!(ctl(&folder, &["lift", id.trim()]).0, 0);
    assert_eq!(client.reply(), 0);
    ctl(&folder, &["inject", "hang"]);
    client.stream.write_all(&Client::request(3, 0, 0)).unwrap();
    session.end();
}

#[test]
fn a_power_cut_ends_connections_and_keeps_what_was_flushed() {
    let folder = Folder::new();
    let mut session = folder.serve(&ARGS);
    let mut client = Client::new(&folder.path("s.sock"));
    assert_eq!(client.write(0, &[1; 4096]), 0);
    use std::io::{Read, Write};
    client.stream.write_all(&Client::request(3, 0, 0)).unwrap();
    assert_eq!(client.reply(), 0);
    let (code, said) = ctl(&folder, &["power-cut"]);
    assert!(code == 0 && said.contains("lost_writes"), "{said}");
    assert!(matches!(client.stream.read(&mut [0; 512]), Ok(0) | Err(_)), "the cable is pulled");
    let mut client = Client::new(&folder.path("s.sock"));
    assert_eq!(client.read(0, 4096).unwrap(), [1; 4096]);
    session.end();
}

#[test]
fn a_session_is_judged_by_the_same_limit_while_it_runs_and_at_its_end() {
    let folder = Folder::new();
    let mut session = folder.serve(&[&ARGS[..], &["--late-max", "10000"]].concat());
    let mut client = Client::new(&folder.path("s.sock"));
    for _ in 0..9 {
        assert_eq!(client.write(0, &[1; 512]), 0);
    }
    let status: Value = serde_json::from_str(&ctl(&folder, &["status"]).1).unwrap();
    session.end();
    let device = &folder.report("out/attach/attach.json")["devices"][0];
    let limit = &device["lateness"]["limit_p99_us"];
    assert!(limit.as_f64().unwrap() > 100.0, "{limit}");
    assert_eq!(&status["measured"]["lateness"]["limit_p99_us"], limit);
}

#[test]
fn a_dilated_device_takes_its_time_in_the_report() {
    let folder = Folder::new();
    let mut session = folder.serve(&["part.toml", "--socket", "s.sock", "--dilate", "50"]);
    let mut client = Client::new(&folder.path("s.sock"));
    for _ in 0..3 {
        assert_eq!(client.write(0, &[1; 512]), 0);
    }
    session.end();
    let text = std::fs::read_to_string(folder.path("out/attach/attach.json")).unwrap();
    let report: Value = serde_json::from_str(&text).unwrap();
    let write = &report["devices"][0]["operations"][0];
    assert_eq!((&report["dilation"], &write["modelled_us"]["mean"]), (&50.into(), &1000.0.into()));
    assert!(report["devices"][0]["faithful"].is_boolean());
}

#[test]
fn a_filled_drive_takes_time_to_read() {
    let folder = Folder::new();
    for (args, is_timed) in
        [(vec!["slc2010-paper"], false), (vec!["slc2010-paper", "--fill"], true)]
    {
        let mut session = folder.serve(&[&args[..], &["--socket", "s.sock"]].concat());
        assert!(Client::new(&folder.path("s.sock")).read(0, 4096).is_ok());
        session.end();
        let text = std::fs::read_to_string(folder.path("out/attach/attach.json")).unwrap();
        let report: Value = serde_json::from_str(&text).unwrap();
        let device = &report["devices"][0];
        let modelled = device["operations"][0]["modelled_us"]["mean"].as_f64().unwrap();
        assert_eq!(modelled > 20.0, is_timed, "{modelled}");
        assert_eq!(device["waf"], Value::Null, "nothing was written in the session");
    }
}

#[test]
fn an_answer_is_one_json_object_too() {
    let folder = Folder::new();
    let mut session = folder.serve(&ARGS);
    let ask = |words: &[&str]| {
        let output = folder.blocklab(&[&["attach", "ctl", "c.sock", "--json"], words].concat());
        let object: Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
        (output.status.code().unwrap(), object)
    };
    let (code, injected) = ask(&["inject", "hang", "op=read"]);
    assert!(code == 0 && injected["answer"].is_u64(), "{injected}");
    assert_eq!(ask(&["faults"]).1["answer"][0]["id"], injected["answer"]);
    assert_eq!(ask(&["status"]).1["answer"]["in_flight"], 0);
    assert_eq!(ask(&["lift", "all"]), (0, json!({ "answer": null })));
    for (words, message) in [(["lift", "99"], "there is no fault 99"), (["lfit", "1"], "`lift`?")] {
        let (code, refused) = ask(&words);
        assert_eq!((code, &refused["error"]["exit_code"]), (2, &2.into()), "{refused}");
        assert!(refused["error"]["message"].as_str().unwrap().contains(message), "{refused}");
    }
    assert_eq!(ask(&["quit"]), (0, json!({ "answer": null })));
    assert_eq!(session.ended(), Some(0));
    assert_eq!(ask(&["status"]).1["error"]["kind"], "input", "nobody listens any more");
}
