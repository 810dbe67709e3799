"""A Debian that runs a script of ours behind `multi-user.target`; for scripts that boot one."""

import os
import pathlib
import shutil
import subprocess

QEMU = (
    "qemu-system-x86_64 -accel tcg -machine pc -smp 1 -nodefaults "
    "-display none -vga none -nic none -serial stdio"
)
SERVICE = """[Unit]
After=multi-user.target
[Service]
Type=oneshot
StandardOutput=tty
StandardError=tty
TTYPath=/dev/console
ExecStart=/usr/local/bin/lab
"""


def unpack(
    tar: str, folder: pathlib.Path, device: str, lab: str, program: pathlib.Path
) -> tuple[pathlib.Path, pathlib.Path, pathlib.Path]:
    """Unpack a root whose disk is `device` into a folder of its own, with the script `lab` and a
    program beside it; where the root, its newest kernel and the initramfs of that are."""
    root, kernel, initrd = folder / "root", folder / "vmlinuz", folder / "initrd"
    root.mkdir()
    subprocess.run(["tar", "-C", root, "-xf", tar], check=True)
    found = max((root / "boot").glob("vmlinuz-*"))
    shutil.copy(found, kernel)
    shutil.copy(str(found).replace("vmlinuz-", "initrd.img-"), initrd)
    shutil.copy(program, root / "usr/local/bin")
    (root / "usr/local/bin/lab").write_text(lab)
    (root / "usr/local/bin/lab").chmod(0o755)
    units = root / "etc/systemd/system"
    (units / "lab.service").write_text(SERVICE)
    (units / "multi-user.target.wants").mkdir(parents=True, exist_ok=True)
    os.symlink("../lab.service", units / "multi-user.target.wants/lab.service")
    (root / "etc/fstab").write_text(f"{device} / ext4 rw 0 1\n")
    return root, kernel, initrd
