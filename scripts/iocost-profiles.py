#!/usr/bin/python3
"""Make the parts in devices/iocost of the table beside this script.

    scripts/iocost-profiles.py

The table has the six sustained rates of each model of drive in the iocost database (github.com,
iocost-benchmark/iocost-benchmarks, Apache-2.0): the median of each number over the runs of a model,
and the least capacity where it was sold in several.
"""

import csv
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
PARTS = HERE.parent / "devices/iocost"
TEXT = """\
[part]
name = "iocost/{name}"
title = "{model}: six sustained rates, and nothing else"
status = "calibrated"
error = "gives its six numbers within 10 %; no latency below saturation, no state"

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


def main() -> None:
    """Write a file for each line."""
    PARTS.mkdir(exist_ok=True)
    with (HERE / "iocost-drives.csv").open(encoding="utf-8") as table:
        for row in csv.DictReader(table):
            name = re.sub("[^a-z0-9]+", "-", row["model"].lower()).strip("-")
            of = "one run" if row["runs"] == "1" else f"the median of {row['runs']} runs"
            text = TEXT.format(name=name, of=of, **row)
            (PARTS / f"{name}.toml").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
