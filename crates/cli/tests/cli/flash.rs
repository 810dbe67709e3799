//! `calibrate` from write amplification: how much flash a drive has.

use crate::support::{STUDY, Test};

const BASE: &str = "slc2010-paper";
const DEVICE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../devices/slc2010-paper.toml");

/// What the base with so many blocks a plane writes when so many KiB of it are used.
fn waf(blocks: u32, used_kib: u64) -> f64 {
    let study = format!(
        "[study]\ntitle = 'Drive'\n[device.ssd]\npart = '{BASE}'\ntiming = 'none'\n\
         geometry.blocks_per_plane = {blocks}\n\
         over_provisioning = {{ capacity = '{used_kib}KiB' }}\n\
         [workload.fio]\nrw = 'randwrite'\nbs = '4KiB'\nnorandommap = true\ntime_based = true\n\
         runtime = '1000h'\n[[precondition]]\nfill = {{ span = '100%' }}\n[[precondition]]\n\
         overwrite = {{ span = '100%', writes = '250%', unit = '4KiB' }}\n[run]\nrequests = 60000\n"
    );
    let answer = Test::study(&study).args(&["--json"]).json();
    answer["runs"][0]["metrics"]["waf"].as_f64().unwrap()
}

fn calibrate(table: &str, sets: &[&str]) -> Test {
    let test = Test::new().file("waf.csv", table);
    let test = test.args(&["calibrate", "--from", "waf.csv", "--base", BASE, "--out", "mine.toml"]);
    sets.iter().fold(test, |test, set| test.args(&["--set", set]))
}

/// A drive of 160 blocks a plane, and a base that has 100.
#[test]
fn the_flash_of_a_drive_is_found_by_what_it_writes() {
    // 160 x 16 blocks of 128 KiB are 327,680 KiB.
    // The last fill was measured twice.
    let used = [131_072, 163_840, 196_608, 229_376, 245_760, 262_144, 262_144];
    let rows: String = used.iter().map(|&kib| format!("{kib}KiB,{}\n", waf(160, kib))).collect();
    let table = format!("used,waf\n{rows}");
    let sets =
        ["ssd.geometry.blocks_per_plane=100", "ssd.over_provisioning={capacity=\"262144KiB\"}"];
    let test = calibrate(&table, &sets).args(&["--json"]);
    let answer = test.json();
    let key = &answer["keys"][0];
    let blocks: f64 = key["value"].as_str().unwrap().parse().unwrap();
    assert!((blocks / 160.0 - 1.0).abs() < 0.02, "{answer}");
    assert!(key["not_identified"].is_null(), "{answer}");
    assert_eq!(answer["held_back"].as_array().unwrap().len(), 2, "{answer}");
    for row in answer["held_back"].as_array().unwrap() {
        let of = |name: &str| row[name]["waf"].as_f64().unwrap();
        assert!((of("modelled") / of("measured") - 1.0).abs() < 0.03, "{row}");
    }
    // The part is one, of the capacity that was stated, and says where its flash comes from.
    let part = std::fs::read_to_string(test.path("mine.toml")).unwrap();
    for said in ["capacity = \"262144KiB\"", "status = \"calibrated\"", "at 5 fills of waf.csv"] {
        assert!(part.contains(said), "{said}: {part}");
    }
    let study =
        STUDY.replace("[device.null]\nlatency = \"10us\"", "[device.ssd]\npart = \"./mine.toml\"");
    Test::study(&study).file("mine.toml", &part).args(&["--json"]).json();
}

/// A base of pages that are larger than what is written, and a drive that writes parity.
#[test]
fn a_sketch_gets_a_finer_map_and_what_sequential_fills_write_beside() {
    let used = [163_840u64, 229_376, 262_144];
    let of = |kib: u64| format!("{kib}KiB,uniform,{}\n", 1.04 * waf(160, kib));
    let rows: String = used.map(of).concat();
    let text = std::fs::read_to_string(DEVICE).unwrap();
    let large = text.replace("page = \"2KiB\"", "page = \"8KiB\"");
    let large = large.replace("pages_per_block = 64", "pages_per_block = 16");
    let large = large.replace("copy_back = true", "copy_back = false");
    let seen = |table: &str| {
        let test = Test::new().file("waf.csv", table).file("base.toml", &large);
        let args = ["calibrate", "--from", "waf.csv", "--base", "base.toml", "--out", "mine.toml"];
        let sets =
            ["ssd.geometry.blocks_per_plane=100", "ssd.over_provisioning={capacity=\"262144KiB\"}"];
        let test = sets.iter().fold(test.args(&args), |test, set| test.args(&["--set", set]));
        let test = test.args(&["--hold-out", "0", "--json"]);
        let answer = test.json();
        let blocks: f64 = answer["keys"][0]["value"].as_str().unwrap().parse().unwrap();
        let part = std::fs::read_to_string(test.path("mine.toml")).unwrap();
        assert!(part.contains("units_per_page = 4"), "{part}");
        (answer["written_beside"].clone(), (blocks / 160.0 - 1.0).abs())
    };
    // One that says that nothing is written is not contradicted.
    let (said, _) = seen(&format!("used,pattern,waf\n{rows}262144KiB,sequential,1.000\n"));
    assert_eq!(said.as_array().map(Vec::len), Some(0), "{said}");
    // A line of a sequential fill says it; without one the three fills tell it from the flash.
    let (said, off) = seen(&format!("used,pattern,waf\n{rows}262144KiB,sequential,1.04\n"));
    assert!(off < 0.03, "{off}");
    assert_eq!(said[0], "ssd.nand.parity_every=25");
    let (told, off) = seen(&format!("used,pattern,waf\n{rows}"));
    assert!(off < 0.03, "{off}");
    let every: f64 = told[0].as_str().unwrap().rsplit('=').next().unwrap().parse().unwrap();
    assert!((15.0..50.0).contains(&every), "{told}");
}

/// What a base's map has to do with its flash is said where none of 4 KiB is laid over it.
#[test]
fn a_base_that_maps_more_than_4_kib_is_named() {
    let text = std::fs::read_to_string(DEVICE).unwrap();
    let large = text.replace("page = \"2KiB\"", "page = \"8KiB\"");
    let large = large.replace("copy_back = true", "copy_back = false");
    let test = Test::new().file("waf.csv", "used,waf\n60%,1.5\n80%,2.5\n");
    let test = test.file("base.toml", &large);
    let args = ["calibrate", "--from", "waf.csv", "--base", "base.toml", "--out", "mine.toml"];
    let said = test.args(&args).args(&["--set", "ssd.geometry.pages_per_block=16"]).run().stdout;
    assert!(said.contains("this base maps 8KiB"), "{said}");
}

/// Half empty drives write the same with any amount of flash.
#[test]
fn what_fills_do_not_tell_is_said() {
    let sets = ["ssd.geometry.blocks_per_plane=100"];
    let told = calibrate("used,waf\n5%,1.0\n10%,1.0\n", &sets).run();
    assert!(told.stdout.contains("not known by these points"), "{}", told.stdout);
    let told = calibrate("used,waf\n50%,9\n60%,1\n", &sets).run();
    assert!(told.stdout.starts_with("no answer: "), "{}", told.stdout);
    assert_eq!(told.code, 1, "a script must not go on with such a part");
}

#[test]
fn what_says_nothing_of_the_flash_is_refused() {
    let sets = ["ssd.geometry.blocks_per_plane=100"];
    for (table, said) in [
        ("used,waf\n", ["no line says how much was written", "two fills"]),
        ("used,waf\n50%,1.2\n50%,1.3\n", ["one fill", "two fills"]),
        ("used,waf\n50%,1.2\n9GiB,1.3\n", ["9GiB is more than", "says what it sells"]),
        ("used,waf\n50%,1.2\n60,1.3\n", ["line 3: used is `60`", "a size such as"]),
    ] {
        let test = calibrate(table, &sets);
        test.refuses(&said);
        assert!(!test.path("mine.toml").exists());
    }
    let table = "used,waf\n50%,1.2\n80%,1.3\n";
    calibrate(table, &sets)
        .args(&["--fit", "ssd.nand.read"])
        .refuses(&["--fit: waf.csv is a table"]);
    let large = ["ssd.over_provisioning={capacity=\"100TB\"}"];
    calibrate(table, &large).refuses(&["80% needs", "times the", "a base with"]);
    let disk = ["calibrate", "--from", "waf.csv", "--base", "wd-80g-5400", "--out", "mine.toml"];
    Test::new().file("waf.csv", table).args(&disk).refuses(&["has no flash to fit"]);
}

/// A pipe has no second time: whatever kind of table it brings is read at once.
#[test]
fn a_table_may_come_through_a_pipe() {
    for (table, said) in [
        ("used,waf\n50%,1.2\n50%,1.3\n", "one fill"),
        ("rw,bs,iodepth,iops\nrandread,4k,1,9\n", "1 points"),
    ] {
        let test = calibrate("", &[]);
        let pipe = test.path("waf.csv");
        std::fs::remove_file(&pipe).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let writer = std::thread::spawn(move || std::fs::write(pipe, table));
        test.refuses(&[said]);
        writer.join().unwrap().unwrap();
    }
}
