//! Reading DiskSim's files: a small drive in their form, and damage of every kind.

use super::*;

const SPECS: &str = include_str!("small.diskspecs");
const MODEL: &str = include_str!("small.model");
const SEEK: &str = "Seek distances measured: 3\n1,\t1.5\n10,\t2.5\n\n90,\t8.0\n";

#[test]
fn a_drive_is_read() {
    assert_eq!(model_file(SPECS).unwrap(), "small.model");
    assert_eq!(seek_file(MODEL).unwrap(), "small.seek");
    let params = params(SPECS, MODEL, SEEK).unwrap();
    assert_eq!(params.rpm, 7200);
    assert_eq!(params.interface.0, 5_120_000);
    assert_eq!(params.overhead.read_miss_after_write, Some(milliseconds(0.56813)));
    assert_eq!(params.cache.segments, 3);
    assert_eq!(params.cache.segment.0.sectors(), 281);
    assert_eq!(params.geometry.zone.len(), 2);
    let second = params.geometry.zone[1];
    assert_eq!((second.first_cylinder, second.cylinders), (Some(61), 40));
    assert_eq!((second.band_cylinders, second.band_spares), (Some(6), 8));
    let mechanics = params.mechanics().unwrap();
    assert_eq!(mechanics.geometry.sectors(), 20_000);
    assert_eq!(mechanics.seek_ns(Default::default(), 10, 0, false), 2_500_000);
}

#[test]
fn errors_name_the_line() {
    let broken = SPECS.replace("Number of buffer segments = 3", "Number of buffer segments = x");
    let error = params(&broken, MODEL, SEEK).unwrap_err();
    let line = 1 + SPECS.lines().position(|l| l.contains("buffer segments")).unwrap();
    assert_eq!((error.file, error.line), ("diskspecs", line));
    assert!(error.message.contains("from 0 to 1024, got \"x\""), "{error}");
    let error = params(SPECS, &MODEL.replace("Block count", "Blocks"), SEEK).unwrap_err();
    assert!(error.to_string().contains("has no \"Block count\""), "{error}");
    let error = seek_points("1, 2\n1, 3\n").unwrap_err();
    assert_eq!(error.line, 2);
    let error = trace("R Hit 5 4 1.0 2.0\nX Hit 5 4 1 2\n").unwrap_err();
    assert_eq!(error.to_string().split(':').next(), Some("trace line 2"));
}

#[test]
fn damage_never_panics() {
    for text in [SPECS, MODEL] {
        for cut in 0..text.len() {
            let _ = params(&text[..cut], MODEL, SEEK);
            let _ = params(SPECS, &text[..cut], SEEK);
            let _ = seek_points(&text[..cut]);
            let _ = trace(&text[..cut]);
            // The file with one character replaced.
            for c in ["{", "}", "[", "]", "=", ",", "#", "9", "é"] {
                let damaged = format!("{}{c}{}", &text[..cut], &text[cut + 1..]);
                if let Ok(params) = params(&damaged, MODEL, SEEK) {
                    let _ = params.mechanics();
                }
            }
        }
    }
    let deep = "[".repeat(100_000);
    assert!(params(&format!("disksim_disk x {{ a = {deep}"), MODEL, SEEK).is_err());
}
