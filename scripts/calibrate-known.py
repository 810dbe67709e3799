#!/usr/bin/env python3
"""Calibrate drives whose parameters are known.

    scripts/calibrate-known.py CLOCK [BLOCKLAB] [PART ...]

CLOCK is `travel` (fio reads the drive through a real kernel in virtual time, so that no delay of
this machine counts) or `attach` (in real time, by `blocklab calibrate probe`). Each part has some
values changed, and is filled and measured; then `calibrate` begins with the part as it was. Each
value is to be found within 5 %, or to be said not to be known. Ends with 1 if one is not.

In real time SSDs are ten times as slow as they are, base and drive alike, which leaves less to this
machine's delays. A disk is slow enough by itself, and is run alone there: its part is
`wd-80g-5400`.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib

CHANGED = {
    "tlc-3d-128": {
        "ssd.nand.read": '["75us"]',
        "ssd.nand.bus": '"700MB/s"',
        "ssd.host.completion": '"15us"',
        "ssd.host.bandwidth": '"1500MB/s"',
    },
    "qlc-3d-96": {
        "ssd.nand.read": '["80us", "96us", "112us", "136us"]',
        "ssd.nand.bus": '"800MB/s"',
    },
    "mlc2009-32g": {"ssd.nand.read": '["70us"]', "ssd.nand.bus": '"60MB/s"'},
    "slc2010-paper": {"ssd.nand.read": '["40us"]', "ssd.nand.bus": '"55MB/s"'},
    "wd-80g-5400": {"hdd.rpm": "6500"},
}
DISK = "wd-80g-5400"
#: What `blocklab calibrate probe` asks for: how, in what size, and how many at a time.
LOADS = [
    *[("randread", "4k", depth) for depth in (1, 2, 4, 8, 16, 32, 64, 128)],
    *[("randread", size, depth) for size in ("16k", "128k") for depth in (1, 32)],
    *[("read", "128k", depth) for depth in (1, 32)],
]
FIO = "--filename=/dev/vda --direct=1 --ioengine=libaio --thread --time_based"


def slowed(value: object, dilation: int) -> object:
    """A part's value, of a drive that is slowed down."""
    if isinstance(value, dict):
        return {key: slowed(below, dilation) for key, below in value.items()}
    if isinstance(value, list):
        return [slowed(one, dilation) for one in value]
    unit = r"([0-9.]+) *(ns|us|ms|s|[kMG]?B/s)"
    quantity = re.fullmatch(unit, value) if isinstance(value, str) else None
    if not quantity:
        return value
    number = float(quantity[1])
    number = number / dilation if "/" in quantity[2] else number * dilation
    return f"{number:.6g}{quantity[2]}"


def inline(value: object) -> str:
    """TOML in one line."""
    if isinstance(value, dict):
        pairs = (f"{json.dumps(key)} = {inline(one)}" for key, one in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(inline(one) for one in value) + "]"
    return json.dumps(value)


def slowed_part(part: str, dilation: int) -> str:
    """The text of a part, slowed down."""
    devices = os.path.join(os.path.dirname(__file__), "..", "devices")
    with open(os.path.join(devices, f"{part}.toml"), "rb") as file:
        tables = tomllib.load(file)
    tables.pop("source", None)
    lines = []
    for name, table in tables.items():
        lines.append(f"[{name}]")
        lines += [f"{key} = {inline(slowed(value, dilation))}" for key, value in table.items()]
    return "\n".join(lines)


def first(text: str) -> float:
    """The first number above 0 in `text`."""
    return next(float(one) for one in re.findall(r"[0-9.]+", text) if float(one) > 0)


def attached(blocklab: str, part: str, sets: list[str], dilation: int, folder: str) -> str:
    """The file with what fio measured of a part in real time."""
    seconds = 10 if part == DISK else 4
    probe = f'{blocklab} calibrate probe --nbd "$uri" --out probe --runtime {seconds}'
    command = [blocklab, "attach", part, "--dilate", str(dilation), "--fill", *sets]
    command += ["--run", probe]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if not os.path.exists(f"{folder}/probe/measured.json"):
        raise SystemExit(done.stderr)
    return "probe/measured.json"


def travelled(blocklab: str, part: str, sets: list[str], folder: str) -> str:
    """The file with what fio measured of a part in virtual time."""
    # fio asks the processor for the time unless it is told not to.
    fio = ["fio", "--readonly", "--output-format=json", "--clocksource=clock_gettime"]
    fio += [*FIO.split(), f"--runtime={'10s' if part == DISK else '500ms'}"]
    for how, size, depth in LOADS:
        fio += [f"--name={how}-{size}-{depth}", f"--rw={how}", f"--bs={size}"]
        fio += [f"--iodepth={depth}", "--stonewall"]
    command = [blocklab, "travel", part, "--fill", *sets, "--limit", "1h", "--", *fio]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    with open(f"{folder}/measured.json", "w") as file:
        file.write(done.stdout)
    return "measured.json"


def calibrated(clock: str, blocklab: str, part: str, dilation: int) -> list[dict]:
    """The keys that were found for `part` with its values changed."""
    with tempfile.TemporaryDirectory() as folder:
        sets = [f"--set={key}={value}" for key, value in CHANGED[part].items()]
        if clock == "attach":
            measured = attached(blocklab, part, sets, dilation, folder)
        else:
            measured = travelled(blocklab, part, sets, folder)
        with open(f"{folder}/base.toml", "w") as file:
            file.write(slowed_part(part, dilation))
        command = [blocklab, "calibrate", "--from", measured, "--base", "base.toml"]
        command += ["--out", "found.toml", "--json"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)["keys"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("clock", choices=["travel", "attach"])
    parser.add_argument("blocklab", nargs="?", default="target/release/blocklab")
    parser.add_argument("parts", nargs="*", metavar="PART")
    given = parser.parse_args()
    blocklab = os.path.abspath(given.blocklab)
    in_time = given.clock == "attach"
    usual = [part for part in CHANGED if not (in_time and part == DISK)]
    wrong = 0
    print("| part | key | set to | as seen | found | error |")
    print("|---|---|---|---|---|---|")
    for part in given.parts or usual:
        dilation = 10 if in_time and part != DISK else 1
        keys = calibrated(given.clock, blocklab, part, dilation)
        for key, value in CHANGED[part].items():
            found = next(one for one in keys if one["key"] == key)
            seen = first(inline(slowed(tomllib.loads(f"x = {value}")["x"], dilation)))
            off = first(found["value"]) / seen - 1
            unknown = found["not_identified"]
            wrong += abs(off) > 0.05 and unknown is None
            said = f"{100 * off:+.1f} %" + (f", said to be {unknown}" if unknown else "")
            row = [f"`{part}`", key, value, f"{seen:g}", found["value"], said]
            print(f"| {' | '.join(row)} |", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
