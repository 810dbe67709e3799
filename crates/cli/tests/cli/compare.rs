//! `compare`: what was measured beside what parts do.

use crate::support::Test;

const HEADER: &str = "rw,bs,iodepth,numjobs,iops,mean_us,p50_us,p99_us";
const NEAR: &str = "iocost/samsung-ssd-970-pro-512gb";
const FAR: &str = "iocost/intel-ssdpekka256g7";

#[test]
fn the_nearest_part_is_said_first() {
    // The random reads and writes of the one, which a saturated part does by construction.
    let table = format!("{HEADER}\nrandread,4k,32,1,376844,,,\nrandwrite,4k,8,4,241421,132.5,,\n");
    let said = |parts: [&str; 2]| {
        let args = ["compare", parts[0], parts[1], "--with", "mine.csv", "--requests", "2000"];
        Test::new().file("mine.csv", &table).args(&args).run()
    };
    for parts in [[NEAR, FAR], [FAR, NEAR]] {
        let output = said(parts);
        assert_eq!(output.code, 0, "{}", output.stderr);
        assert!(output.stdout.starts_with(&format!("{NEAR}: median errors: IOPS 0.")));
        for row in ["randread 4k depth 32", "randwrite 4k depth 4 x 8"] {
            assert!(output.stdout.contains(row), "{}", output.stdout);
        }
    }
    let args = ["compare", NEAR, "--with", "mine.csv", "--requests", "2000", "--json"];
    let all = Test::new().file("mine.csv", &table).args(&args).json();
    let part = &all["parts"][0];
    assert!(part["median_error"].as_f64().unwrap() < 0.01, "{part}");
    let points = part["points"].as_array().unwrap();
    assert_eq!((points.len(), points[1]["measured"]["latency_us_mean"].as_f64()), (2, Some(132.5)));
}

/// Of two errors the median lies between them.
#[test]
fn the_middle_of_two_is_between_them() {
    let table = "rw,bs,iodepth,iops\nrandread,4k,32,376844\nrandread,4k,64,753688\n";
    let args = ["compare", NEAR, "--with", "mine.csv", "--requests", "2000", "--json"];
    let all = Test::new().file("mine.csv", table).args(&args).json();
    let middle = all["parts"][0]["median_error"].as_f64().unwrap();
    assert!((middle - 0.25).abs() < 0.01, "{middle}");
}

/// How fast flash takes writes does not depend on how many of them a buffer takes before.
#[test]
fn a_buffer_does_not_count_as_flash() {
    let table = format!("{HEADER}\nrandwrite,4k,32,1,6000,,,\nrandread,4k,1,1,15000,,,\n");
    let [small, large] = ["1MiB", "64MiB"].map(|buffer| {
        let buffer = format!("ssd.buffer.capacity=\"{buffer}\"");
        let mut args = vec!["compare", "tlc-3d-128", "--with", "mine.csv", "--json", "--set"];
        args.extend([&buffer, "--requests", "10000", "--set", "ssd.geometry.blocks_per_plane=24"]);
        args.extend(["--set", "ssd.over_provisioning=\"28%\""]);
        let answer = Test::new().file("mine.csv", &table).args(&args).json();
        let points = answer["parts"][0]["points"].as_array().unwrap();
        [0, 1].map(|point: usize| points[point]["modelled"]["iops"].as_f64().unwrap())
    });
    assert!((large[0] / small[0] - 1.0).abs() < 0.05, "writes: {small:?}, {large:?}");
    assert_eq!(small[1], large[1], "reads");
}

#[test]
fn the_example_of_the_how_to_works() {
    let text = include_str!("../../../../docs/howto/compare-with-my-drive.md");
    let (_, table) = text.rsplit_once("```\nrw,").expect("it ends with a table");
    let (table, _) = table.split_once("```").unwrap();
    let smaller = ["ssd.geometry.blocks_per_plane=64", "ssd.over_provisioning=\"7%\""];
    for set in smaller {
        assert!(text.contains(&format!("--set {set}")) || text.contains(&format!("--set '{set}'")));
    }
    let mut args = vec!["compare", "samsung-980-pro-1tb", "--with", "mine.csv"];
    args.extend(["--requests", "3000", "--set", smaller[0], "--set", smaller[1]]);
    let output = Test::new().file("mine.csv", format!("rw,{table}")).args(&args).run();
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stdout.contains("randwrite 4k depth 4 x 128"), "{}", output.stdout);
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let row = "randread,4k,32,1,376844,,,";
    let one = format!("{HEADER}\n{row}\n");
    for (file, args, said) in [
        ("a,b\n1,2\n", vec![NEAR], ["line 1 is `a,b`", HEADER]),
        ("{\"jobs\":[]}", vec![NEAR], ["nothing to compare with", "randread"]),
        (
            &*one.replace("376844", "0"),
            vec![NEAR],
            ["nothing to compare with; 1 lines of rw=randread without a request", "randread"],
        ),
        (&*one.replace("376844", "1e-300"), vec![NEAR], ["line 2: IOPS is 1e-300", "0.001 to 1,0"]),
        (&*one, vec!["samsung"], ["there is no part named `samsung`", "blocklab list parts"]),
        (&*one, vec![NEAR, "--set", "ssd.gc=greedy"], ["none of the parts", "a key of iocost"]),
        (&*one, vec![NEAR, "--set", "iocost.rbp=1"], ["unknown name `rbp`", "rbps"]),
        (&*one.replace("4k", "3"), vec![NEAR], ["mine.csv: line 2: bs is `3`", "512"]),
        (&*one.replace("4k", "4x"), vec![NEAR], ["mine.csv: line 2: bs is `4x`", "such as 4k"]),
        (&*one.replace(",,,", ",,90,20"), vec![NEAR], ["line 2: p50 is 90 us", "rising order"]),
        (&*one.replace(",,,", ",,,,"), vec![NEAR], ["line 2 has 9 cells", "8, as line 1"]),
        (&*one.replace("mean_us", "iops"), vec![NEAR], ["line 1 has two columns `iops`", "one"]),
        (
            &*format!("{one}{}{row}\n", row.replace(",,,", ",,,\"")),
            vec![NEAR],
            ["line 3: a quot", "second"],
        ),
    ] {
        let args = [&["compare"], &args[..], &["--with", "mine.csv"]].concat();
        Test::new().file("mine.csv", file).args(&args).refuses(&said);
    }
    Test::new().args(&["compare", NEAR, "--with", "no.csv"]).refuses(&["no.csv"]);
}

/// What is offered is done, by all jobs of a row together, beside others and alone.
#[test]
fn offered_rates_are_those_of_all_jobs() {
    let table = "load,job,rw,bs,iodepth,numjobs,offered_iops,rate_process,iops,mean_us\n\
                 a,load,randwrite,4k,64,6,6000,poisson,6000,\n\
                 a,load,randread,4k,64,6,2000,poisson,,\n\
                 a,quiet,randread,4k,64,1,1000,,,60\n\
                 ,,randread,4k,64,3,3000,,3000,\n";
    let part = "iocost/samsung-ssd-970-pro-512gb";
    let args = ["compare", part, "--with", "a.csv", "--requests", "5000", "--json"];
    let answer = Test::new().file("a.csv", table).args(&args).json();
    let points = answer["parts"][0]["points"].as_array().unwrap();
    assert_eq!(points.len(), 4, "{answer}");
    for (point, wanted) in points.iter().zip([6_000.0, 2_000.0, 1_000.0, 3_000.0]) {
        let done = point["modelled"]["iops"].as_f64().unwrap();
        assert!((done / wanted - 1.0).abs() < 0.05, "{done}, not {wanted}: {point}");
    }
}
