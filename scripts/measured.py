"""What the scripts that measure share: the program, a study, and the pages in docs/measured."""

from __future__ import annotations

import json
import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BINARY = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release/blocklab"

# As `calibrate` runs a part for its write amplification.
AT_FILLS = """
[device.ssd]
part = "{part}"
timing = "none"
geometry.{geometry}
[workload.fio]
rw = "randwrite"
bs = "4KiB"
norandommap = true
time_based = true
runtime = "1000h"
[[precondition]]
fill = {{ span = "100%" }}
[[precondition]]
overwrite = {{ span = "100%", writes = "250%", unit = "4KiB" }}
[run]
requests = {requests}
[sweep]
"device.ssd.over_provisioning.capacity" = {fills}
"""


def at_fills(part: str | Path, geometry: str, requests: int, fills_kib: list[int]) -> str:
    """A study of how much a part writes when so much of it is used; `geometry` is a setting."""
    fills = json.dumps([f"{kib}KiB" for kib in fills_kib])
    return AT_FILLS.format(part=part, geometry=geometry, requests=requests, fills=fills)


def write(page: str, tables: dict[str, str]) -> None:
    """Replace what is between the markers of each table's name in a page."""
    path = ROOT / "docs/measured" / page
    text = path.read_text()
    for name, table in tables.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        head, rest = text.split(begin, 1)
        text = head + begin + table + "\n" + end + rest.split(end, 1)[1]
    path.write_text(text)
