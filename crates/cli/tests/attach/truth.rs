//! One truth: what attach recorded gives the same times when a study replays it.

use crate::support::{Folder, have, same_times};

#[test]
fn a_recorded_session_replays_to_the_same_times() {
    if !have(&["fio"]) {
        return;
    }
    let folder = Folder::new();
    let script = "fio --name=t --ioengine=nbd --uri=\"$uri\" --rw=randrw --bs=4k --iodepth=8 \
                  --number_ios=400 --size=32M --output-format=terse";
    let done = folder.captive(&["mqsim-f", "--record", "t.trace"], script).good();
    let metrics = folder.replay("[device.ssd]\npart = \"mqsim-f\"", "t.trace");
    let operations = done.report["devices"][0]["operations"].as_array().unwrap();
    assert_eq!(metrics["host_requests"], 400.0);
    for operation in operations {
        same_times(operation, &metrics);
    }
    // What left was never before the model's moment, however late this machine was.
    let compensation = done.report["compensation_us"].as_f64().unwrap();
    for operation in operations {
        let mean = |key: &str| operation[key]["mean"].as_f64().unwrap();
        assert!(mean("served_us") >= mean("modelled_us") - compensation - 1e-3, "{operation}");
    }
    let lateness = &done.report["devices"][0]["lateness"];
    assert_eq!(lateness["early"], 0);
    assert!(lateness["p50"].is_number() && lateness["buckets_ns"].is_array());
}
