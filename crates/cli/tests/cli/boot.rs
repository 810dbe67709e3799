//! `blocklab boot`: recordings on devices, what is refused, and one kernel booted for real.

use std::path::PathBuf;

use serde_json::Value;

use crate::skip::skip;
use crate::support::Test;

/// A recording of `reads` reads of 32 KiB with so many instructions before each.
fn recording(variant: &str, reads: usize, instructions: u64) -> String {
    let head = format!("blocklab boot recording 1\nkernel k\nvariant {variant}\nfile_bytes 1\n");
    let lines = format!("{instructions} 64\n").repeat(reads);
    format!("{head}last_instructions 0\nstart_instructions 1000000\nreads {reads}\n{lines}")
}

fn load(slow_instructions: u64, args: &[&str]) -> Test {
    Test::new()
        .file("plain.boot", recording("plain", 1000, 100_000))
        .file("shipped.boot", recording("shipped", 250, slow_instructions))
        .args(&["boot", "load", "--recording", "plain.boot", "--recording", "shipped.boot"])
        .args(args)
}

#[test]
fn the_winner_and_the_crossover_are_told() {
    let out = load(4_000_000, &["--device", "wd-80g-5400", "--json"]).run();
    assert_eq!(out.code, 0, "{}", out.stderr);
    let answer: Value = serde_json::from_str(&out.stdout).unwrap();
    let rows = answer["rows"].as_array().unwrap();
    let of = |row: &Value, key: &str| row[key].as_f64().unwrap();
    // 1000 reads in order with 10^5 instructions each, then 10^6, at 3 x 10^9 a second.
    assert!((of(&rows[0], "processor_s") - 0.101 / 3.0).abs() < 1e-6, "{}", rows[0]);
    let (light, dense) = (&rows[0], &rows[1]);
    let computed = of(dense, "processor_s") - of(light, "processor_s");
    let waited = of(light, "device_s") - of(dense, "device_s");
    let at = &answer["crossovers"]["wd-80g-5400"];
    assert!((of(at, "device_factor") - computed / waited).abs() < 1e-9, "{at}");
    assert_eq!(light["fastest"], of(light, "total_s") <= of(dense, "total_s"));

    let text = load(1000, &["--device", "wd-80g-5400"]).run().stdout;
    assert!(text.contains("plain and shipped are never equal"), "{text}");
}

#[test]
fn what_cannot_be_loaded_is_told() {
    let damaged = Test::new()
        .file("a.boot", "blocklab boot recording 1\nkernel k\nvariant\n")
        .args(&["boot", "load", "--recording", "a.boot"])
        .run();
    assert_eq!(damaged.code, 2);
    assert!(damaged.stderr.contains("a.boot: line 3: `variant`: expected"), "{}", damaged.stderr);
    let no_kernel = Test::new()
        .file("vmlinuz", "text")
        .args(&["boot", "image", "vmlinuz", "--out", "disk.img"])
        .run();
    assert_eq!(no_kernel.code, 2);
    assert!(no_kernel.stderr.contains("vmlinuz: not a Linux kernel"), "{}", no_kernel.stderr);
}

/// The kernel that `make clients` fetched.
fn kernel() -> Option<PathBuf> {
    let set = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let base = set.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache")))?;
    let folders = std::fs::read_dir(base.join("blocklab/guest")).ok()?.flatten();
    let boot = folders.map(|folder| folder.path().join("boot"));
    let files = boot.filter_map(|boot| std::fs::read_dir(boot).ok()).flatten().flatten();
    let is_kernel = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz-"))
    };
    files.map(|file| file.path()).find(is_kernel)
}

#[test]
fn a_plain_kernel_reaches_its_init() {
    let Some(kernel) = kernel() else {
        return skip("boot", "no kernel of Debian's in the cache folder");
    };
    let kernel = kernel.display().to_string();
    let out = Test::new().args(&["boot", "load", &kernel, "--variant", "plain", "--json"]).run();
    if out.code == 3 && out.stderr.contains("apt-get install") {
        return skip("boot", &out.stderr);
    }
    assert_eq!(out.code, 0, "{}", out.stderr);
    let answer: Value = serde_json::from_str(&out.stdout).unwrap();
    let row = &answer["rows"][0];
    // The whole kernel was read, most of it once; blocks of zeros are holes in its file.
    let (file, read) = (row["file_bytes"].as_u64().unwrap(), row["read_bytes"].as_u64().unwrap());
    assert!(read > file * 9 / 10 && read < file * 5 / 4, "{row}");
    // GRUB needs some instructions for each read, and the kernel 10^8 to its init at least.
    let count = |key: &str| row[key].as_u64().unwrap();
    assert!(count("load_instructions") > 10_000 * count("reads"), "{row}");
    assert!(count("start_instructions") > 100_000_000, "{row}");
}
