#!/usr/bin/env python3
"""A Debian on a disk with a boot loader, in QEMU: `boot install` in it, its entry, `boot collect`.

    scripts/boot-install-machine.py [--loader grub|systemd-boot] ROOT.tar [BLOCKLAB]

ROOT.tar is a Debian with a kernel and the boot loader (`grub-pc`, or `systemd-boot,dosfstools`):

    mmdebstrap --variant=essential --include=systemd-sysv,udev,dbus,cron,rsyslog,kmod,\
initramfs-tools,grub-pc,libgcc-s1,linux-image-6.1.0-56-amd64 bookworm ROOT.tar

The machine installs the loader on its own disk as a user would, then the recorder; its next start
is by the new entry, the last one by the usual one after `--remove`. Needs qemu-system-x86,
e2fsprogs, for systemd-boot ovmf, and some minutes; no root's rights but those that tar needs for
the owners of files.
"""

import argparse
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import time

import debian

EFI_MIB = 255
ROOT_MIB = 2000
EFI, LINUX = 0xEF, 0x83
OVMF = pathlib.Path("/usr/share/OVMF")
LIMIT_S = 900
LINE = "root=/dev/vda2 console=ttyS0"
# Which start it is, is counted on the disk.
LAB = """#!/bin/sh
# The partition table is of the old kind, which GRUB and UEFI take, and bootctl only so.
export SYSTEMD_RELAX_ESP_CHECKS=1
cd /var/tmp
starts=$(cat starts 2> /dev/null || echo 0)
echo $((starts + 1)) > starts
case $starts in
0)
    {loader}
    systemctl reboot ;;
1)
    sha1sum {menu} > menu && blocklab boot install && {once} && echo "lab: installed"
    systemctl reboot ;;
2)
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
    ls -d /usr/local/lib/blocklab {ours} /run/blocklab
    systemctl poweroff ;;
esac
"""
GRUB = {
    "loader": f"""echo 'GRUB_CMDLINE_LINUX="{LINE}"' >> /etc/default/grub
    echo 'GRUB_TIMEOUT=0' >> /etc/default/grub
    echo 'GRUB_TERMINAL=console' >> /etc/default/grub
    grub-install /dev/vda && update-grub""",
    "once": "grub-reboot 'This system, recorded by blocklab'",
    "menu": "/boot/grub/grub.cfg",
    "ours": "/boot/grub/custom.cfg",
}
SYSTEMD = {
    "loader": f"""mkfs.vfat /dev/vda1 && mkdir -p /boot/efi
    echo '/dev/vda1 /boot/efi vfat umask=0077 0 1' >> /etc/fstab
    mount /boot/efi && echo '{LINE}' > /etc/kernel/cmdline
    bootctl install --no-variables --esp-path=/boot/efi
    kernel=$(uname -r)
    kernel-install add $kernel /boot/vmlinuz-$kernel /boot/initrd.img-$kernel""",
    "once": "bootctl set-oneshot -- -blocklab.conf",
    "menu": "/boot/efi/loader/entries/[0-9a-f]*.conf",
    "ours": "/boot/efi/loader/entries/*",
}
LOADERS = {"grub": GRUB, "systemd-boot": SYSTEMD}
WORDS = ["lab: installed", "lab: collected", "lab: removed", "lab: as usual"]


def partition(kind: int, at_mib: int, mib: int) -> bytes:
    return struct.pack("<8B2I", 0, 0, 0, 0, kind, 0, 0, 0, at_mib << 11, mib << 11)


def disk(
    tar: str, blocklab: str, lab: str, folder: pathlib.Path
) -> tuple[pathlib.Path, list[str]]:
    """The disk, and how its kernel is started before the loader is there."""
    program = folder / "blocklab"
    shutil.copy(blocklab, program)
    root, kernel, initrd = debian.unpack(tar, folder, "/dev/vda2", lab, program)
    image = folder / "disk"
    root_at_mib = 1 + EFI_MIB
    table = partition(EFI, 1, EFI_MIB) + partition(LINUX, root_at_mib, ROOT_MIB)
    with image.open("wb") as file:
        file.truncate((root_at_mib + ROOT_MIB) << 20)
        file.seek(446)
        file.write(table + bytes(32) + b"\x55\xaa")
    command = ["mke2fs", "-q", "-F", "-t", "ext4", "-d", root, "-E", f"offset={root_at_mib << 20}"]
    subprocess.run([*command, image, f"{ROOT_MIB}M"], check=True)
    shutil.rmtree(root)
    return image, ["-kernel", str(kernel), "-initrd", str(initrd), "-append", LINE, "-no-reboot"]


def firmware(folder: pathlib.Path) -> list[str]:
    """A UEFI, and the memory of its variables."""
    variables = shutil.copy(OVMF / "OVMF_VARS.fd", folder)
    arguments = []
    for file, mode in [(OVMF / "OVMF_CODE.fd", "readonly=on"), (variables, "readonly=off")]:
        arguments += ["-drive", f"if=pflash,format=raw,{mode},file={file}"]
    return arguments


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
    parser = argparse.ArgumentParser()
    parser.add_argument("--loader", choices=LOADERS, default="grub")
    parser.add_argument("root", metavar="ROOT.tar")
    parser.add_argument("blocklab", nargs="?", default=str(own))
    asked = parser.parse_args()
    lab = LAB
    for name, words in LOADERS[asked.loader].items():
        lab = lab.replace(f"{{{name}}}", words)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        image, by_qemu = disk(asked.root, asked.blocklab, lab, folder)
        by_itself = firmware(folder) if asked.loader == "systemd-boot" else []
        said = start(image, by_qemu) + start(image, by_itself)
    missing = [words for words in WORDS if words not in said]
    sys.exit(f"not seen: {missing}" if missing else 0)


if __name__ == "__main__":
    main()
