//! One truth: what attach recorded gives the same times when a study replays it.

use serde_json::Value;

use crate::support::{Folder, have};

#[test]
fn a_recorded_session_replays_to_the_same_times() {
    if !have(&["fio"]) {
        return;
    }
    let folder = Folder::new();
    let script = "fio --name=t --ioengine=nbd --uri=\"$uri\" --rw=randrw --bs=4k --iodepth=8 \
                  --number_ios=400 --size=32M --output-format=terse";
    let done = folder.captive(&["mqsim-f", "--record", "t.trace"], script).good();
    let study = "\
[device.ssd]
part = \"mqsim-f\"
[workload.trace]
file = \"t.trace\"
[workload.trace.replay.timestamps]
";
    std::fs::write(folder.path("study.toml"), study).unwrap();
    let run = folder.blocklab(&["run", "study.toml", "--no-report", "--json"]);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    let result: Value = serde_json::from_slice(&run.stdout).unwrap();
    let metrics = &result["runs"][0]["metrics"];
    let operations = done.report["devices"][0]["operations"].as_array().unwrap();
    assert_eq!(metrics["host_requests"], 400.0);
    for operation in operations {
        let name = operation["op"].as_str().unwrap();
        for key in ["mean", "p50", "p99", "max"] {
            let (attached, simulated) =
                (&operation["modelled_us"][key], &metrics[format!("{name}_latency_us_{key}")]);
            let (attached, simulated) = (attached.as_f64().unwrap(), simulated.as_f64().unwrap());
            assert!((attached - simulated).abs() < 1e-6, "{name} {key}: {attached} {simulated}");
        }
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
