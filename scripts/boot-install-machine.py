#!/usr/bin/env python3
"""A Debian on a disk with GRUB, in QEMU: `boot install` in it, its entry, `boot collect`.

    scripts/boot-install-machine.py ROOT.tar [BLOCKLAB]

ROOT.tar is a Debian with a kernel and GRUB:

    mmdebstrap --variant=essential --include=systemd-sysv,udev,dbus,cron,rsyslog,kmod,\
initramfs-tools,grub-pc,libgcc-s1,linux-image-6.1.0-56-amd64 bookworm ROOT.tar

The machine installs GRUB on its own disk as a user would, then the recorder; its second start is by
GRUB's entry for that, its third by the usual one after `--remove`. Needs qemu-system-x86, e2fsprogs
and some minutes; no root's rights but those that tar needs for the owners of files.
"""

import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import time

import debian

ROOT_MIB = 2000
PARTITION_AT = 1 << 20
LINUX = 0x83
LIMIT_S = 900
# Which start it is, is counted on the disk.
LAB = """#!/bin/sh
cd /var/tmp
starts=$(cat starts 2> /dev/null || echo 0)
echo $((starts + 1)) > starts
case $starts in
0)
    echo 'GRUB_CMDLINE_LINUX="console=ttyS0"' >> /etc/default/grub
    echo 'GRUB_TIMEOUT=0' >> /etc/default/grub
    echo 'GRUB_TERMINAL=console' >> /etc/default/grub
    grub-install /dev/vda && update-grub && sha1sum /boot/grub/grub.cfg > menu
    blocklab boot install && grub-reboot 'This system, recorded by blocklab' &&
        echo "lab: installed"
    systemctl reboot ;;
1)
    grep -o 'delayacct init=[^ ]*' /proc/cmdline
    readlink /proc/1/exe
    # It is recorded until the units were told, which is a little later.
    for try in 1 2 3 4 5 6 7 8 9; do
        blocklab boot collect --rows 5 && echo "lab: collected" && break
        sleep 2
    done
    blocklab boot install --remove && sha1sum -c menu && echo "lab: removed"
    systemctl reboot ;;
*)
    grep -q blocklab /proc/cmdline || echo "lab: as usual"
    ls -d /usr/local/lib/blocklab /boot/grub/custom.cfg /run/blocklab
    systemctl poweroff ;;
esac
"""
WORDS = ["lab: installed", "lab: collected", "lab: removed", "lab: as usual"]


def disk(tar: str, blocklab: str, folder: pathlib.Path) -> tuple[pathlib.Path, list[str]]:
    """The disk, and how its kernel is started before GRUB is there."""
    program = folder / "blocklab"
    shutil.copy(blocklab, program)
    root, kernel, initrd = debian.unpack(tar, folder, "/dev/vda1", LAB, program)
    image = folder / "disk"
    sectors = [PARTITION_AT >> 9, ROOT_MIB << 11]
    partition = struct.pack("<8B2I", 0, 0, 0, 0, LINUX, 0, 0, 0, *sectors)
    with image.open("wb") as file:
        file.truncate(PARTITION_AT + (ROOT_MIB << 20))
        file.seek(446)
        file.write(partition + bytes(48) + b"\x55\xaa")
    command = ["mke2fs", "-q", "-F", "-t", "ext4", "-d", root, "-E", f"offset={PARTITION_AT}"]
    subprocess.run([*command, image, f"{ROOT_MIB}M"], check=True)
    shutil.rmtree(root)
    line = "root=/dev/vda1 console=ttyS0"
    return image, ["-kernel", str(kernel), "-initrd", str(initrd), "-append", line, "-no-reboot"]


def start(image: pathlib.Path, arguments: list[str]) -> str:
    """Run it to its end; what it said."""
    command = [*debian.QEMU.split(), "-cpu", "qemu64", "-m", "1024"]
    command += ["-drive", f"file={image},if=virtio,format=raw,cache=unsafe"]
    qemu = subprocess.Popen(
        command + arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    assert qemu.stdout
    began, said = time.monotonic(), ""
    try:
        for line in qemu.stdout:
            said += line
            print(f"{time.monotonic() - began:7.1f}", line.rstrip(), flush=True)
            if time.monotonic() - began > LIMIT_S:
                sys.exit(f"not done in {LIMIT_S} s")
    finally:
        qemu.kill()
        qemu.wait()
    return said


def main() -> None:
    own = pathlib.Path(__file__).resolve().parent.parent / "target/debug/blocklab"
    blocklab = sys.argv[2] if len(sys.argv) > 2 else str(own)
    with tempfile.TemporaryDirectory() as folder:
        image, by_qemu = disk(sys.argv[1], blocklab, pathlib.Path(folder))
        said = start(image, by_qemu) + start(image, [])
    missing = [words for words in WORDS if words not in said]
    sys.exit(f"not seen: {missing}" if missing else 0)


if __name__ == "__main__":
    main()
