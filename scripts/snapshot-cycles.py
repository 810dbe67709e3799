#!/usr/bin/env python3
"""Suspend and resume a guest again and again; the power goes in a phase by lot, at a moment by lot.

    scripts/snapshot-cycles.py VMLINUZ [CYCLES [BLOCKLAB]]

A cycle without a cut must come back as it was. After a cut, an image is whole or none: a whole one
must come back, and the file system that was mounted is repaired from its journal, which is what a
normal boot finds. No image is used twice. Every other image is packed. Prints what each phase left.
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

PHASES = ["none", "suspend", "resume", "erasing the mark", "mark erased", "after the resume"]
MARK_BYTES = 512
QEMU = (
    "qemu-system-x86_64 -accel tcg -machine pc -cpu qemu64 -m 512 -smp 1 -nodefaults -display none "
    "-vga none -nic none -no-reboot -serial stdio -device isa-debug-exit,iobase=0xf4,iosize=1"
)


class Lab:
    """Where the programs are, and how long each phase takes."""

    def __init__(self, kernel: str, blocklab: pathlib.Path, folder: pathlib.Path) -> None:
        self.kernel, self.blocklab = kernel, blocklab
        self.loader = folder / "tools/blocklab-loader"
        assert self.run("tools", str(folder / "tools")).returncode == 0
        self.suspend_s = self.resume_s = self.after_s = 0.0

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [self.blocklab, "snapshot", *arguments]
        return subprocess.run(command, capture_output=True, text=True)

    def suspend(self, image: pathlib.Path, packed: bool, cut_s: float | None) -> None:
        """Let a guest suspend itself; the power goes after so many seconds."""
        began = time.monotonic()
        tried = subprocess.Popen(
            [self.blocklab, "snapshot", "try", self.kernel, "--fill", "20", "--keep", str(image)]
            + ["--compress", "lz4" if packed else "none", "--wall-limit", "900"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        if cut_s is None:
            _, errors = tried.communicate()
            assert tried.returncode == 0, errors
            self.suspend_s = time.monotonic() - began
            return
        time.sleep(cut_s)
        tried.kill()
        tried.wait()
        # QEMU goes with it, and has the files until then.
        time.sleep(0.5)

    def machine(self, image: pathlib.Path) -> subprocess.Popen[str]:
        """Start the loader."""
        command = [*QEMU.split(), "-kernel", str(self.loader)]
        for end in ["", ".disk", ".swap"]:
            command += ["-drive", f"file={image}{end},if=virtio,format=raw"]
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace"
        )

    def resume(self, image: pathlib.Path) -> str:
        """Resume it; what the machine said."""
        began = time.monotonic()
        machine = self.machine(image)
        assert machine.stdout
        said = ""
        for line in machine.stdout:
            said += line
            if "lab: resumed" in line:
                self.resume_s = time.monotonic() - began
        machine.wait()
        if "lab: after" in said:
            self.after_s = time.monotonic() - began - self.resume_s
        return said

    def cut(self, image: pathlib.Path, phase: str) -> None:
        """Start to resume, and cut the power."""
        with image.open("rb", buffering=0) as file:
            machine = self.machine(image)
            began = time.monotonic()
            if phase in ("erasing the mark", "mark erased"):
                # What the guest writes is seen here at once.
                while time.monotonic() < began + 60 and machine.poll() is None:
                    file.seek(0)
                    if not any(file.read(MARK_BYTES)):
                        break
                if phase == "mark erased":
                    time.sleep(random.uniform(0, 0.1))
            else:
                late = self.resume_s if phase == "after the resume" else 0.0
                time.sleep(late + random.uniform(0, self.after_s if late else self.resume_s))
            machine.kill()
            machine.wait()


def cycle(lab: Lab, phase: str, packed: bool, folder: pathlib.Path) -> str:
    """One cycle; what was left after it."""
    image, disk = folder / "image", folder / "image.disk"
    # Mostly while the image is written, which is the second half.
    cut_s = lab.suspend_s * random.uniform(0.4, 1.0) if phase == "suspend" else None
    lab.suspend(image, packed, cut_s)
    if not image.exists():
        return "not begun"
    if phase not in ("none", "suspend"):
        lab.cut(image, phase)
    said = lab.resume(image)
    if "lab: after" in said:
        left = "came back"
        assert "lab: error" not in said, said
    else:
        left = "no image"
        assert phase != "none" and "no image, an unfinished one, or one that was used" in said, said
    # 1: repaired from the journal.
    checked = subprocess.run(["e2fsck", "-f", "-p", disk], capture_output=True, text=True)
    assert checked.returncode in (0, 1), checked.stdout
    assert "not resumed: no image" in lab.resume(image), "used twice"
    return left


def main() -> None:
    kernel = sys.argv[1]
    cycles = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    own = pathlib.Path(__file__).resolve().parent.parent / "target/debug/blocklab"
    blocklab = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else own
    told: dict[str, dict[str, int]] = {}
    with tempfile.TemporaryDirectory() as tools:
        lab = Lab(kernel, blocklab, pathlib.Path(tools))
        for number in range(cycles):
            # The first tells how long the phases take.
            phase = "none" if number == 0 else random.choice(PHASES)
            with tempfile.TemporaryDirectory() as folder:
                left = cycle(lab, phase, number % 2 == 1, pathlib.Path(folder))
            found = told.setdefault(phase, {})
            found[left] = found.get(left, 0) + 1
            print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
