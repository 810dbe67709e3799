#!/usr/bin/env python3
"""Suspend and resume a guest again and again; the power goes in every other cycle.

    scripts/snapshot-cycles.py VMLINUZ [CYCLES]

A cycle without a cut must come back as it was. After a cut, an image is whole or none, and the file
system that was mounted is repaired from its journal.
"""

import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

BLOCKLAB = pathlib.Path(__file__).resolve().parent.parent / "target/debug/blocklab"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BLOCKLAB, "snapshot", *arguments], capture_output=True, text=True)


def cut(kernel: str, image: pathlib.Path, after_s: float) -> None:
    """Start a suspend, and kill the machine."""
    command = [BLOCKLAB, "snapshot", "try", kernel, "--fill", "20", "--keep", str(image)]
    tried = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(after_s)
    tried.kill()
    tried.wait()
    # QEMU goes with it, and has the files until then.
    time.sleep(0.5)


def main() -> None:
    kernel, cycles = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 20
    told = {"came back": 0, "no image after a cut": 0, "came back after a cut": 0}
    took = None
    for number in range(cycles):
        with tempfile.TemporaryDirectory() as folder:
            image = pathlib.Path(folder) / "image"
            disk = pathlib.Path(folder) / "image.disk"
            if number % 2 == 0 or took is None:
                began = time.monotonic()
                kept = run("try", kernel, "--fill", "20", "--keep", str(image), "--json")
                took = time.monotonic() - began
                assert kept.returncode == 0, kept.stderr
                woken = run("boot", str(image))
                assert woken.returncode == 0, woken.stderr
                told["came back"] += 1
            else:
                # Mostly while the image is written, which is the second half.
                cut(kernel, image, took * random.uniform(0.4, 1.0))
                if not image.exists():
                    continue
                woken = run("boot", str(image))
                if woken.returncode == 0:
                    told["came back after a cut"] += 1
                else:
                    assert "no image" in woken.stderr, woken.stderr
                    told["no image after a cut"] += 1
            # 1: repaired.
            checked = subprocess.run(["e2fsck", "-f", "-p", disk], capture_output=True, text=True)
            assert checked.returncode in (0, 1), checked.stdout
            assert run("boot", str(image)).returncode == 2, "used twice"
    print(json.dumps(told))


if __name__ == "__main__":
    main()
