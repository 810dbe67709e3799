//! The closed model of Byun 2010, small: what the study hetero-mirror/paper finds must hold in 30
//! simulated seconds too.

use config::device::Context;
use models::registry::{DeviceModel, WorkloadModel};
use sim::{Counters, Nanos, NoProbe, Outcome, Rng, Stop, simulate};

const SSD: &str =
    r#"server = { base = "1ms", rate = "48128kB/s", freeze = { probability = 0.02 } }"#;
const DISK: &str = r#"server = { base = "2ms", spread = [0.4, 1.6], rate = "54272kB/s" }"#;
const UNBOUNDED: &str = r#"mode = "relaxed", exposure = { bytes = "1TiB", age = "1000h" },
    extent = "16MiB", ram = "1TiB", freeze = { stuck_after = "1000h" }"#;

/// Six customers offering `offered` writes a second for 30 s; what came out, and the most bytes
/// that were at risk.
fn run(device: &str, offered: u32) -> (Outcome, u64) {
    let one_line = device.replace('\n', " ");
    let table: toml::Table = toml::from_str(&format!("device = {{ {one_line} }}")).unwrap();
    let model: DeviceModel = table["device"].clone().try_into().unwrap();
    let rng = Rng::new(1, "hetero-mirror");
    let mut device = model.build(&Context { rng: rng.split("device") }).unwrap();
    let text = format!("customers = {{ offered = {offered}, time = \"30s\" }}");
    let workload: WorkloadModel = toml::from_str(&text).unwrap();
    let open: workload::Opener = &|_| Err(std::io::ErrorKind::NotFound.into());
    let context = workload::Context { rng: rng.split("workload"), limits: device.limits(), open };
    let mut workload = workload.build(&context).unwrap();
    let outcome =
        simulate(&mut *device, &mut *workload, Nanos::ZERO, Stop::default(), &mut NoProbe).unwrap();
    let mut counters = Counters::default();
    device.counters(&mut counters);
    let risk = counters.levels.iter().find(|(name, _)| name == "exposed_bytes_max");
    (outcome, risk.map_or(0, |&(_, bytes)| bytes))
}

fn response_ms(outcome: &Outcome) -> f64 {
    outcome.response_ns as f64 / outcome.requests as f64 / 1e6
}

#[test]
fn the_first_of_two_legs_is_faster_than_one_and_its_price_is_what_is_at_risk() {
    let mirror =
        |more: &str| format!("mirror = {{ fast = {{ {SSD} }}, slow = {{ {DISK} }}, {more} }}");
    let (alone, _) = run(SSD, 160);
    let (paper, risk) = run(&mirror(UNBOUNDED), 160);
    assert!(paper.requests > alone.requests, "{} {}", paper.requests, alone.requests);
    assert!(response_ms(&paper) < 0.75 * response_ms(&alone), "{}", response_ms(&paper));
    assert!(risk > 16 << 20, "{risk}");

    let bounded = r#"mode = "relaxed", extent = "16MiB", exposure = { bytes = "8MiB" }"#;
    let (bounded, risk) = run(&mirror(bounded), 160);
    assert!(risk <= 8 << 20, "not a byte over the bound: {risk}");
    assert!(response_ms(&bounded) > response_ms(&paper), "the bound costs something");
    assert!(response_ms(&bounded) < response_ms(&alone), "and leaves something");

    let (strict, risk) = run(&mirror(r#"mode = "strict", extent = "16MiB""#), 160);
    assert_eq!(risk, 0);
    assert!(response_ms(&strict) > response_ms(&alone), "both legs take longer than one");
}
