#!/usr/bin/env python3
"""Fit parts to half of what was measured on drives, and compare them with the other half.

    scripts/hold-out.py TABLES [BLOCKLAB] [NAME...]

NAME is part of a row's name: `reads`, `writes`, `offered`, `WAF`.

TABLES is a folder with the public tables that docs/measured/real-drives.md names, as CSV. Each
drive is begun with a sketch of another one, as somebody would who knows nothing of it.
"""

import csv
import json
import statistics
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

from measured import at_fills

HEADER = "rw,bs,iodepth,numjobs,iops,mean_us,p50_us,p99_us"
METRICS = ["IOPS", "mean us", "p50 us", "p99 us"]
Row = dict[str, str]


def points(rows: list[Row], rw: str, wanted: Callable[[Row], bool]) -> list[str]:
    """Lines of a table for `calibrate`: a point each, in order of size and depth."""
    rows = [row for row in rows if wanted(row)]

    def size(row: Row) -> int:
        text = row["bs"].lower().removesuffix("bs").removesuffix("b")
        return int(text.removesuffix("k")) * (1024 if text.endswith("k") else 1)

    jobs = {id(row): int(row["numjobs"] or 1) for row in rows}
    rows.sort(key=lambda row: (size(row), int(row["iodepth"]) * jobs[id(row)]))
    return [
        f"{rw},{size(row)},{row['iodepth']},{jobs[id(row)]},{row['iops']},{row['lat_mean_us']},"
        f"{row['p50']},{row['p99']}"
        for row in rows
    ]


def halves(lines: list[str]) -> tuple[list[str], list[str]]:
    """Every second point of each size, the first of it among them; and the others."""
    by_size: dict[str, list[str]] = {}
    for line in lines:
        by_size.setdefault(line.split(",")[1], []).append(line)
    fitted = [line for own in by_size.values() for line in own[::2]]
    return fitted, [line for own in by_size.values() for line in own[1::2]]


def drives(tables: Path) -> dict[str, tuple[str, list[str], list[str]]]:
    """By drive: the base, and two halves of its points."""

    def read(name: str) -> list[Row]:
        with open(tables / name, newline="") as file:
            return list(csv.DictReader(file))

    zns = read("nvmebenchmarks_zns_nvme.csv")
    pro = read("icpe24_980pro_randread_bs_qd.csv")

    def of(device: str, operation: str) -> Callable[[Row], bool]:
        one = (("engine", "spdk"), ("device", device), ("operation", operation))
        return lambda row: all(row[key] == value for key, value in one)

    def alone(engine: str) -> Callable[[Row], bool]:
        return lambda row: (
            row["ioengine"] == engine and "8_dev" not in row["file"] and row["bs"] == "4kb"
        )

    def by_size(row: Row) -> bool:
        return "vary_bs" in row["file"]

    return {
        "WD ZN540, reads": (
            "tlc-3d-128",
            *halves(points(zns, "randread", of("zns-a", "randread"))),
        ),
        "980 PRO, reads by SPDK": ("tlc-3d-128", *halves(points(pro, "randread", alone("spdk")))),
        "980 PRO, reads by io_uring": (
            "tlc-3d-128",
            *halves(points(pro, "randread", alone("io_uring"))),
        ),
        "980 PRO, reads by size": ("tlc-3d-128", *halves(points(pro, "randread", by_size))),
        "an NVMe drive (`nvme-a`), writes": (
            "tlc-3d-128",
            *halves(points(zns, "randwrite", of("nvme-a", "writerand"))),
        ),
    }


def run(program: str, *args: str) -> dict[str, Any]:
    """The JSON answer of a verb, if it is that there is none, too."""
    done = subprocess.run([program, *args, "--json"], capture_output=True, text=True)
    if done.returncode > 1:
        sys.exit(done.stderr)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def errors(points: list[dict[str, Any]]) -> list[str]:
    """By metric: median and worst error of a part."""
    names = {"IOPS": "iops", "mean us": "latency_us_mean"}
    names |= {"p50 us": "latency_us_p50", "p99 us": "latency_us_p99"}
    cells = []
    for metric in METRICS:
        name, off = names[metric], []
        for point in points:
            drive, part = point["measured"].get(name), point["modelled"].get(name)
            if drive and part:
                off.append(abs(part / drive - 1) * 100)
        cells.append(f"{statistics.median(off):.1f}, {max(off):.1f}" if off else "")
    return cells


def held_out(program: str, folder: Path, drive: tuple[str, list[str], list[str]]) -> list[str]:
    """Fit to the first half, compare with the second."""
    base, fitted, held = drive
    for name, lines in (("fitted", fitted), ("held", held)):
        (folder / f"{name}.csv").write_text("\n".join([HEADER, *lines]) + "\n")
    part, table = folder / "part.toml", folder / "fitted.csv"
    began = time.monotonic()
    args = ["--from", str(table), "--base", base, "--out", str(part), "--hold-out", "0"]
    fit = run(program, "calibrate", *args)
    took = time.monotonic() - began
    compared = run(program, "compare", str(part), "--with", str(folder / "held.csv"))
    known = sum(not key["not_identified"] for key in fit["keys"])
    print(f"# {base}, {fit['tries']} tries, {took:.0f} s", file=sys.stderr)
    for key in fit["keys"]:
        print(f"#   {key['key']} = {key['value']} {key['not_identified'] or ''}", file=sys.stderr)
    print(f"#   {fit['dies_per_package']} of {fit['dies_tried']}", file=sys.stderr)
    counts = [str(len(fitted)), str(len(held)), f"{known} of {len(fit['keys'])}"]
    return [f"`{base}`", *counts, *errors(compared["parts"][0]["points"])]


OFFERED = {
    "Samsung PM9A3": "s0",
    "KIOXIA CM7-R": "k4",
    "KIOXIA CM7-R, a second one": "k5",
    "Micron 7450 MAX": "mp0",
}


def offered(program: str, folder: Path, tables: Path, drive: str) -> list[str]:
    """Fit to each other rate that was offered, judged by the rates between."""
    head, *lines = (tables / "ssdiq_latency_vs_load.csv").read_text().splitlines()
    own = [line for line in lines if line.startswith(f"{drive},")]
    (folder / "own.csv").write_text("\n".join([head, *own]) + "\n")
    args = ["--from", str(folder / "own.csv"), "--base", "tlc-3d-128", "--hold-out", "2"]
    fit = run(program, "calibrate", *args, "--out", str(folder / "part.toml"))
    for way in fit["mechanisms_tried"]:
        print(f"#   {way['mechanism']}: {100 * way['error']:.1f} % rms", file=sys.stderr)
    loads = [len({point["load"] for point in fit[half]}) for half in ("fitted", "held_back")]
    known = sum(not key["not_identified"] for key in fit["keys"])
    counts = [f"{loads[0]} rates", f"{loads[1]} rates", f"{known} of {len(fit['keys'])}"]
    return [f"`tlc-3d-128` with {fit['mechanism']}", *counts, *errors(fit["held_back"])]


# Of the 7450: at 372 and 596 GiB as it was measured, elsewhere what its part gives when it is
# steady (`blocklab run real/micron-7450-max`).
FILLS_GIB = {372: 1.1065, 447: 1.176, 521: 1.271, 596: 1.408, 670: 1.604, 745: 1.903}


def amplified(program: str, folder: Path, base: str, given: tuple[int, ...]) -> list[str]:
    """Fit flash to these fills, judged by the others."""
    rows = "".join(f"{fill}GiB,{FILLS_GIB[fill]}\n" for fill in given)
    (folder / "waf.csv").write_text(f"used,waf\n{rows}")
    part = folder / "part.toml"
    args = ["--from", str(folder / "waf.csv"), "--base", base, "--hold-out", "0"]
    args += ["--set", 'ssd.over_provisioning={capacity="745GiB"}', "--out", str(part)]
    fit = run(program, "calibrate", *args)
    with open(part, "rb") as file:
        pages = tomllib.load(file)["ssd"]["geometry"]["pages_per_block"]
    others = [fill for fill in FILLS_GIB if fill not in given]
    small = [round(fill * 2**20 * 256 / pages / 4) * 4 for fill in others]
    study = at_fills(part, "pages_per_block = 256", 2_000_000, small)
    (folder / "held.toml").write_text(study)
    out = ["--no-report", "--no-cache", "--out", str(folder / "out")]
    runs = run(program, "run", str(folder / "held.toml"), *out)["runs"]
    found = [one["metrics"]["waf"] for one in runs]
    off = [100 * (waf / FILLS_GIB[fill] - 1) for fill, waf in zip(others, found, strict=True)]
    worst = max(zip(off, others, strict=True), key=lambda one: abs(one[0]))
    size = f"{fit['flash_bytes'] / 2**30:.0f} GiB"
    known = fit["keys"][0]["not_identified"] or f"{100 * fit['keys'][0]['standard_error']:.1f} %"
    middle = statistics.median(map(abs, off))
    return [f"`{base}`", size, known, f"{middle:.1f}", f"{worst[0]:+.1f} at {worst[1]} GiB"]


Work = Callable[[Path], list[str]]


def works(program: str, tables: Path) -> dict[str, dict[str, Work]]:
    """By the head of a table, its rows: what each is of, and what is done for it."""
    metrics = [f"{metric}: median, worst %" for metric in METRICS]
    head = ["drive", "begun with", "fitted", "held out", "keys known", *metrics]
    points: dict[str, Work] = {
        name: partial(held_out, program, drive=drive) for name, drive in drives(tables).items()
    }
    rates: dict[str, Work] = {
        f"{name}, offered": partial(offered, program, tables=tables, drive=drive)
        for name, drive in OFFERED.items()
    }
    fills: dict[str, Work] = {
        f"WAF at {', '.join(map(str, given))} GiB": partial(
            amplified, program, base="micron-7450-max-800", given=given
        )
        for count in (2, 3)
        for given in combinations(FILLS_GIB, count)
    }
    of_fills = ["fitted", "begun with", "flash", "known to", "held out: median %", "worst %"]
    return {" | ".join(head): points | rates, " | ".join(of_fills): fills}


def main() -> None:
    """Print the tables."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program = sys.argv[2] if len(sys.argv) > 2 else "target/release/blocklab"
    for head, rows in works(program, Path(sys.argv[1])).items():
        wanted = sys.argv[3:] or [""]
        rows = {name: do for name, do in rows.items() if any(word in name for word in wanted)}
        if rows:
            print(f"| {head} |\n|" + "---|" * len(head.split("|")), flush=True)
        for name, work in rows.items():
            with tempfile.TemporaryDirectory() as folder:
                cells = work(Path(folder))
            print("| " + " | ".join([name, *cells]) + " |", flush=True)


if __name__ == "__main__":
    main()
