//! Every part file in `devices/`: it builds, says where its values come from, reads as fast as its
//! table says, and a small copy of it obeys the laws of the contract.

use std::path::Path;

use config::device::Context;
use flash::device::ssd::Params;
use flash::ftl::mapping::MappingScheme;
use flash::ssd::timing::MultiPlane;
use models::registry::DeviceModel;
use sim::{Completions, Counters, Device, Lba, Nanos, Op, Request, RequestId, Rng, Stepper};

/// Every part as (name, table), in the order of their names.
fn parts() -> Vec<(String, toml::Table)> {
    let devices = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../devices");
    let mut paths = Vec::new();
    for folder in [devices.clone(), devices.join("iocost")] {
        let files = std::fs::read_dir(&folder).expect("the parts are in devices/");
        paths.extend(files.map(|file| file.expect("a part file").path()));
    }
    paths.retain(|path| path.extension().is_some_and(|e| e == "toml"));
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let text = std::fs::read_to_string(path).expect("a part file is text");
        let table = text.parse().unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let name = path.strip_prefix(&devices).expect("it was found there").with_extension("");
        (name.to_string_lossy().into_owned(), table)
    };
    paths.iter().map(read).collect()
}

fn build(name: &str, model: &str, values: toml::Value) -> Box<dyn Device> {
    let table = toml::Table::from_iter([(model.to_string(), values)]);
    let model: DeviceModel = table.try_into().unwrap_or_else(|e| panic!("{name}: {e}"));
    let context = Context { rng: Rng::new(1, name) };
    model.build(&context).unwrap_or_else(|e| panic!("{name}: {e}"))
}

/// The SSDs among the parts, with their checked-in parameters.
fn ssds() -> Vec<(String, Params)> {
    let ssd = |(name, table): (String, toml::Table)| {
        let values = table.get("ssd")?.clone();
        let params = values.try_into().unwrap_or_else(|e| panic!("{name}: {e}"));
        Some((name, params))
    };
    parts().into_iter().filter_map(ssd).collect()
}

/// True when `table` has something at the dotted `key`.
fn has(table: &toml::Table, key: &str) -> bool {
    let (first, rest) = key.split_once('.').unwrap_or((key, ""));
    match table.get(first) {
        Some(_) if rest.is_empty() => true,
        Some(toml::Value::Table(inner)) => has(inner, rest),
        _ => false,
    }
}

/// Dotted keys of everything below `value` that is not a table.
fn leaves(value: &toml::Value, path: String, out: &mut Vec<String>) {
    match value {
        toml::Value::Table(table) => {
            table.iter().for_each(|(key, value)| leaves(value, format!("{path}.{key}"), out))
        }
        _ => out.push(path),
    }
}

#[test]
fn every_part_builds_and_names_the_source_of_every_value() {
    let parts = parts();
    assert!(parts.len() >= 17, "only {} parts", parts.len());
    for (name, table) in parts {
        let about = table["part"].as_table().expect("[part] is a table");
        assert_eq!(about["name"].as_str(), Some(&*name), "the file is named after the part");
        assert!(about["title"].as_str().is_some_and(|title| !title.is_empty()), "{name}");
        let status = about["status"].as_str().unwrap_or_default();
        let known = ["sketch", "datasheet", "calibrated", "validated"];
        assert!(known.contains(&status), "{name}: status {status}");
        let sources = table["source"].as_table().expect("[source] is a table");
        for key in sources.keys() {
            assert!(has(&table, key), "{name}: [source] names {key}, which the part does not set");
        }
        for (model, values) in &table {
            if model == "part" || model == "source" {
                continue;
            }
            let mut keys = Vec::new();
            leaves(values, model.clone(), &mut keys);
            for key in keys {
                let covered =
                    |source: &String| key == *source || key.starts_with(&format!("{source}."));
                assert!(sources.keys().any(covered), "{name}: {key} has no source");
            }
            if model == "block" {
                continue;
            }
            let capacity = build(&name, model, values.clone()).limits().capacity.0;
            assert!(capacity > 1 << 30, "{name}: {capacity} bytes");
        }
    }
}

#[test]
fn every_ssd_has_a_row_on_the_page_of_parts() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/parts.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    for (name, _) in ssds() {
        assert!(page.contains(&format!("\n| `{name}` | ")), "{name}");
    }
}

#[test]
fn capacities_follow_from_the_geometry() {
    for (name, params) in ssds() {
        let g = &params.geometry;
        let dies = u64::from(g.channels * g.packages_per_channel * g.dies_per_package);
        let blocks = dies * u64::from(g.planes_per_die) * u64::from(g.blocks_per_plane);
        let raw = blocks * u64::from(g.pages_per_block) * g.page.0.0;
        let device = params.build(&Context { rng: Rng::new(1, &name) }).unwrap();
        let limits = device.limits();
        let live = limits.capacity.0 as f64 / raw as f64;
        // The host of a zoned drive keeps spare zones itself.
        let most = if matches!(params.mapping, MappingScheme::Zns(_)) { 0.98 } else { 0.96 };
        assert!((0.65..most).contains(&live), "{name}: {live} of {raw} bytes");
        assert_eq!(u64::from(limits.block_bytes), g.page.0.0, "{name}");
        let types = [params.nand.read.len(), params.nand.program.len()];
        let one_shot = params.nand.program[0].0 == Nanos::ZERO;
        let pages = (g.pages_per_block / params.nand.units_per_page) as usize;
        let whole = types.iter().all(|&n| pages.is_multiple_of(n));
        assert!(!one_shot || whole, "{name}: a block ends within a one-shot word line");
    }
}

/// What one 4 KiB read of an idle drive takes, from the part's table alone: host command, flash
/// command, tR, bus, host link, completion. Pages of less than 4 KiB are read side by side.
fn unloaded_read_ns(params: &Params, page_in_block: u32) -> u64 {
    let page = params.geometry.page.0.0.min(4096);
    let bytes = page + if params.nand.spare_on_bus { page / 32 } else { 0 };
    let small = params.nand.read_small.as_ref().filter(|small| page <= small.up_to.0.0);
    let types = small.map_or(&params.nand.read, |small| &small.read);
    let page_in_block = page_in_block / params.nand.units_per_page;
    let array = types[page_in_block as usize % types.len()].0.0;
    let bus = bytes * 1_000_000_000 / params.nand.bus.0;
    let link = params.host.bandwidth.map_or(0, |rate| 4096 * 1_000_000_000 / rate.0);
    let host = &params.host;
    let on_host =
        host.command.0.0 + host.process_interval.0.0 + host.link_command.0.0 + host.completion.0.0;
    let overhead = on_host + params.nand.command.0.0;
    overhead + array + bus + link
}

#[test]
fn an_unloaded_read_takes_what_the_table_says() {
    for (name, params) in ssds() {
        let device = params.build(&Context { rng: Rng::new(1, &name) }).unwrap();
        let mut host = Stepper::new(device);
        let g = &params.geometry;
        let planes = g.channels * g.packages_per_channel * g.dies_per_package * g.planes_per_die;
        let page_sectors = g.page.0.0 / 512;
        // Four rows of pages over all planes: page types follow each other.
        host.device.apply(&Request::write(Lba(0), planes * page_sectors as u32 * 4));
        for row in 0..4 {
            // Not the first plane: pages of 2 KiB come in pairs on neighbouring channels.
            let lpn = u64::from(row * planes + planes / 2);
            let start = host.now();
            let end = host.answered(Request::read(Lba(lpn * page_sectors), 8));
            let (took, expected) = (end.since(start).0, unloaded_read_ns(&params, row));
            // The bus model rounds to picoseconds per sector.
            assert!(took.abs_diff(expected) <= 1, "{name}: row {row}: {took} ns, not {expected}");
        }
    }
}

/// Requests of so many sectors that a drive does in a second, one after the other.
fn rate(device: Box<dyn Device>, op: Op, sectors: u32, random: bool) -> f64 {
    let places = device.limits().sectors() / u64::from(sectors);
    let (mut rng, mut host, count) = (Rng::new(1, "places"), Stepper::new(device), 4_000);
    // Each begins with a place of its own, so that the first one is not special.
    let start = rng.below(places - count);
    for id in 0..count {
        let place = if random { rng.below(places) } else { start + id };
        host.answered(Request::new(op, Lba(place * u64::from(sectors)), sectors));
    }
    count as f64 / host.now().as_secs_f64()
}

/// Bytes of sequential writes that a second of a drive takes, with 8 MiB in flight: of the second
/// half of six times what its buffer holds, and at least 256 MiB.
fn written_a_second(params: &Params) -> f64 {
    const BYTES: u64 = 128 << 10;
    let count = (6 * params.buffer.capacity.0.0).max(256 << 20) / BYTES;
    let mut device = params.build(&Context { rng: Rng::new(1, "written") }).unwrap();
    let (mut out, mut now, mut half, mut answered) = (Completions::new(), Nanos::ZERO, None, 0);
    let submit = |device: &mut dyn Device, now, id| {
        let request = Request::write(Lba(id * BYTES / 512), BYTES as u32 / 512);
        device.submit(now, Request { id: RequestId(id), ..request }).unwrap();
    };
    (0..64).for_each(|id| submit(&mut *device, now, id));
    while answered < count {
        now = device.next_event().expect("a write ends");
        device.advance(now, &mut out);
        for _ in out.done.drain(..) {
            submit(&mut *device, now, 64 + answered);
            answered += 1;
        }
        half = half.or((answered >= count / 2).then_some((answered, now)));
    }
    let (before, begun) = half.expect("half of them");
    ((answered - before) * BYTES) as f64 / now.since(begun).as_secs_f64()
}

#[test]
fn planes_that_program_together_do_so() {
    let mut parts = 0;
    for (name, params) in ssds() {
        let (nand, g) = (&params.nand, &params.geometry);
        let paced = params.buffer.pace.is_some() || params.buffer.throttle.is_some();
        if nand.multi_plane == MultiPlane::Off || params.buffer.capacity.0.0 == 0 || paced {
            continue;
        }
        parts += 1;
        // All planes of a die program a page of each type (Equation of the model).
        let pages = f64::from(g.planes_per_die) * nand.program.len() as f64;
        let array: u64 = nand.program.iter().map(|time| time.0.0).sum();
        let page = g.page.0.0 as f64;
        let bus = nand.command.0.0 as f64 + page / nand.bus.0 as f64 * 1e9;
        let dies = f64::from(g.packages_per_channel * g.dies_per_package);
        let of_dies = dies * pages * page / (array as f64 + pages * bus);
        let flash = f64::from(g.channels) * of_dies.min(page / bus) * 1e9;
        let link = params.host.bandwidth.map_or(f64::INFINITY, |rate| rate.0 as f64);
        let (is, expected) = (written_a_second(&params), flash.min(link));
        assert!((0.9..1.02).contains(&(is / expected)), "{name}: {is:.3e} B/s of {expected:.3e}");
    }
    assert!(parts > 8, "{parts} parts");
}

#[test]
fn a_drive_of_six_numbers_gives_each_within_a_tenth() {
    // 4 MiB, in sectors: smaller ones give less, as each request takes a time of its own.
    const LARGE: u32 = 1 << 13;
    let mut drives = 0;
    for (name, table) in parts() {
        let Some(numbers) = table.get("iocost").and_then(toml::Value::as_table) else { continue };
        drives += 1;
        let number = |key: &str| {
            let text = numbers[key].to_string();
            text.trim_matches('"').trim_end_matches("B/s").parse::<f64>().expect(key)
        };
        for (key, op, sectors, random) in [
            ("rbps", Op::Read, LARGE, false),
            ("rseqiops", Op::Read, 8, false),
            ("rrandiops", Op::Read, 8, true),
            ("wbps", Op::Write, LARGE, false),
            ("wseqiops", Op::Write, 8, false),
            ("wrandiops", Op::Write, 8, true),
        ] {
            let device = build(&name, "iocost", table["iocost"].clone());
            let got = rate(device, op, sectors, random);
            let got = if sectors > 8 { got * 512.0 * f64::from(sectors) } else { got };
            let error = got / number(key) - 1.0;
            assert!(error.abs() < 0.1, "{name}: {key} is {got}, not {}", number(key));
        }
    }
    assert_eq!(drives, 36);
}

/// The same part with so few and small blocks that it collects all the time.
fn shrink(mut params: Params) -> Params {
    let g = &mut params.geometry;
    (g.channels, g.packages_per_channel, g.dies_per_package) = (2, 1, 1);
    g.planes_per_die = g.planes_per_die.min(4);
    (g.blocks_per_plane, g.pages_per_block) = (24, 12 * params.nand.units_per_page);
    params.collection.reserve_blocks = 1;
    if let MappingScheme::Zns(zns) = &mut params.mapping {
        zns.open_zones = zns.open_zones.min(8);
    }
    params.over_provisioning = flash::device::ssd::OverProvisioning::LivePercent(45.0);
    params.queue_depth_max = 64;
    params.oracle = true;
    params
}

#[test]
fn a_small_copy_of_every_part_obeys_the_laws() {
    for (name, params) in ssds() {
        let params = shrink(params);
        let make = || {
            let mut device = params.build(&Context { rng: Rng::new(1, &name) }).unwrap();
            let sectors = device.limits().sectors();
            device.apply(&Request::write(Lba(0), sectors as u32));
            let mut rng = Rng::new(9, "age");
            for _ in 0..sectors / u64::from(device.limits().block_bytes / 512) {
                device.apply(&Request::write(Lba(rng.below(sectors)), 1));
            }
            device
        };
        sim::laws::check_all(&name, &make, 0..2);
    }
}

/// Flash programs whole pages; what the host wrote is counted in bytes all the same.
#[test]
fn a_write_below_a_page_counts_its_own_bytes() {
    for rest in ["", "buffer = { capacity = '1MiB' }", "timing = 'none'"] {
        let table: toml::Table = format!("{rest}\n[geometry]\npage = '16KiB'").parse().unwrap();
        let mut stepper = Stepper::new(build(rest, "ssd", table.into()));
        let count = |device: &dyn Device| {
            let mut counters = Counters::default();
            device.counters(&mut counters);
            ["host_writes", "host_bytes_written", "flash_bytes_programmed.host"]
                .map(|name| counters.get(name))
        };
        stepper.submit(Request::write(Lba(8), 8)).unwrap();
        stepper.drain();
        assert_eq!(count(&*stepper.device), [1, 4096, 16384], "{rest}");
        // Half of it in each of two pages.
        stepper.device.apply(&Request::write(Lba(24), 16));
        assert_eq!(count(&*stepper.device), [3, 4096 + 8192, 3 * 16384], "{rest}");
    }
}
