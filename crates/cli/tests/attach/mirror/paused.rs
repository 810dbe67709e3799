//! A server that does not run for a while, and legs that are late.

use std::time::{Duration, Instant};

use super::*;

/// More pauses than this are not waited for: hardly ever is one not enough.
const PAUSES_MAX: usize = 10;
/// So many write at once, so that when the server is stopped its legs owe it something.
const WRITERS: u64 = 4;
/// Longer than a leg may take.
const STOPPED: Duration = Duration::from_secs(6);

/// Stopped for longer than a leg may take, with requests out: no leg is to blame for that.
#[test]
fn a_server_that_is_stopped_throws_no_leg_out() {
    let folder = made(&["--mode", "strict"]);
    let mut session = serve(&folder, &[]);
    let answered = AtomicU64::new(0);
    let some_more = || has_reached(&answered, answered.load(Ordering::SeqCst) + 100);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let client = Client::new(&folder.path("s.sock"));
            let (mut blocks, mut seed) = (vec![Block::default(); BLOCKS as usize], 5 + writer);
            let answered = &answered;
            scope.spawn(move || write_until_killed(client, &mut blocks, &mut seed, answered));
        }
        scope.spawn(|| {
            let mut statuses = Vec::new();
            // Stopped between two requests it has nothing to blame on anybody: then once more.
            let caught = |status: &serde_json::Value| status["not_running_s"].as_f64() > Some(5.0);
            while statuses.len() < PAUSES_MAX && !statuses.last().is_some_and(caught) {
                some_more();
                session.signal("STOP");
                let stopped = Instant::now();
                until("it was stopped for long", || stopped.elapsed() > STOPPED);
                session.signal("CONT");
                some_more();
                statuses.push(live(&folder));
            }
            // The writers end with the server, whatever came of it.
            session.signal("TERM");
            assert_eq!(session.ended(), Some(0));
            assert!(statuses.last().is_some_and(caught), "no pause was seen: {statuses:?}");
            for status in statuses {
                assert_eq!(status["drops"], 0, "{status}");
                assert_eq!(status["states"], serde_json::json!(["member", "member", "never"]));
            }
        });
    });
    alike(&folder);
}

#[test]
fn how_late_a_leg_may_be_is_an_option_that_status_shows() {
    let folder = made(&[]);
    let text = || {
        let output = run(&folder, "status", &[&["--control", "c.sock"]]);
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let mut session = serve(&folder, &[]);
    let late = "late    a flush waits 5 s for one leg; a leg may take over 1 s for 50 % of 60 s";
    assert!(text().contains(late), "{}", text());
    session.end();
    let mut session = serve(&folder, &["--flush-deadline", "2500ms", "--slow-over", "off"]);
    assert!(text().contains("late    a flush waits 2.5 s for one leg; slow legs are kept"));
    session.end();
    let mut session = serve(&folder, &["--slow-share", "20", "--slow-window", "5min"]);
    assert!(text().contains("a leg may take over 1 s for 20 % of 300 s"), "{}", text());
    session.end();
    refused(&run(&folder, "serve", &[LEGS, &["--slow-window", "1ms"]]), &["at least 1s"]);
    refused(&run(&folder, "serve", &[LEGS, &["--slow-over", "0s"]]), &["more than 0, or `off`"]);
    refused(&run(&folder, "serve", &[LEGS, &["--slow-share", "0"]]), &["1..=100"]);
}
