#!/usr/bin/env python3
"""Damage an image in many ways, and cut the power while one is resumed.

    scripts/snapshot-damage.py VMLINUZ [DAMAGES [CUTS]]

Some bits of the mark, the header, the data, the run table or the checksums are turned: the loader
must refuse each with its reason and leave the image, which is resumed in the end. After a cut, the
image is there and is resumed, or it is gone and the file system needs its journal at most.
"""

import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

BLOCKLAB = pathlib.Path(__file__).resolve().parent.parent / "target/debug/blocklab"
PAGE = 4096
RUN_BYTES = 24
MIB_PAGES = 256


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BLOCKLAB, "snapshot", *arguments], capture_output=True, text=True)


def parts(image: pathlib.Path) -> dict[str, tuple[int, int]]:
    """Where each part of the image is: first byte and how many."""
    told = json.loads(run("info", str(image), "--json").stdout)
    data, table = told["stored_pages"], told["runs"] * RUN_BYTES
    sum_bytes = 8 if told["version"] == 2 else 4
    table_at = (2 + data) * PAGE
    sums_at = table_at + -(-table // PAGE) * PAGE
    return {
        "mark": (0, 512),
        "header": (PAGE, PAGE),
        "data": (2 * PAGE, data * PAGE),
        "table": (table_at, table),
        "sums": (sums_at, -(-told["data_pages"] // MIB_PAGES) * sum_bytes),
    }


def damage(image: pathlib.Path, places: dict[str, tuple[int, int]], part: str) -> str:
    """Turn up to three bits, try, and turn them back; why it was refused."""
    first, count = places[part]
    turned = {first + random.randrange(count): 1 << random.randrange(8) for _ in range(3)}
    with image.open("r+b") as file:
        for back in (False, True):
            for at, bit in turned.items():
                file.seek(at)
                byte = file.read(1)[0]
                file.seek(at)
                file.write(bytes([byte ^ bit]))
            file.flush()
            if not back:
                tried = run("boot", str(image))
    assert tried.returncode == 2 and "not resumed: " in tried.stderr, (part, turned, tried)
    return tried.stderr.split("not resumed: ")[1].splitlines()[0]


def cut(kept: pathlib.Path, after_s: float) -> str:
    """Cut the power of a machine that is being resumed."""
    with tempfile.TemporaryDirectory() as folder:
        image = pathlib.Path(folder) / "image"
        for end in ["", ".disk", ".swap"]:
            command = ["cp", "--sparse=always", f"{kept}{end}", f"{image}{end}"]
            subprocess.run(command, check=True)
        tried = subprocess.Popen(
            [BLOCKLAB, "snapshot", "boot", str(image)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(after_s)
        tried.kill()
        tried.wait()
        time.sleep(0.5)
        woken = run("boot", str(image))
        if woken.returncode == 0:
            return "resumed after all"
        assert "no image" in woken.stderr, woken.stderr
        checked = subprocess.run(
            ["e2fsck", "-f", "-p", f"{image}.disk"], capture_output=True, text=True
        )
        assert checked.returncode in (0, 1), checked.stdout
        return "gone, and the file system is in order"


def main() -> None:
    kernel = sys.argv[1]
    damages, cuts = (int(text) for text in (sys.argv[2:] + ["50", "10"][len(sys.argv) - 2 :])[:2])
    folder = pathlib.Path(tempfile.mkdtemp())
    told: dict[str, int] = {}
    try:
        image = folder / "image"
        kept = run("try", kernel, "--fill", "20", "--keep", str(image))
        assert kept.returncode == 0, kept.stderr
        places = parts(image)
        for number in range(damages):
            why = damage(image, places, list(places)[number % len(places)])
            why = why.split(" in MiB")[0]
            told[why] = told.get(why, 0) + 1
        spare = folder / "spare"
        for end in ["", ".disk", ".swap"]:
            subprocess.run(["cp", "--sparse=always", f"{image}{end}", f"{spare}{end}"], check=True)
        began = time.monotonic()
        woken = run("boot", str(image))
        took = time.monotonic() - began
        assert woken.returncode == 0, woken.stderr
        for _ in range(cuts):
            found = cut(spare, took * random.uniform(0.1, 1.0))
            told[found] = told.get(found, 0) + 1
    finally:
        shutil.rmtree(folder)
    print(json.dumps(told))


if __name__ == "__main__":
    main()
