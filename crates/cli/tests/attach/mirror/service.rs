//! A mirror as a service: what its manager is told, and what monitoring reads.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use super::*;

#[test]
fn a_service_manager_is_told() {
    let folder = made(&[]);
    let manager = UnixDatagram::bind(folder.path("notify")).unwrap();
    manager.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let heard = || {
        let mut buffer = [0; 512];
        let got = manager.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..got]).into_owned()
    };
    let path = folder.path("notify").display().to_string();
    let variables = [("NOTIFY_SOCKET", &path[..]), ("WATCHDOG_USEC", "40000")];
    let mut session = folder.session_with(&[SERVE, LEGS].concat(), &variables);
    assert!(heard().starts_with("READY=1\n"));
    // Nobody uses the mirror, and still it shows that it is alive.
    for _ in 0..5 {
        assert_eq!(heard(), "WATCHDOG=1");
    }
    session.signal("TERM");
    let mut said = heard();
    while said == "WATCHDOG=1" {
        said = heard();
    }
    assert!(said.starts_with("STOPPING=1\n"), "{said}");
    assert_eq!(session.ended(), Some(0));
    assert_eq!(offline(&folder)["clean"], true);
    // A watchdog that is not meant for this process is not fed.
    let variables = [&variables[..], &[("WATCHDOG_PID", "1")]].concat();
    let mut session = folder.session_with(&[SERVE, LEGS].concat(), &variables);
    while !heard().starts_with("READY=1\n") {}
    session.signal("TERM");
    assert!(heard().starts_with("STOPPING=1\n"));
    assert_eq!(session.ended(), Some(0));
}

/// Metric names with their labels and values, after the rules of the text format.
fn parsed(text: &str) -> BTreeMap<String, f64> {
    let name_is_good = |name: &str| {
        name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_' || byte.is_ascii_digit())
    };
    let (mut kinds, mut seen, mut samples) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
    let mut family = String::new();
    for line in text.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", "HELP", name, help] => {
                assert!(name_is_good(name) && name.starts_with("blocklab_mirror_"), "{line}");
                assert!(help.ends_with('.'), "{line}");
                assert!(seen.insert(name.to_string()), "{name} comes twice");
                family = name.to_string();
            }
            ["#", "TYPE", name, kind] => {
                assert_eq!(name, family, "HELP and TYPE go together");
                assert!(["gauge", "counter"].contains(&kind), "{line}");
                assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                kinds.insert(name.to_string(), kind.to_string());
            }
            _ => {
                let (series, value) = line.rsplit_once(' ').expect(line);
                let name = series.split('{').next().unwrap();
                assert_eq!(name, family, "a sample belongs to the family before it");
                assert!(kinds.contains_key(name), "{line}");
                if let Some(labels) = series.strip_prefix(name).filter(|rest| !rest.is_empty()) {
                    let labels = labels.strip_prefix('{').and_then(|l| l.strip_suffix('}'));
                    for label in labels.expect(line).split(',') {
                        let (key, value) = label.split_once('=').expect(line);
                        assert!(name_is_good(key), "{line}");
                        assert!(value.len() >= 2 && value.starts_with('"') && value.ends_with('"'));
                    }
                }
                let value: f64 = value.parse().expect(line);
                assert!(value >= 0.0, "{line}");
                assert_eq!(samples.insert(series.to_string(), value), None, "{series} twice");
            }
        }
    }
    assert!(kinds.keys().eq(seen.iter()), "each family has a type");
    samples
}

#[test]
fn monitoring_reads_what_status_says() {
    let folder = made(&[]);
    let mut session = serve(&folder, &["--without", "slow"]);
    let mut client = Client::new(&folder.path("s.sock"));
    assert_eq!(client.write(0, &[1; 300_000]), 0);
    assert_eq!(client.flush(), 0);
    let output = folder.blocklab(&["mirror", "status", "--prometheus", "--control", "c.sock"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.ends_with('\n') && !text.ends_with("\n\n"));
    let samples = parsed(&text);
    let status = live(&folder);
    let array = status["array"].as_str().unwrap();
    let expected = [
        (format!("info{{array=\"{array}\",mode=\"log\"}}"), 1.0),
        ("device_state{device=\"fast\",state=\"member\"}".into(), 1.0),
        ("device_state{device=\"slow\",state=\"out\"}".into(), 1.0),
        ("device_state{device=\"slow\",state=\"member\"}".into(), 0.0),
        ("size_bytes".into(), status["bytes"].as_f64().unwrap()),
        ("out_of_sync_bytes{leg=\"slow\"}".into(), 327_680.0),
        ("out_of_sync_bytes{leg=\"fast\"}".into(), 0.0),
        ("resync_eta_seconds{leg=\"fast\"}".into(), 0.0),
        ("at_risk_bytes".into(), 0.0),
        ("log_bytes".into(), status["log_bytes"].as_f64().unwrap()),
    ];
    for (name, value) in expected {
        assert_eq!(samples.get(&format!("blocklab_mirror_{name}")), Some(&value), "{name}\n{text}");
    }
    // It is out: nobody knows when it will lack nothing.
    assert!(!samples.contains_key("blocklab_mirror_resync_eta_seconds{leg=\"slow\"}"));
    session.end();
}

#[test]
fn people_are_told_in_words() {
    let folder = made(&[]);
    let mut session = serve(&folder, &["--without", "slow"]);
    let output = folder.blocklab(&["mirror", "status", "--control", "c.sock"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("mirror ") && lines[0].ends_with("mode log"), "{text}");
    assert_eq!(lines[1], "fast    fast: member");
    assert_eq!(lines[2], "slow    not there: out");
    assert_eq!(lines[3], "at risk 0 bytes");
    session.end();
}
