#!/usr/bin/env python3
"""One image used many times, its disks put back each time; what its machines must not share.

    scripts/snapshot-fixed.py VMLINUZ [TIMES [BLOCKLAB]]

Nothing of a use is written to the image and the disks that belong to it, so the mark that one use
erases is there for the next one. All must come back with the memory of before. The first random
number after the resume must be another each time, and the clock must be that of this machine.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

QEMU = (
    "qemu-system-x86_64 -accel tcg -machine pc -cpu qemu64 -m 512 -smp 1 -nodefaults -display none "
    "-vga none -nic none -no-reboot -serial stdio"
)


def use(image: pathlib.Path, loader: pathlib.Path) -> tuple[str, float]:
    """Resume the image, whose disks stay as they are; what was said, and when it was back."""
    command = [*QEMU.split(), "-snapshot", "-kernel", str(loader)]
    for end in ["", ".disk", ".swap"]:
        command += ["-drive", f"file={image}{end},if=virtio,format=raw"]
    machine = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    assert machine.stdout
    said, at = "", 0.0
    for line in machine.stdout:
        said += line
        if "lab: resumed" in line:
            at = time.time()
    machine.wait()
    return said, at


def main() -> None:
    kernel = sys.argv[1]
    times = int(sys.argv[2]) if len(sys.argv) > 2 else 5
    own = pathlib.Path(__file__).resolve().parent.parent / "target/debug/blocklab"
    blocklab = sys.argv[3] if len(sys.argv) > 3 else str(own)
    told = []
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        image = folder / "image"
        subprocess.run([blocklab, "snapshot", "tools", folder / "tools"], check=True)
        command = [blocklab, "snapshot", "try", kernel, "--fill", "20", "--keep", str(image)]
        subprocess.run(command, check=True)
        for _ in range(times):
            said, at = use(image, folder / "tools/blocklab-loader")
            assert "lab: after" in said, said
            first = re.search(r"lab: resumed .*random=(\w+) time=([\d.]+)", said)
            same = re.search(r"lab: after (digest=\w+ nonce=\w+)", said)
            assert first and same, said
            told.append((same[1], first[1], float(first[2]) - at))
    assert len({same for same, _, _ in told}) == 1, told
    random_numbers = [number for _, number, _ in told]
    late = [round(seconds, 2) for _, _, seconds in told]
    print(json.dumps({"uses": times, "random": random_numbers, "clock is off by": late}))
    assert len(set(random_numbers)) == times, "two machines have the same random number"
    assert all(abs(seconds) < 2 for seconds in late), "a clock is not this machine's"


if __name__ == "__main__":
    main()
