#!/usr/bin/env python3
"""Is what `blocklab calibrate` says it knows true? Drives whose parameters are known, in numbers.

    scripts/calibrate-coverage.py [BLOCKLAB] [--drives N] [--seed N] [--requests N] [--spread X]
        [NAME...]

NAME is part of a table's or a disturbance's name: `depth`, `size`, `writes`, `offered`, `WAF`;
`exact`, `2 %`, `one load`, `a third`, `digits`, `fixed`.

Drives are drawn: a shipped part with some keys changed at random. What each does is measured in
virtual time (as `blocklab compare` runs it), disturbed, and written as a table; `calibrate` begins
with the part as it was. On stderr is each answer and its keys; the tables are of all answers:

    known       keys that are said to be known to some X %
    in 2 X      of these, found within 2 X of what is true; in 3 X, in 5 % likewise
    false       known, but off by more than 3 X and more than 5 %
    unknown     keys that are said not to be known; of these, found within 2 % all the same
"""

import argparse
import copy
import json
import math
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from measured import at_fills

HEADER = "rw,bs,iodepth,numjobs,iops,mean_us,p50_us,p99_us"
METRICS = ["iops", "latency_us_mean", "latency_us_p50", "latency_us_p99"]
# As small while a drive is measured as while one is fitted.
SMALL = {"ssd.geometry.blocks_per_plane": 24, "ssd.over_provisioning": '"28%"'}
HOST = {"ssd.host.completion": "10us", "ssd.host.bandwidth": "4000MB/s"}
Row = dict[str, Any]

# By part: its planes, KiB of a page and pages that are programmed at once; keys that are changed;
# a fixed key that may be wrong in the base.
PARTS: dict[str, tuple[tuple[int, int, int], dict[str, Any], str]] = {
    "tlc-3d-128": (
        (16, 16, 3),
        {
            "ssd.nand.read": ["56us"],
            "ssd.nand.read_small.read": ["46us"],
            "ssd.nand.program": ["0us", "0us", "1490us"],
            "ssd.nand.bus": "1066MB/s",
            **HOST,
        },
        "ssd.geometry.channels=8",
    ),
    "samsung-980-pro-1tb": (
        (32, 8, 6),
        {
            "ssd.nand.read": ["72us", "72us", "92us"],
            "ssd.nand.read_small.read": ["33.4us", "33.4us", "45.4us"],
            "ssd.nand.program": ["0us", "0us", "715us"],
            "ssd.nand.bus": "439MB/s",
            "ssd.host.completion": "8.6us",
            "ssd.host.bandwidth": "3260MB/s",
        },
        'ssd.host.command="12us"',
    ),
    "qlc-3d-96": (
        (16, 16, 4),
        {
            "ssd.nand.read": ["100us", "120us", "140us", "170us"],
            "ssd.nand.read_small.read": ["80us", "96us", "112us", "136us"],
            "ssd.nand.program": ["0us", "0us", "0us", "4370us"],
            "ssd.nand.bus": "1200MB/s",
            **HOST,
        },
        "ssd.geometry.planes_per_die=4",
    ),
    # One die and two: what limits them is flash, or the link beside it.
    "sd-uhs1": (
        (2, 16, 1),
        {
            "ssd.nand.read": ["80us"],
            "ssd.nand.read_small.read": ["80us"],
            "ssd.nand.program": ["1800us"],
            "ssd.nand.bus": "200MB/s",
            "ssd.host.completion": "10us",
            "ssd.host.bandwidth": "90MB/s",
        },
        'ssd.host.command="150us"',
    ),
    "emmc-51": (
        (4, 16, 1),
        {
            "ssd.nand.read": ["60us"],
            "ssd.nand.read_small.read": ["60us"],
            "ssd.nand.program": ["1500us"],
            "ssd.nand.bus": "400MB/s",
            "ssd.host.completion": "10us",
            "ssd.host.bandwidth": "250MB/s",
        },
        'ssd.host.command="50us"',
    ),
}
OFFERED = "samsung-pm9a3-960"
OFFERED_KEYS = {
    "ssd.nand.read": ["48us", "48us", "59us"],
    "ssd.nand.program": ["0us", "0us", "1900us"],
    "ssd.host.completion": "5us",
    "ssd.nand.program_suspend": "40us",
    "ssd.buffer.pace.page": "13us",
}
DEPTHS = [1, 2, 4, 8, 16, 32, 64, 128]
TABLES = {
    "reads by depth": [("randread", "4k", depth) for depth in [*DEPTHS, 256]],
    "reads by size and depth": [
        ("randread", size, depth) for size in ("4k", "16k", "64k") for depth in (1, 4, 16, 64)
    ],
    "reads and writes": [
        *[("randread", size, depth) for size in ("4k", "16k") for depth in (1, 4, 16, 64)],
        *[("randwrite", size, depth) for size in ("4k", "64k") for depth in (1, 8, 64)],
    ],
}
SHARES = [0.15, 0.3, 0.45, 0.6, 0.7, 0.8, 0.9, 1.2]
FILLS = [0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
NOISES = ["exact", "2 % each", "one load 20 % off", "a third 10 % slow", "three digits",
          "a fixed key wrong"]


def scaled(value: Any, factor: float) -> Any:
    """A quantity, or a list of them, times a factor."""
    if isinstance(value, list):
        return [scaled(one, factor) for one in value]
    number, unit = re.fullmatch(r"([0-9.]+)(.*)", value).groups()
    return f"{float(number) * factor:.5g}{unit}"


def first(value: Any) -> float:
    """The first number above 0 of a quantity."""
    return next(float(one) for one in re.findall(r"[0-9.]+", str(value)) if float(one) > 0)


def run(program: str, *args: str, cwd: Path) -> tuple[int, dict[str, Any], str]:
    """Exit code, JSON answer and what was said beside it."""
    done = subprocess.run([program, *args, "--json"], capture_output=True, text=True, cwd=cwd)
    return done.returncode, json.loads(done.stdout) if done.stdout else {}, done.stderr


def settings(keys: dict[str, Any]) -> list[str]:
    """As options."""
    text = {key: value if key in SMALL else json.dumps(value) for key, value in keys.items()}
    return [f"--set={key}={value}" for key, value in text.items()]


def lines(rows: list[Row], header: str) -> str:
    """A table for `--from`."""
    names = header.split(",")
    cell = lambda value: f"{value:.9g}" if isinstance(value, float) else str(value)  # noqa: E731
    return "\n".join([header, *(",".join(cell(row.get(n, "")) for n in names) for row in rows)])


def measured(program: str, part: str, keys: dict[str, Any], rows: list[Row], header: str,
             folder: Path) -> list[Row]:
    """What the part with these keys does under the loads of `rows`."""
    rows = [{"iops": 1e4, **row} for row in rows]
    # How long writes are measured follows from their rate: once more with that.
    for _ in range(2 if any("write" in row["rw"] for row in rows) else 1):
        (folder / "asked.csv").write_text(lines(rows, header))
        args = ["compare", part, "--with", "asked.csv", "--requests", "8000", *settings(keys)]
        code, answer, said = run(program, *args, cwd=folder)
        if code:
            sys.exit(said)
        for row, point in zip(rows, answer["parts"][0]["points"], strict=True):
            of = [point["modelled"][name] for name in METRICS]
            row |= dict(zip(["iops", "mean_us", "p50_us", "p99_us"], of, strict=True))
    return rows


def disturbed(rows: list[Row], noise: str, chance: random.Random) -> tuple[list[Row], str]:
    """What a machine that is not perfect makes of it, and the load that it got wrong."""
    loads = sorted({row.get("load", index) for index, row in enumerate(rows)})
    chosen, third = chance.choice(loads), len(loads) // 3
    begin = chance.randrange(len(loads) - third + 1)
    slow = {load: 1.0 for load in loads}
    if noise == "one load 20 % off":
        slow[chosen] = chance.choice([1.2, 1 / 1.2])
    elif noise == "a third 10 % slow":
        slow |= {load: 1.1 for load in loads[begin : begin + third]}
    small = {"exact": 0.0, "three digits": 0.0, "2 % each": 0.02}.get(noise, 0.01)
    for load in loads:
        slow[load] *= math.exp(chance.gauss(0, small))
    rows = copy.deepcopy(rows)
    for index, row in enumerate(rows):
        times = slow[row.get("load", index)]
        row["iops"] /= 1.0 if "offered_iops" in row and row.get("load") != "7" else times
        for name, more in (("mean_us", 0.0), ("p50_us", 0.5), ("p99_us", 2.0)):
            if isinstance(row.get(name), float):
                row[name] *= times * math.exp(chance.gauss(0, small * more))
        for name in ("iops", "mean_us", "p50_us", "p99_us"):
            if noise == "three digits" and isinstance(row.get(name), float):
                row[name] = float(f"{row[name]:.3g}")
        if isinstance(row.get("p99_us"), float):
            row["p99_us"] = max(row["p99_us"], row["p50_us"])
    own = next(row for index, row in enumerate(rows) if row.get("load", index) == chosen)
    return rows, f"{own['rw']} {own['bs']} depth {own['iodepth']}"


def by_loads(options: argparse.Namespace, kind: str, draw: int, chance: random.Random,
             folder: Path) -> tuple[str, str, dict[str, Any], list[Row]]:
    """A drive of closed loops: base, header, what is true, and what it does."""
    part = list(PARTS)[draw % len(PARTS)]
    (planes, page_kib, whole), keys, _ = PARTS[part]
    spread = options.spread
    keys = {key: scaled(value, math.exp(chance.uniform(-spread, spread)))
            for key, value in keys.items()}
    with open(Path(__file__).parent / ".." / "devices" / f"{part}.toml") as file:
        dies = int(re.search(r"dies_per_package = (\d+)", file.read())[1])
    more = chance.choice([1, 1, 2])
    dies *= more
    # So many times what `calibrate` gives a part that it only reads or fills (`smaller`): with
    # other blocks other addresses are asked for, and medians at a full queue differ by a quarter.
    pages = int((4 << 20) // page_kib // (planes * more * 24) * options.blocks) // whole * whole
    if all(bs == "4k" for _, bs, _ in TABLES[kind]):
        # What small reads take is not told then: one time for all.
        keys.pop("ssd.nand.read_small.read")
    shape = {**SMALL, "ssd.geometry.pages_per_block": pages, "ssd.geometry.dies_per_package": dies}
    drive = shape | keys
    if "ssd.nand.read_small.read" in keys:
        drive["ssd.nand.read_small.up_to"] = "4KiB"
    rows = [dict(rw=rw, bs=bs, iodepth=depth, numjobs=1) for rw, bs, depth in TABLES[kind]]
    truth = {**keys, "ssd.geometry.dies_per_package": dies}
    return part, HEADER, truth, measured(options.blocklab, part, drive, rows, HEADER, folder)


def by_rates(program: str, chance: random.Random, folder: Path
             ) -> tuple[str, str, dict[str, Any], list[Row]]:
    """The same of a drive to which writes are offered, beside a few reads."""
    keys = {key: scaled(value, math.exp(chance.uniform(-0.4, 0.4)))
            for key, value in OFFERED_KEYS.items()}
    most = 1e6 / first(keys["ssd.buffer.pace.page"])
    header = f"load,job,{HEADER},offered_iops,rate_process"
    rows = []
    for load, share in enumerate(SHARES):
        for job, rw, jobs, rate in (("load", "randwrite", 6, share * most - 500),
                                    ("quiet", "randread", 1, 5000), ("", "randwrite", 1, 500)):
            rows.append(dict(load=str(load), job=job, rw=rw, bs="4k", iodepth=64, numjobs=jobs,
                             offered_iops=round(rate), rate_process="poisson"))
    drive = {**keys, "ssd.geometry.blocks_per_plane": 256, "ssd.geometry.pages_per_block": 48,
             "ssd.over_provisioning": '"28%"', "ssd.nand.erase": "14us"}
    return OFFERED, header, keys, measured(program, OFFERED, drive, rows, header, folder)


def by_fills(program: str, chance: random.Random, folder: Path) -> tuple[int, list[int],
                                                                         list[float]]:
    """A drive by its write amplification: blocks of a plane, KiB that are used, WAF."""
    blocks = chance.randrange(120, 300)
    most = 0.86 * blocks * 16 * 128
    used = [round(share * most / 4) * 4 for share in FILLS]
    study = at_fills("slc2010-paper", f"blocks_per_plane = {blocks}", 100_000, used)
    (folder / "fills.toml").write_text(study)
    args = ["run", "fills.toml", "--no-report", "--no-cache", "--out", "fills"]
    code, answer, said = run(program, *args, cwd=folder)
    if code:
        sys.exit(said)
    return blocks, used, [one["metrics"]["waf"] for one in answer["runs"]]


def judged(keys: list[dict[str, Any]], truth: dict[str, Any]) -> list[dict[str, Any]]:
    """By key that was changed: how far off it is, and what was said of that."""
    found = []
    for key in keys:
        if key["key"] in truth:
            off = first(key["value"]) / first(truth[key["key"]]) - 1
            said = None if key["not_identified"] else key["standard_error"]
            found.append({"key": key["key"], "true": truth[key["key"]], "found": key["value"],
                          "off": off, "said": said, "error": key["standard_error"],
                          "why": key["not_identified"]})
    return found


def calibrated(program: str, args: list[str], truth: dict[str, Any], folder: Path) -> Row:
    """What `calibrate` says of a table that lies in `folder`."""
    (folder / "mine.toml").unlink(missing_ok=True)
    began = time.monotonic()
    code, answer, said = run(program, "calibrate", "--from", "drive.csv", "--out", "mine.toml",
                             *args, cwd=folder)
    row: Row = {"code": code, "seconds": round(time.monotonic() - began, 1), "stderr": said}
    if code > 1:
        return row
    held = [abs(p["modelled"][m] / p["measured"][m] - 1) for p in answer["held_back"]
            for m in p["measured"] if p["measured"][m] and p["modelled"].get(m)]
    dies = answer.get("dies_per_package")
    return row | {"keys": judged(answer["keys"], truth), "notes": answer["notes"],
                  "held": sorted(held)[len(held) // 2] if held else None,
                  "mechanism": answer.get("mechanism"), "tries": answer["tries"],
                  "dies": [dies, truth.get("ssd.geometry.dies_per_package")]}


def chosen(names: list[str], words: list[str]) -> list[str]:
    """Those that a word is part of; all, if no word is about them."""
    return [name for name in names if any(word in name for word in words)] or names


def answers(options: argparse.Namespace, folder: Path) -> list[Row]:
    """All of them."""
    found = []
    for kind in chosen(KINDS, options.names):
        for draw in range(options.drives):
            found += of_drive(options, kind, draw, chosen(NOISES, options.names), folder)
    return found


KINDS = [*TABLES, "latency over offered load", "WAF by fill"]


def of_drive(options: argparse.Namespace, kind: str, draw: int, noises: list[str], folder: Path
             ) -> list[Row]:
    """One drive, with each noise."""
    chance = random.Random(f"{options.seed} {kind} {draw}")
    requests = ["--requests", str(options.requests)]
    if kind == "WAF by fill":
        blocks, used, wafs = by_fills(options.blocklab, chance, folder)
        truth = {"ssd.geometry.blocks_per_plane": str(blocks)}
        sells = f"{used[-1]}KiB"
        base = ["--base", "slc2010-paper", "--set", "ssd.geometry.blocks_per_plane=128",
                "--set", f'ssd.over_provisioning={{capacity="{sells}"}}']
        rows = [dict(rw="w", bs="4k", iodepth=kib, iops=waf)
                for kib, waf in zip(used, wafs, strict=True)]
    elif kind in TABLES:
        part, header, truth, rows = by_loads(options, kind, draw, chance, folder)
        base = ["--base", part, *requests]
    else:
        part, header, truth, rows = by_rates(options.blocklab, chance, folder)
        base = ["--base", part, *requests]
    found = []
    for noise in noises:
        own, worst = disturbed(rows, noise, random.Random(f"{options.seed} {kind} {draw} {noise}"))
        args = list(base)
        if kind == "WAF by fill":
            text = "\n".join(["used,waf", *(f"{row['iodepth']}KiB,{row['iops']}" for row in own)])
            args += ["--set", 'ssd.gc="fifo"'] if noise == NOISES[-1] else []
        else:
            text = lines(own, header)
            fixed = PARTS[part][2] if part in PARTS else "ssd.geometry.channels=4"
            args += ["--set", fixed] if noise == NOISES[-1] else []
        (folder / "drive.csv").write_text(text + "\n")
        row = {"kind": kind, "draw": draw, "noise": noise, "base": args[1],
               **calibrated(options.blocklab, args, truth, folder)}
        if noise == "one load 20 % off":
            row["worst"], row["named"] = worst, any(f"{worst}:" in n for n in row.get("notes", []))
        else:
            row["accused"] = [n for n in row.get("notes", []) if "measure it again" in n]
        told(row)
        if options.keep:
            keep = Path(options.keep)
            keep.mkdir(exist_ok=True)
            name = re.sub(r"\W+", "-", f"{kind} {draw} {noise}")
            (keep / f"{name}.json").write_text(json.dumps({**row, "args": args, "table": text}))
        found.append(row)
    return found


def told(row: Row) -> None:
    """An answer, on stderr."""
    head = f"# {row['kind']}, {row['draw']}, {row['noise']}: {row['base']}, code {row['code']}, "
    held = f"{100 * row['held']:.1f} %" if row.get("held") is not None else "-"
    print(f"{head}{row['seconds']} s, held back {held}, dies {row.get('dies')}", file=sys.stderr)
    if row["code"] > 1:
        print(row["stderr"], file=sys.stderr)
    for key in row.get("keys", []):
        said = key["why"] or f"{100 * key['said']:.1f} %"
        print(f"#   {key['key']} {key['true']} {key['found']} {100 * key['off']:+.1f} %, {said}",
              file=sys.stderr)
    for note in row.get("notes", []):
        print(f"#   note: {note}", file=sys.stderr)
    sys.stderr.flush()


def table(name: str, groups: list[str], rows: list[Row]) -> list[str]:
    """By group: how many are known, and how many of these truly."""
    cells = [[name, "answers", "known", "in 2 X", "in 3 X", "in 5 %", "false", "unknown",
              "of these in 2 %", "median X", "held back", "s"], ["---"] * 12]
    for group in groups:
        own = [row for row in rows if group in (row["kind"], row["noise"])]
        keys = [key for row in own for key in row.get("keys", [])]
        known = [key for key in keys if key["said"] is not None]
        if not own or not keys:
            continue
        share = lambda good, known=known: (  # noqa: E731
            f"{100 * sum(map(good, known)) / len(known):.0f} %" if known else "-")
        false = [k for k in known if abs(k["off"]) > max(3 * k["said"], 0.05)]
        unknown = [key for key in keys if key["said"] is None]
        held = sorted(row["held"] for row in own if row.get("held") is not None)
        said = sorted(key["said"] for key in known)
        cells.append([
            group, str(len(own)), str(len(known)),
            share(lambda k: abs(k["off"]) <= 2 * k["said"]),
            share(lambda k: abs(k["off"]) <= 3 * k["said"]),
            share(lambda k: abs(k["off"]) <= 0.05), str(len(false)), str(len(unknown)),
            str(sum(abs(k["off"]) <= 0.02 for k in unknown)),
            f"{100 * said[len(said) // 2]:.1f} %" if said else "-",
            f"{100 * held[len(held) // 2]:.1f} %" if held else "",
            f"{sum(row['seconds'] for row in own) / len(own):.0f}",
        ])
    return [f"| {' | '.join(row)} |" for row in cells]


def main() -> int:
    """Print the tables; 1 if `calibrate` failed."""
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("blocklab", nargs="?", default="target/release/blocklab")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--drives", type=int, default=3)
    parser.add_argument("--seed", default="1")
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--blocks", type=float, default=1.0,
                        help="blocks of so many times the pages that calibrate gives a part")
    parser.add_argument("--spread", type=float, default=0.5,
                        help="keys are changed by up to this, as a logarithm")
    parser.add_argument("--keep", help="a folder for each table and answer")
    options = parser.parse_intermixed_args()
    options.blocklab = os.path.abspath(options.blocklab)
    with tempfile.TemporaryDirectory() as folder:
        rows = answers(options, Path(folder))
    print("\n".join([*table("disturbed by", NOISES, rows), "", *table("table of", KINDS, rows)]))
    disturbed_loads = [row for row in rows if "named" in row]
    named = sum(row["named"] for row in disturbed_loads)
    accused = sum(len(row.get("accused", [])) > 0 for row in rows)
    others = len(rows) - len(disturbed_loads)
    print(f"\nThe disturbed load is named in {named} of {len(disturbed_loads)} answers; "
          f"in {accused} of the {others} others a load is.")
    return int(any(row["code"] > 1 for row in rows))


if __name__ == "__main__":
    sys.exit(main())
