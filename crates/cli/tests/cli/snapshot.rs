//! `blocklab snapshot`: a guest that goes and comes back, and images that must not be resumed.

use std::fs::File;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::boot::{bootable_kernel, kernel};
use crate::common::skip;
use crate::support::{Output, Test, entries};

/// `snapshot try` with the kernel that `make clients` fetched; `None` where it cannot be booted.
fn tried(test: &Test, args: &[&str]) -> Option<Output> {
    tried_by(test, Command::new(env!("CARGO_BIN_EXE_blocklab")), args)
}

/// The same by this command.
fn tried_by(test: &Test, mut command: Command, args: &[&str]) -> Option<Output> {
    let kernel = bootable_kernel()?;
    command.args(["snapshot", "try", "--json"]).arg(kernel).args(args);
    if !args.contains(&"--fill") {
        command.args(["--fill", "20"]);
    }
    // Whether KVM works here is tried once, by one test.
    if !args.contains(&"--accelerator") {
        command.args(["--accelerator", "tcg"]);
    }
    command.env("TMPDIR", test.path("tmp"));
    std::fs::create_dir_all(test.path("tmp")).unwrap();
    Some(test.run_as(&mut command))
}

#[test]
fn a_guest_comes_back_as_it_was() {
    let test = Test::new();
    let Some(out) = tried(&test, &["--accelerator", "auto"]) else { return };
    assert_eq!(out.code, 0, "{}", out.stderr);
    let answer: Value = serde_json::from_str(&out.stdout).unwrap();
    assert!(answer["accelerator"] == "kvm" || answer["accelerator"] == "tcg", "{answer}");
    let cycle = &answer["cycles"][0];
    let count = |name: &str| cycle["counts"][name].as_f64().unwrap();
    assert_eq!(count("pages"), count("data") + count("zero") + count("word"));
    // At least the 20 MiB; zeros and words are not written, and little else is.
    assert!(count("data") > 5120.0 && count("zero") > 1000.0, "{cycle}");
    assert!(count("written_bytes") < count("data") * 4096.0 * 1.02, "{cycle}");
    // What `--dry-run` said of it.
    assert!((0.8..1.3).contains(&(count("would_be") / count("pages"))), "{cycle}");
    assert!((0.7..1.4).contains(&(count("would_store") / count("data"))), "{cycle}");
    // The loader itself is small.
    let loader = cycle["loader"].as_str().unwrap();
    let aside = loader.split(", ").nth(1).unwrap().split(' ').next().unwrap();
    assert!(aside.parse::<u32>().unwrap() <= 40, "{loader}");
    assert_eq!(entries(&test.path("tmp")), [""; 0]);
}

#[test]
fn a_packed_image_comes_back_and_is_shorter() {
    let test = Test::new();
    let Some(out) = tried(&test, &["--compress", "lz4"]) else { return };
    assert_eq!(out.code, 0, "{}", out.stderr);
    let answer: Value = serde_json::from_str(&out.stdout).unwrap();
    let cycle = &answer["cycles"][0];
    let count = |name: &str| cycle["counts"][name].as_f64().unwrap();
    // What cannot be packed stays as it is: the 20 MiB of the program.
    assert!(count("stored") > 5120.0 && count("stored") < 0.85 * count("data"), "{cycle}");
    assert!(count("written_bytes") < count("stored") * 4096.0 * 1.03, "{cycle}");
    assert!((0.7..1.4).contains(&(count("would_store") / count("stored"))), "{cycle}");
    let loader = cycle["loader"].as_str().unwrap();
    assert!(loader.contains(" MiB unpacked"), "{loader}");
}

#[test]
fn what_is_worked_with_stays_in_the_image_once_it_is_known() {
    let test = Test::new();
    let args = ["--fill", "40", "--hot", "8", "--processors", "2", "--policy"];
    let Some(out) = tried(&test, &[&args[..], &["record"]].concat()) else { return };
    assert_eq!(out.code, 0, "{}", out.stderr);
    let answer: Value = serde_json::from_str(&out.stdout).unwrap();
    let cycle = &answer["cycles"][0];
    let count = |of: &str, name: &str| cycle[of][name].as_f64().unwrap();
    assert_eq!(count("work", "pages"), 2048.0);
    // Of 10,240 pages the 2,048 stay, and with them no fault waits for swap.
    let stayed = count("counts", "kept");
    assert!((2048.0..4096.0).contains(&stayed), "{cycle}");
    assert!(count("work", "major_faults") < 64.0, "{cycle}");
}

#[test]
fn what_was_touched_lately_stays_in_the_image() {
    let test = Test::new();
    let args = ["--fill", "40", "--hot", "8", "--policy", "age:3"];
    let Some(out) = tried(&test, &args) else { return };
    assert_eq!(out.code, 0, "{}", out.stderr);
    let answer: Value = serde_json::from_str(&out.stdout).unwrap();
    let cycle = &answer["cycles"][0];
    let count = |of: &str, name: &str| cycle[of][name].as_f64().unwrap();
    // Of 10,240 pages the 2,048 stay, and with them no fault waits for swap.
    assert!((7_000.0..9_000.0).contains(&count("counts", "swapped")), "{cycle}");
    assert!(count("work", "major_faults") < 64.0, "{cycle}");
}

#[test]
fn a_kernels_own_image_comes_back_by_the_loader_after_it_was_converted() {
    let test = Test::new();
    let Some(out) = tried(&test, &["--converted"]) else { return };
    assert_eq!(out.code, 0, "{}", out.stderr);
    let answer: Value = serde_json::from_str(&out.stdout).unwrap();
    let [ours, converted] = [0, 1].map(|index| &answer["cycles"][index]);
    assert_eq!(converted["way"], "converted");
    // It is the same machine: a kernel that suspends itself has about as many pages.
    let pages = |cycle: &Value| cycle["counts"]["pages"].as_f64().unwrap();
    assert!((0.8..1.25).contains(&(pages(converted) / pages(ours))), "{answer}");
}

#[test]
fn a_kernel_with_five_levels_of_page_tables_comes_back() {
    let test = Test::new();
    let Some(out) = tried(&test, &["--processor", "max"]) else { return };
    assert_eq!(out.code, 0, "{}", out.stderr);
}

#[test]
fn it_comes_back_by_uefi_from_nvme() {
    if !Path::new("/usr/share/ovmf/OVMF.fd").exists() {
        skip("boot", "no ovmf");
        return;
    }
    let test = Test::new();
    let Some(out) = tried(&test, &["--uefi", "--nvme"]) else { return };
    assert_eq!(out.code, 0, "{}", out.stderr);
    let answer: Value = serde_json::from_str(&out.stdout).unwrap();
    // The firmware has much of memory, and what belongs there comes last.
    let loader = answer["cycles"][0]["loader"].as_str().unwrap();
    let aside = loader.split(", ").nth(1).unwrap().split(' ').next().unwrap();
    assert!((100..20_000).contains(&aside.parse::<u32>().unwrap()), "{loader}");
}

/// A firmware reads into one place: what goes to many is read as one and copied.
#[test]
fn by_uefi_a_disk_is_read_as_often_as_the_loader_says() {
    if !Path::new("/usr/share/ovmf/OVMF.fd").exists() {
        skip("boot", "no ovmf");
        return;
    }
    // Tells what each machine reads: that which suspends itself is 0, that which resumes 1.
    let qemu = "#!/bin/sh\nhere=$(dirname \"$0\"); PATH=${PATH#*:}\n\
                count=$(ls \"$here\" | grep -c trace)\n\
                exec qemu-system-x86_64 \"$@\" -trace enable=virtio_blk_handle_read \
                -D \"$here/trace$count\"\n";
    let test = Test::new().file("bin/qemu-system-x86_64", qemu);
    let bin = test.path("bin");
    let program = bin.join("qemu-system-x86_64");
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_blocklab"));
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", bin.display()));
    let Some(out) = tried_by(&test, command, &["--uefi"]) else { return };
    assert_eq!(out.code, 0, "{}", out.stderr);
    let answer: Value = serde_json::from_str(&out.stdout).unwrap();
    let loader = answer["cycles"][0]["loader"].as_str().unwrap();
    let said = loader.split(", ").find_map(|part| part.strip_suffix(" reads")).unwrap();
    let trace = std::fs::read_to_string(bin.join("trace1")).unwrap();
    let disk = trace.split(" req ").next().unwrap();
    let reads = trace.lines().filter(|line| line.starts_with(disk));
    // Behind the header's, the table's and the checksums', and but for the mark, which is erased.
    let data = reads.skip_while(|line| !line.ends_with(" sector 8 nsectors 8")).skip(3);
    let data: Vec<_> = data.filter(|line| !line.ends_with(" sector 0 nsectors 1")).collect();
    assert_eq!(said.parse(), Ok(data.len()), "{loader}: {data:#?}");
}

#[test]
#[ignore = "half a minute and more in QEMU, whose AHCI is slow"]
fn it_comes_back_by_uefi_from_sata_and_packed() {
    if !Path::new("/usr/share/ovmf/OVMF.fd").exists() {
        skip("boot", "no ovmf");
        return;
    }
    let test = Test::new();
    let Some(out) = tried(&test, &["--uefi", "--ahci", "--compress", "lz4"]) else { return };
    assert_eq!(out.code, 0, "{}", out.stderr);
}

/// GRUB starts the loader, which finds nothing and starts the machine again; then GRUB boots the
/// kernel, and after its suspend the loader again.
#[test]
fn it_comes_back_by_grub_on_a_bios() {
    let test = Test::new();
    let Some(out) = tried(&test, &["--grub"]) else { return };
    assert_eq!(out.code, 0, "{}", out.stderr);
    assert_eq!(entries(&test.path("tmp")), [""; 0]);
}

#[test]
fn the_tools_are_written_once() {
    let test = Test::new();
    let run = || {
        Test::run_as(
            &test,
            Command::new(env!("CARGO_BIN_EXE_blocklab"))
                .args(["snapshot", "tools"])
                .arg(test.path("tools")),
        )
    };
    let out = run();
    assert_eq!(out.code, 0, "{}", out.stderr);
    let names = ["blocklab-guest", "blocklab-loader", "blocklab-multiboot", "blocklab.efi"];
    assert_eq!(entries(&test.path("tools")), names);
    // A PE program, and one for Linux.
    assert_eq!(&std::fs::read(test.path("tools/blocklab.efi")).unwrap()[..2], b"MZ");
    let guest = Command::new(test.path("tools/blocklab-guest")).arg("suspend").output().unwrap();
    assert!(String::from_utf8_lossy(&guest.stderr).contains("usage: suspend TARGET"));
    // After a resume nobody may be there to read what it says.
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut unheard = Command::new(test.path("tools/blocklab-guest"));
    assert_eq!(unheard.arg("suspend").stderr(full).status().unwrap().code(), Some(2));
    let again = run();
    assert_eq!(again.code, 2);
    assert!(again.stderr.contains("a name that is free"), "{}", again.stderr);
}

/// Change the bytes at `at`, and return what was there.
fn change(file: &Path, at: u64, bytes: &[u8]) -> Vec<u8> {
    let file = File::options().read(true).write(true).open(file).unwrap();
    let mut before = vec![0; bytes.len()];
    file.read_exact_at(&mut before, at).unwrap();
    file.write_all_at(bytes, at).unwrap();
    before
}

#[test]
fn what_does_not_fit_is_not_resumed_and_stays() {
    let test = Test::new();
    let image = test.path("image");
    let Some(out) = tried(&test, &["--keep", &image.display().to_string()]) else { return };
    assert_eq!(out.code, 0, "{}", out.stderr);
    let resume = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_blocklab"));
        command.args(["snapshot", "boot"]).arg(&image).args(args);
        test.run_as(&mut command)
    };
    let info = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_blocklab"));
        test.run_as(command.args(["snapshot", "info"]).arg(&image))
    };
    let refused = |args: &[&str], why: &str| {
        let out = resume(args);
        assert_eq!(out.code, 2, "{}{}", out.stdout, out.stderr);
        assert!(out.stderr.contains(why), "{}", out.stderr);
    };
    assert!(info().stdout.contains("data_pages"));
    refused(&["--memory", "640"], "the memory map is not that of the suspend");
    refused(&["--processor", "max,la57=off"], "the processor is not that of the suspend");
    // The mark, the header, the data.
    for (at, why) in [(9, "no image"), (4096 + 50, "header is damaged"), (1 << 23, "in MiB 7")] {
        // Inverted: a byte of our own choice may be what stands there in the guest's memory.
        let before = change(&image, at, &[0]);
        change(&image, at, &[!before[0]]);
        refused(&[], why);
        assert!(info().stderr.contains(why));
        change(&image, at, &before);
    }
    // The file system was mounted in between: its superblock counts that, and ends in a checksum
    // of its own.
    let disk = test.path("image.disk");
    let before = change(&disk, 1024, &[0; 1024]);
    change(&disk, 1024, &before);
    let mut tune2fs = Command::new("/sbin/tune2fs");
    let counted = tune2fs.args(["-C", "9"]).arg(&disk).output().unwrap();
    assert!(counted.status.success(), "{counted:?}");
    refused(&[], "disk 0 of the suspend is missing or was written since");
    change(&disk, 1024, &before);
    // Nothing of that cost the image.
    let out = resume(&[]);
    assert_eq!(out.code, 0, "{}", out.stderr);
    assert!(out.stdout.contains("resumed"), "{}", out.stdout);
    refused(&[], "one that was used");
}

#[test]
fn a_refused_image_hides_no_other() {
    refused_beside_another(&[]);
}

/// The firmware has given memory for the first one, and gives the same for the other.
#[test]
fn by_uefi_a_refused_image_hides_no_other() {
    if !Path::new("/usr/share/ovmf/OVMF.fd").exists() {
        skip("boot", "no ovmf");
        return;
    }
    refused_beside_another(&["--uefi"]);
}

fn refused_beside_another(args: &[&str]) {
    let test = Test::new();
    let image = test.path("image");
    let kept = ["--keep", &image.display().to_string()];
    let Some(out) = tried(&test, &[&kept, args].concat()) else { return };
    assert_eq!(out.code, 0, "{}", out.stderr);
    // The same on the disk for swap, which was not in use. That of the first disk is damaged, which
    // is found when it is in memory.
    let (from, other) = (File::open(&image).unwrap(), test.path("image.swap"));
    let to = File::options().write(true).open(&other).unwrap();
    std::io::copy(&mut &from, &mut &to).unwrap();
    let before = change(&image, 1 << 23, &[0]);
    change(&image, 1 << 23, &[!before[0]]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_blocklab"));
    let out = test.run_as(command.args(["snapshot", "boot"]).arg(&image).args(args));
    assert_eq!(out.code, 0, "{}", out.stderr);
    assert!(out.stdout.contains("resumed"), "{}", out.stdout);
    // Only that which was resumed is used.
    let mark = |disk: &Path| std::fs::read(disk).unwrap()[0];
    assert_eq!((mark(&image), mark(&other)), (b'b', 0));
}

/// A firmware's interrupts come while a program of UEFI runs, and use its stack.
#[test]
fn the_loader_keeps_nothing_below_its_stack() {
    if Command::new("objdump").arg("--version").output().is_err() {
        skip("boot", "no objdump");
        return;
    }
    let test = Test::new().args(&["snapshot", "tools", "tools"]);
    assert_eq!(test.run().code, 0);
    let programs = entries(&test.path("tools"));
    let programs: Vec<_> = programs.iter().filter(|name| name.ends_with(".efi")).collect();
    assert!(!programs.is_empty());
    for name in programs {
        let mut objdump = Command::new("objdump");
        let out = objdump.arg("-d").arg(test.path("tools").join(name)).output().unwrap();
        let code = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(code.contains("(%rsp)"), "{name}: {code}");
        let offset = |line: &str| {
            let (before, _) = line.split_once("(%rsp")?;
            Some(before.rsplit([' ', '\t', ',']).next()?.starts_with('-'))
        };
        assert_eq!(code.lines().find(|line| offset(line) == Some(true)), None, "{name}");
    }
}

#[test]
fn what_cannot_be_tried_is_told() {
    let run = |args: &[&str]| Test::new().file("text", "text").args(args).run();
    let out = run(&["snapshot", "try", "text"]);
    assert_eq!(out.code, 2);
    assert!(out.stderr.contains("text: not a Linux kernel"), "{}", out.stderr);
    for (args, said) in [
        (["--memory", "0"], "0 is not in 96.."),
        (["--fill", "5000"], "fills 5000 MiB of 512"),
        (["--wall-limit", "0"], "0 is not in 1.."),
    ] {
        let out = run(&[&["snapshot", "try", "text"][..], &args].concat());
        assert!(out.code == 2 && out.stderr.contains(said), "{}", out.stderr);
    }
    if let Some(kernel) = kernel() {
        let out = run(&["snapshot", "try", &kernel.display().to_string(), "--modules", "."]);
        assert!(out.code == 2 && out.stderr.contains(". holds no modules"), "{}", out.stderr);
    }
    let out = run(&["snapshot", "try", "text", "--nvme"]);
    assert!(out.stderr.contains("expected: --uefi beside --nvme"), "{}", out.stderr);
    let test = Test::new().file("i", "").file("i.disk", "").file("i.swap", "");
    let out = test.args(&["snapshot", "boot", "i", "--nvme"]).run();
    assert!(out.stderr.contains("expected: --uefi beside --nvme"), "{}", out.stderr);
    let out = run(&["snapshot", "try", "text", "--ahci"]);
    assert!(out.stderr.contains("expected: --uefi beside --ahci"), "{}", out.stderr);
    let out = run(&["snapshot", "try", "text", "--policy", "lru"]);
    assert_eq!(out.code, 2);
    assert!(out.stderr.contains("expected one of\n  everything"), "{}", out.stderr);
    let out = run(&["snapshot", "try", "text", "--policy", "record", "--keep", "new"]);
    assert_eq!(out.code, 2);
    assert!(out.stderr.contains("`record` learns from resumes"), "{}", out.stderr);
    let out = run(&["snapshot", "info", "text"]);
    assert_eq!(out.code, 2);
    assert!(out.stderr.contains("image text: "), "{}", out.stderr);
    let out = run(&["snapshot", "resume-from", "swsusp", "text", "text"]);
    assert_eq!(out.code, 2);
    assert!(out.stderr.contains("text: "), "{}", out.stderr);
    let out = run(&["snapshot", "boot", "text"]);
    assert!(out.stderr.contains("text.disk: No such file"), "{}", out.stderr);
}

/// The tool that suspends is another program; what it says and how it ends are of this one's form.
#[test]
fn a_suspend_that_cannot_be_is_told_by_one_error_and_whose_it_is() {
    let run = |args: &[&str]| Test::new().file("text", "text").args(args).run();
    for args in [
        &["suspend", "/no/such"][..],
        &["suspend", "--dry-run", "text"],
        &["suspend", "--prepare", "text"],
        &["suspend", "--measure", "--policy", "record"],
    ] {
        let out = run(args);
        assert_eq!((out.code, out.stderr.lines().count()), (2, 1), "{args:?}: {}", out.stderr);
        assert!(out.stderr.starts_with("error: "), "{}", out.stderr);
        assert_eq!(out.stdout, "");
    }
    // Nothing is wrong with what was asked.
    if !Path::new("/dev/snapshot").exists() {
        let out = run(&["suspend", "--measure", "--json"]);
        assert_eq!((out.code, out.stderr.lines().count()), (3, 1), "{}", out.stderr);
    }
}
