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
    let operations = done.report["devices"][0]["operations"].as_array().unwrap();
    panic!("{result:#} {operations:#?}");
}
