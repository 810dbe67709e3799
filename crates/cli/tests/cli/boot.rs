//! `blocklab boot`: recordings on devices, what is refused, and one kernel booted for real.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::{skip, until};
use crate::support::{Test, entries};

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

/// A record of a boot in which two processes waited.
pub(crate) const RECORD: &str = concat!(
    "{\"format\":\"blocklab boot record 1\",\"kernel\":\"6.1\",\"until\":\"a.target\",",
    "\"reached\":true,\"incomplete\":null,\"end_ns\":2000,\"recorder\":4,\"init\":5,",
    "\"forks\":1,\"exits\":0,\"lost\":0}\n{\"milestone\":\"init\",\"at_ns\":0}\n",
    "{\"pid\":5,\"parent\":4,\"name\":\"init\",\"start_ns\":0,\"io_ns\":3}\n",
    "{\"pid\":6,\"parent\":5,\"name\":\"reader\",\"start_ns\":9,\"io_ns\":700}\n",
);

#[test]
fn a_record_is_shown_again() {
    let args = ["boot", "report", "a.record", "--json", "--html", "r.html"];
    let out = Test::new().file("a.record", RECORD).args(&args).run();
    assert_eq!(out.code, 0, "{}", out.stderr);
    let answer: Value = serde_json::from_str(&out.stdout).unwrap();
    let rows = &answer["boots"][0]["ranking"];
    assert_eq!((&rows[0]["name"], &rows[1]["io_ns"]), (&"reader".into(), &3.into()));
}

#[test]
fn bootcharts_are_named_as_not_read() {
    let told = |bytes: &[u8]| {
        let out = Test::new().file("a", bytes).args(&["boot", "report", "a"]).run();
        assert_eq!(out.code, 2, "{}", out.stderr);
        out.stderr
    };
    let packed = told(b"\x1f\x8b\x08\0\0\0\0\0\0\x03");
    assert!(packed.contains("record a: packed by gzip, which is not read"), "{packed}");
    let svg = told(b"<?xml?>\n<svg>\n<!-- This file is a systemd-bootchart SVG file. -->\n</svg>");
    assert!(svg.contains("record a: line 1: a picture of systemd-bootchart"), "{svg}");
}

#[test]
fn two_boots_are_compared() {
    let test = Test::new()
        .file("a.record", RECORD)
        .file("b.record", RECORD.replace("\"io_ns\":700", "\"io_ns\":20700"));
    let out = test.args(&["boot", "report", "a.record", "b.record", "--html", "r.html"]).run();
    assert_eq!(out.code, 0, "{}", out.stderr);
    let told = "I/O delay in b less that in a, by process:";
    assert!(out.stdout.contains(told) && out.stdout.contains(" +0.000020 "), "{}", out.stdout);
}

/// A system with systemd and GRUB's files, in a folder.
#[test]
fn a_recorder_goes_into_a_system_and_out_and_its_record_is_fetched() {
    let grub =
        "source ${config_directory}/custom.cfg\nmenuentry 'Debian' {\n\tlinux /vmlinuz ro\n}\n";
    let test = Test::new();
    let root = test.path("root");
    let put = |name: &str, text: &str| {
        let path = root.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    put("usr/lib/systemd/systemd", "");
    put("boot/grub/grub.cfg", grub);
    let boot = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_blocklab"));
        test.run_as(command.arg("boot").args(args).args(["--root", "root"]))
    };
    let first = boot(&["install"]);
    assert_eq!(first.code, 0, "{}", first.stderr);
    assert!(first.stdout.contains("boot/grub/custom.cfg\nStart the machine by the entry"));
    assert!(first.stdout.ends_with(": blocklab boot install --remove --root root\n"));
    let second = boot(&["install"]);
    assert!(second.code == 2 && second.stderr.contains("is there already"), "{}", second.stderr);
    assert!(second.stderr.contains("install --remove --root root"), "{}", second.stderr);

    let collect = || boot(&["collect", "--out", "this.record"]);
    let early = collect();
    assert!(early.code == 3 && early.stderr.contains("no recorded boot"), "{}", early.stderr);
    assert!(early.stderr.contains("blocklab boot install --root root, then"), "{}", early.stderr);
    put("run/blocklab/boot.record", "");
    let soon = collect();
    assert!(soon.code == 3 && soon.stderr.contains("still recorded"), "{}", soon.stderr);
    put("run/blocklab/boot.record", RECORD);
    std::fs::write(test.path("this.record"), "my notes").unwrap();
    let over = collect();
    assert!(over.code == 2 && over.stderr.contains("this.record"), "{}", over.stderr);
    assert_eq!(std::fs::read_to_string(test.path("this.record")).unwrap(), "my notes");
    std::fs::remove_file(test.path("this.record")).unwrap();
    let fetched = collect();
    assert!(fetched.code == 0 && fetched.stdout.contains("  reader\n"), "{}", fetched.stdout);
    assert_eq!(std::fs::read_to_string(test.path("this.record")).unwrap(), RECORD);

    let out = boot(&["install", "--remove"]);
    assert_eq!((out.code, out.stdout.matches("removed ").count()), (0, 5), "{}", out.stdout);
    assert_eq!(std::fs::read_to_string(root.join("boot/grub/grub.cfg")).unwrap(), grub);
    assert!(!root.join("boot/grub/custom.cfg").exists());
    assert_eq!(boot(&["install", "--remove"]).stdout, "nothing was installed\n");
}

#[test]
fn a_usual_entry_that_is_not_known_is_told() {
    for json in [false, true] {
        let test = Test::new()
            .file("root/usr/lib/systemd/systemd", "")
            .file("root/efi/loader/loader.conf", "default @saved\n")
            .file("root/efi/loader/entries/a.conf", "linux /v\n")
            .args(&["boot", "install", "--root", "root"])
            .args(if json { &["--json"] } else { &[] });
        let out = test.run();
        assert_eq!(out.code, 0, "{}", out.stderr);
        let told = "root/efi/loader/loader.conf: default @saved: the loader keeps what was started \
                    last, so the recorded entry becomes the usual one, unless it is started by \
                    `bootctl set-oneshot -- -blocklab.conf`: which entry is the usual one is not \
                    known; a.conf was copied";
        let before = if json { "\"note\": \"" } else { "note: " };
        let squeezed = out.stdout.replace("\":\"", "\": \"");
        assert!(squeezed.contains(&format!("{before}{told}")), "{}", out.stdout);
    }
}

#[test]
fn a_report_takes_the_place_of_a_report_only() {
    for (option, ours) in [
        ("--html", "<!doctype html>\n<html lang=\"en\"><!-- made by blocklab -->older"),
        (
            "--perfetto",
            "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"made_by\":\"blocklab boot report\"},\
             \"older\":1}",
        ),
    ] {
        let args = ["boot", "report", "a.record", option, "out"];
        let run = |before: &str| {
            let test = Test::new().file("a.record", RECORD).file("out", before).args(&args);
            let out = test.run();
            (out.code, out.stderr, std::fs::read_to_string(test.path("out")).unwrap())
        };
        let (code, told, kept) = run("my notes");
        assert_eq!((code, kept.as_str()), (2, "my notes"), "{told}");
        assert!(told.contains("out exists already"), "{told}");
        let (code, told, new) = run(ours);
        assert!(code == 0 && !new.contains("older"), "{told}");
        // What was written just now is ours, too.
        assert_eq!(run(&new).0, 0);
    }
}

#[test]
fn what_cannot_be_recorded_is_told() {
    let told = |args: &[&str]| {
        let tar = [vec![b'x'; 257], b"ustar".to_vec(), vec![b'x'; 800]].concat();
        let test = Test::new().file("a.record", "{}").file("root.tar", tar);
        let out = test.args(&["boot"]).args(args).run();
        assert_eq!(out.code, 2, "{}", out.stderr);
        out.stderr
    };
    let record =
        |more: &[&'static str]| told(&[&["record", "--device", "slc2010-paper"], more].concat());
    assert!(record(&["--root", "none.tar"]).contains("--root none.tar"));
    assert!(record(&["--slice", "1us"]).contains("1ms or more"));
    assert!(record(&["--read-ahead", "a.record"]).contains("a.record: line 1"));
    assert!(record(&["--until", "../x"]).contains("no name of a unit"));
    assert!(record(&["--host", "no-such-host"]).contains("no-such-host"));
    assert!(record(&["--dilate", "2"]).contains("--dilate, but the boot is recorded in travel"));
    let machine = |more: &[&'static str]| record(&[&["--in", "qemu"], more].concat());
    assert!(machine(&["--queue"]).contains("--queue, but the boot is recorded in qemu"));
    assert!(machine(&["--root", "none.tar"]).contains("--root none.tar"));
    assert!(machine(&["--root", "root.tar", "--kernel", "none"]).contains("kernel none: "));
    assert!(machine(&["--root", "a.record"]).contains("a.record: it is shorter than a tar"));
    assert!(machine(&["--root", "root.tar"]).contains("root.tar: `tar` failed"));
    let advise =
        |more: &[&'static str]| told(&[&["advise", "--device", "slc2010-paper"], more].concat());
    assert!(advise(&["--vmlinuz", "a.record"]).contains("a.record: not a Linux kernel"));
    assert!(advise(&["--root", "none.tar"]).contains("--root none.tar"));
    assert!(advise(&["--limit", "1500ms"]).contains("expected: whole seconds"));
    assert!(told(&["record", "--device", "no-such-part"]).contains("no-such-part"));
    assert!(told(&["report", "a.record"]).contains("a.record: line 1: format null"));
}

#[test]
fn what_cannot_be_loaded_is_told() {
    let damaged = Test::new()
        .file("a.boot", "blocklab boot recording 1\nkernel k\nvariant\n")
        .args(&["boot", "load", "--recording", "a.boot"])
        .run();
    assert_eq!(damaged.code, 2);
    assert!(damaged.stderr.contains("a.boot: line 3: `variant`: expected"), "{}", damaged.stderr);
    let memory = load(4_000_000, &["--mem", "1G"]).run();
    assert!(memory.code == 2 && memory.stderr.contains("--mem"), "{}", memory.stderr);
    let stored = load(4_000_000, &["--variant", "xz"]).run();
    assert!(stored.code == 2 && stored.stderr.contains("--variant"), "{}", stored.stderr);
    let no_kernel = Test::new()
        .file("vmlinuz", "text")
        .args(&["boot", "image", "vmlinuz", "--out", "disk.img"])
        .run();
    assert_eq!(no_kernel.code, 2);
    assert!(no_kernel.stderr.contains("vmlinuz: not a Linux kernel"), "{}", no_kernel.stderr);
    let no_part = Test::new()
        .file("vmlinuz", "text")
        .args(&["boot", "load", "vmlinuz", "--device", "emmc-51", "--device", "mlc2010"])
        .run();
    assert_eq!(no_part.code, 2);
    assert!(no_part.stderr.contains("no part named `mlc2010`"), "{}", no_part.stderr);
}

#[test]
fn what_a_firmware_cannot_start_is_told_and_left_out_beside_what_it_can() {
    let told = |args: &[&str]| {
        let load = ["boot", "load", "vmlinuz", "--record", "out", "--wall-limit", "0"];
        let out = Test::new().file("vmlinuz", "text").args(&load).args(args).run();
        assert_eq!(out.code, 2, "{}", out.stderr);
        out.stderr
    };
    assert!(told(&["--variant", "uki"]).contains("started by UEFI only"));
    assert!(told(&["--firmware", "uefi", "--file-system", "ext4"]).contains("UEFI reads FAT only"));
    assert!(told(&["--mem", "32M"]).contains("--mem 32M"));
    assert!(told(&["--mem", "4096T"]).contains("--mem 4096T"));
    assert!(told(&["--firmware", "efi"]).contains("firmware `efi`"));
    // What is left is made: the kernel is looked at.
    let both = told(&["--variant", "uki", "--firmware", "bios", "--firmware", "uefi"]);
    assert!(both.contains("vmlinuz: not a Linux kernel"), "{both}");
}

/// The kernel that `make clients` fetched.
pub(crate) fn kernel() -> Option<PathBuf> {
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

/// A boot of that kernel stored plain, in the test's directory; `None` where it cannot be booted.
fn booted(test: &Test, args: &[&str]) -> Option<Command> {
    loaded(test, &[&["--variant", "plain"], args].concat())
}

/// That kernel, where it can be booted.
pub(crate) fn bootable_kernel() -> Option<PathBuf> {
    let Some(kernel) = kernel() else {
        skip("boot", "no kernel of Debian's in the cache folder");
        return None;
    };
    if let [missing, ..] = boot::missing_packages()[..] {
        skip("boot", &format!("no {missing}"));
        return None;
    }
    Some(kernel)
}

fn loaded(test: &Test, args: &[&str]) -> Option<Command> {
    let kernel = bootable_kernel()?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_blocklab"));
    command.args(["boot", "load"]).arg(kernel).args(args);
    command.env("TMPDIR", test.path(""));
    Some(command)
}

#[test]
fn a_guest_that_is_not_done_in_time_is_ended() {
    let test = Test::new();
    let Some(mut command) = booted(&test, &["--wall-limit", "1"]) else { return };
    let out = test.run_as(&mut command);
    assert_eq!(out.code, 3, "{}", out.stderr);
    assert!(out.stderr.contains("did not come to its kernel's init in time"), "{}", out.stderr);
    assert_eq!(entries(&test.path("")), [""; 0]);
}

/// An archive of one file that has so many bytes of zeros in it.
fn archive_of_zeros(bytes: usize) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, bytes) in [("zeros", bytes), ("TRAILER!!!", 0)] {
        let numbers = [1, 0o100_644, 0, 0, 1, 0, bytes, 0, 0, 0, 0, name.len() + 1, 0];
        out.extend(b"070701");
        numbers.iter().for_each(|number| out.extend(format!("{number:08x}").bytes()));
        out.extend(name.bytes().chain([0]));
        out.resize(out.len().next_multiple_of(4) + bytes.next_multiple_of(4), 0);
    }
    out
}

#[test]
fn an_initramfs_that_the_kernel_has_no_room_for_is_an_error() {
    let test = Test::new().file("zeros.cpio", archive_of_zeros(120 << 20));
    let args = ["--variant", "shipped", "--initramfs", "zeros.cpio", "--pack-initramfs", "gzip"];
    let Some(mut command) = loaded(&test, &args) else { return };
    let small = test.run_as(command.args(["--device", "emmc-51", "--mem", "192M"]));
    assert_eq!(small.code, 3, "{}", small.stderr);
    let told = "the kernel did not unpack its initramfs: [";
    assert!(small.stderr.contains(told), "{}", small.stderr);
    assert!(small.stderr.contains("Initramfs unpacking failed: write error"), "{}", small.stderr);
    // The usual memory is enough.
    let large = test.run_as(loaded(&test, &args).as_mut().unwrap());
    assert_eq!(large.code, 0, "{}", large.stderr);
}

#[test]
fn a_load_that_is_killed_takes_its_guest_along() {
    let test = Test::new();
    let Some(mut command) = booted(&test, &[]) else { return };
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let status = |process: &str, key: &str| {
        let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix(key));
        line.map_or(String::new(), |value| value.trim().to_string())
    };
    let guest = |load: u32| {
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let mut names = processes.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.find(|name| {
            status(name, "PPid:") == load.to_string() && status(name, "Name:").starts_with("qemu")
        })
    };
    for signal in [Signal::INT, Signal::KILL] {
        let mut load = command.spawn().unwrap();
        let mut found = None;
        until("QEMU runs", || {
            found = guest(load.id());
            found.is_some()
        });
        kill_process(Pid::from_child(&load), signal).unwrap();
        assert_eq!(load.wait().unwrap().signal(), Some(signal.as_raw()));
        let found = found.unwrap();
        // Nobody may be there to bury it.
        until("QEMU is gone", || {
            let state = status(&found, "State:");
            state.is_empty() || state.starts_with('Z')
        });
        assert_eq!(entries(&test.path("")).is_empty(), signal == Signal::INT);
    }
    // What the dead one left goes with the next.
    assert_eq!(test.run_as(booted(&test, &["--wall-limit", "1"]).as_mut().unwrap()).code, 3);
    assert_eq!(entries(&test.path("")), [""; 0]);
}

/// Recorded twice, which must agree to the instruction: the folder of the first recordings. `None`
/// where it cannot be run.
fn recorded_twice(test: &Test, args: &[&str]) -> Option<PathBuf> {
    let [first, again] = ["first", "again"].map(|folder| {
        let folder = test.path(folder);
        let mut command = loaded(test, args)?;
        let out = test.run_as(command.args(["--record", folder.to_str().unwrap()]));
        assert_eq!(out.code, 0, "{}", out.stderr);
        Some((folder, out.stderr))
    });
    let ((first, told), (again, told_again)) = (first?, again?);
    if (told.clone() + &told_again).contains("waited for this machine") {
        // Not `boot`: that is there, and nobody can promise a disk that is idle.
        skip("same-instructions", &format!("{told}{told_again}"));
        return Some(first);
    }
    for name in entries(&first) {
        let text = |folder: &Path| std::fs::read_to_string(folder.join(&name)).unwrap();
        assert_eq!(text(&first), text(&again), "{name}");
    }
    Some(first)
}

#[test]
fn a_plain_kernel_reaches_its_init_and_again_to_the_instruction() {
    let test = Test::new();
    let Some(folder) = recorded_twice(&test, &["--variant", "plain"]) else { return };
    let first = folder.join(&entries(&folder)[0]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_blocklab"));
    let out = test.run_as(command.args(["boot", "load", "--json", "--recording"]).arg(first));
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

/// What `loaded` answers, which goes well; `None` where it cannot be run.
fn answer_of(test: &Test, args: &[&str]) -> Option<Value> {
    let out = test.run_as(loaded(test, args)?.arg("--json"));
    assert_eq!(out.code, 0, "{}", out.stderr);
    Some(serde_json::from_str(&out.stdout).unwrap())
}

/// Whether a guest can be started by UEFI.
fn has_uefi() -> bool {
    let missing = boot::missing_uefi_packages();
    missing.iter().take(1).for_each(|missing| skip("boot", &format!("no {missing}")));
    missing.is_empty()
}

#[test]
fn a_plain_kernel_is_the_same_to_the_instruction_by_uefi() {
    let test = Test::new();
    if has_uefi() {
        recorded_twice(&test, &["--firmware", "uefi", "--variant", "plain"]);
    }
}

#[test]
fn a_kernel_in_one_file_and_in_three_reaches_its_init_by_uefi() {
    if !has_uefi() {
        return;
    }
    let test = Test::new();
    let args = ["--firmware", "uefi", "--variant", "uki", "--variant", "shipped"];
    let Some(answer) = answer_of(&test, &args) else { return };
    let rows = answer["rows"].as_array().unwrap();
    let count = |row: usize, key: &str| rows[row][key].as_u64().unwrap();
    assert_eq!((&rows[0]["variant"], &rows[1]["variant"]), (&"uki".into(), &"shipped-uefi".into()));
    for (index, row) in rows.iter().enumerate() {
        // All is read, once.
        let (file, read) = (count(index, "file_bytes"), count(index, "read_bytes"));
        assert!(read >= file && read < file * 11 / 10, "{row}");
        assert!(count(index, "start_instructions") > 100_000_000, "{row}");
    }
    // The firmware reads one file in a few large reads; GRUB reads 32 KiB at a time.
    assert!(count(0, "reads") < 50 && count(1, "reads") > 200, "{answer}");
    assert!(count(0, "load_instructions") < count(1, "load_instructions"), "{answer}");
    assert_eq!(entries(&test.path("")), [""; 0]);
}

#[test]
fn what_grub_cannot_unpack_reaches_its_init_by_our_unpacker() {
    let test = Test::new();
    let args = ["--variant", "lz4", "--variant", "zstd"];
    let Some(answer) = answer_of(&test, &args) else { return };
    let count = |row: usize, key: &str| answer["rows"][row][key].as_u64().unwrap();
    // Zstandard packs better, and takes longer to unpack; that comes after the load.
    assert!(count(1, "file_bytes") < count(0, "file_bytes") * 8 / 10, "{answer}");
    assert!(count(1, "start_instructions") > count(0, "start_instructions"), "{answer}");
}
