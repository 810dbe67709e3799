#!/usr/bin/python3
"""Make the parts in devices/iocost of the table beside this script.

    scripts/iocost-profiles.py

The table has the six sustained rates of each model of drive in the iocost database (github.com,
iocost-benchmark/iocost-benchmarks, Apache-2.0): the median, the least and the most of each number
over the runs of a model, and the least capacity where it was sold in several. A part of runs that
are too far apart is a sketch.
"""

import csv
import json
import pathlib
import re
import sys
from collections.abc import Iterable

HERE = pathlib.Path(__file__).resolve().parent
PARTS = HERE.parent / "devices/iocost"
TEXT = """\
[part]
name = "iocost/{name}"
title = {title}
status = "{status}"
error = "gives its six numbers within 10 %, those in bytes with requests of 4 MiB and more{apart}; \
no latency below saturation, no state"

[iocost]
capacity = "{size_bytes}B"
rbps = "{rbps}B/s"
rseqiops = {rseqiops}
rrandiops = {rrandiops}
wbps = "{wbps}B/s"
wseqiops = {wseqiops}
wrandiops = {wrandiops}

[source]
"iocost" = "measured through a file system: iocost database (Apache-2.0), {of}"
"""


NUMBERS = ["rbps", "rseqiops", "rrandiops", "wbps", "wseqiops", "wrandiops"]
#: Runs that are further from their median than this, as a share of it, are not of one drive.
APART_MAX = 0.25


def apart(row: dict[str, str]) -> tuple[float, str]:
    """How far a run of the model is from the median of its runs at most, and in which number."""

    def off(number: str) -> float:
        median = int(row[number])
        return max(abs(int(row[f"{number}_{end}"]) / median - 1) for end in ("min", "max"))

    return max((off(number), number) for number in NUMBERS)


def parts(rows: Iterable[dict[str, str]]) -> dict[str, str]:
    """Names and texts of the parts of a table's rows."""
    models: dict[str, str] = {}
    texts: dict[str, str] = {}
    for row in rows:
        model, runs = row["model"], int(row["runs"])
        name = re.sub("[^a-z0-9]+", "-", model.lower()).strip("-")
        if name in models:
            both = f"{models[name]!r} and {model!r} would both be {name}.toml"
            sys.exit(f"{both}: name one of them otherwise")
        models[name] = model
        of = "one run" if runs == 1 else f"the median of {runs} runs"
        most, number = apart(row)
        status = "sketch" if most > APART_MAX else "calibrated"
        far = f"{number} of one is {100 * most:.0f} % from its median, the others are nearer"
        of_runs = "" if runs == 1 else f", medians of {runs} runs: {far}"
        # A string of JSON is one of TOML.
        title = json.dumps(f"{model}: six sustained rates, and nothing else", ensure_ascii=False)
        texts[name] = TEXT.format(
            name=name, title=title, of=of, status=status, apart=of_runs, **row
        )
    return texts


def main() -> None:
    """Write a file for each line."""
    PARTS.mkdir(exist_ok=True)
    with (HERE / "iocost-drives.csv").open(encoding="utf-8") as table:
        made = parts(csv.DictReader(table))
    for name, text in made.items():
        (PARTS / f"{name}.toml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
