//! Short recordings by hand, and what a model makes of them.

use super::BesideRecording;
use crate::device::elevator::Params;
use crate::elevator::{ElevatorPolicy, mq_deadline};

/// Requests of one device: each line is the microsecond, the process, and what happens to what.
fn beside(policy: ElevatorPolicy, lines: &[&str]) -> BesideRecording {
    let mut text = String::new();
    for (nth, line) in lines.iter().enumerate() {
        let (us, rest) = line.split_once(' ').unwrap();
        let (process, what) = rest.split_once(' ').unwrap();
        let us: u32 = us.parse().unwrap();
        text += &format!("8,0 0 {nth} 0.{us:06}000 {process} {what} [p]\n");
    }
    let events = trace::queue_events("recorded", Box::new(std::io::Cursor::new(text))).unwrap();
    Params { policy, ..Params::default() }.beside(&events, true).unwrap()
}

fn order(made: &BesideRecording) -> Vec<u64> {
    made.modelled.requests.iter().map(|request| request.1).collect()
}

fn deadline() -> ElevatorPolicy {
    ElevatorPolicy::MqDeadline(mq_deadline::Params::default())
}

/// As in Linux since 6.5: the data of a commit goes past the others, and from there writes go on.
#[test]
fn the_data_of_a_flush_moves_the_place_where_writes_go_on() {
    let made = beside(
        deadline(),
        &[
            "0 7 Q W 50 + 8",
            "0 7 I W 50 + 8",
            "0 7 D W 50 + 8",
            "500 0 C W 50 + 8",
            "1000 8 Q FWFS 500 + 8",
            "1000 7 Q W 100 + 8",
            "1000 7 I W 100 + 8",
            "1000 7 Q W 200 + 8",
            "1000 7 I W 200 + 8",
            "1000 7 Q W 900 + 8",
            "1000 7 I W 900 + 8",
            "2000 8 D WFS 500 + 8",
            "3000 7 D W 900 + 8",
            "4000 7 D W 100 + 8",
            "5000 7 D W 200 + 8",
        ],
    );
    assert_eq!(order(&made), [50, 900, 100, 200]);
    assert_eq!(made.same_choices, made.choices());
}

/// The model goes to 100 first. What process 2 asks for next it asks since it had its answer, so
/// that it cannot become one with what was answered.
#[test]
fn what_was_answered_is_not_joined_by_what_comes_after_the_answer() {
    let made = beside(
        deadline(),
        &[
            "0 1 Q R 100 + 8",
            "0 1 I R 100 + 8",
            "0 2 Q R 1000 + 8",
            "0 2 I R 1000 + 8",
            "10 2 D R 1000 + 8",
            "500 0 C R 1000 + 8",
            "600 2 Q R 1008 + 8",
            "600 2 I R 1008 + 8",
            "610 2 D R 1008 + 8",
            "900 0 C R 1008 + 8",
            "910 1 D R 100 + 8",
            "990 0 C R 100 + 8",
        ],
    );
    assert_eq!(order(&made), [100, 1000, 1008]);
}

/// By the place where writes go on, which is at the begin, as in Linux since 6.5.
#[test]
fn before_any_batch_writes_are_the_direction_that_goes_on() {
    let made = beside(
        deadline(),
        &[
            "0 1 Q R 100 + 8",
            "0 1 I R 100 + 8",
            "0 2 Q W 1000 + 8",
            "0 2 I W 1000 + 8",
            "10 2 D W 1000 + 8",
            "20 1 D R 100 + 8",
        ],
    );
    assert_eq!(order(&made), [1000, 100]);
}

/// What is to be zero is one request of any length, and is left out like a flush.
#[test]
fn what_is_longer_than_a_request_and_was_not_cut_goes_alone() {
    let made = beside(
        deadline(),
        &[
            "0 1 Q WS 0 + 8000",
            "1 1 G WS 0 + 8000",
            "2 1 I WS 0 + 8000",
            "3 1 D WS 0 + 8000",
            "4 2 Q W 90000 + 8000",
            "5 2 G W 90000 + 2560",
            "6 2 I W 90000 + 2560",
            "7 2 D W 90000 + 2560",
        ],
    );
    assert_eq!((made.alone, made.queued), (1, 1));
    assert!(order(&made).iter().all(|&lba| lba >= 90_000));
}
