#!/usr/bin/python3
"""Make the parts in devices/iocost of the table beside this script.

    scripts/iocost-profiles.py

The table has the six sustained rates of each model of drive in the iocost database (github.com,
iocost-benchmark/iocost-benchmarks, Apache-2.0): the median of each number over the runs of a model,
and the least capacity where it was sold in several. How far its runs are apart is not in the table.
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
status = "calibrated"
error = "gives its six numbers within 10 %{apart}; no latency below saturation, no state"

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
        apart = "" if runs == 1 else f", medians of {runs} runs that are an unknown way apart"
        # A string of JSON is one of TOML.
        title = json.dumps(f"{model}: six sustained rates, and nothing else", ensure_ascii=False)
        texts[name] = TEXT.format(name=name, title=title, of=of, apart=apart, **row)
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
