#!/usr/bin/env python3
"""Calibrate drives whose parameters are known: attached parts, probed by fio in real time.

    scripts/calibrate-attached.py [BLOCKLAB] [PART ...]

A disk is run by itself: its part is `wd-80g-5400`, and real time is slow enough for it.

Each part is attached with some values changed, ten times as slow as it is (so that this machine's
own delays do not count), filled, and measured by `blocklab calibrate probe`. Then `calibrate`
begins with the part as it was, ten times as slow, too. Each value is to be found within 5 %, or to
be said not to be known. Ends with 1 if one is not.
"""

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
DILATION = 1 if sys.argv[2:] == [DISK] else 10
SECONDS = 10 if sys.argv[2:] == [DISK] else 4


def slowed(value: object) -> object:
    """A part's value, of a drive that is slowed down."""
    if isinstance(value, dict):
        return {key: slowed(below) for key, below in value.items()}
    if isinstance(value, list):
        return [slowed(one) for one in value]
    unit = r"([0-9.]+) *(ns|us|ms|s|[kMG]?B/s)"
    quantity = re.fullmatch(unit, value) if isinstance(value, str) else None
    if not quantity:
        return value
    number = float(quantity[1])
    number = number / DILATION if "/" in quantity[2] else number * DILATION
    return f"{number:.6g}{quantity[2]}"


def inline(value: object) -> str:
    """TOML in one line."""
    if isinstance(value, dict):
        pairs = (f"{json.dumps(key)} = {inline(one)}" for key, one in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(inline(one) for one in value) + "]"
    return json.dumps(value)


def slowed_part(part: str) -> str:
    """The text of a part, slowed down."""
    devices = os.path.join(os.path.dirname(__file__), "..", "devices")
    with open(os.path.join(devices, f"{part}.toml"), "rb") as file:
        tables = tomllib.load(file)
    tables.pop("source", None)
    lines = []
    for name, table in tables.items():
        lines.append(f"[{name}]")
        lines += [f"{key} = {inline(slowed(value))}" for key, value in table.items()]
    return "\n".join(lines)


def first(text: str) -> float:
    """The first number above 0 in `text`."""
    return next(float(one) for one in re.findall(r"[0-9.]+", text) if float(one) > 0)


def calibrated(blocklab: str, part: str) -> list[dict]:
    """The keys that were found for `part`, attached with its values changed."""
    with tempfile.TemporaryDirectory() as folder:
        sets = [f"--set={key}={value}" for key, value in CHANGED[part].items()]
        probe = f'{blocklab} calibrate probe --nbd "$uri" --out probe --runtime {SECONDS}'
        command = [blocklab, "attach", part, "--dilate", str(DILATION), "--fill", *sets]
        command += ["--run", probe]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        if not os.path.exists(f"{folder}/probe/measured.json"):
            raise SystemExit(done.stderr)
        with open(f"{folder}/base.toml", "w") as file:
            file.write(slowed_part(part))
        command = [blocklab, "calibrate", "--from", "probe/measured.json", "--base", "base.toml"]
        command += ["--out", "found.toml", "--json"]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)["keys"]


def main() -> int:
    blocklab = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "target/release/blocklab")
    wrong = 0
    print("| part | key | attached with | as seen | found | error |")
    print("|---|---|---|---|---|---|")
    for part in sys.argv[2:] or [part for part in CHANGED if part != DISK]:
        keys = calibrated(blocklab, part)
        for key, value in CHANGED[part].items():
            found = next(one for one in keys if one["key"] == key)
            seen = first(inline(slowed(tomllib.loads(f"x = {value}")["x"])))
            off = first(found["value"]) / seen - 1
            unknown = found["not_identified"]
            wrong += abs(off) > 0.05 and unknown is None
            said = f"{100 * off:+.1f} %" + (f", said to be {unknown}" if unknown else "")
            row = [f"`{part}`", key, value, f"{seen:g}", found["value"], said]
            print(f"| {' | '.join(row)} |", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
