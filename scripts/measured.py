"""What the scripts that measure share: the program, and the pages in docs/measured."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BINARY = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release/blocklab"


def write(page: str, tables: dict[str, str]) -> None:
    """Replace what is between the markers of each table's name in a page."""
    path = ROOT / "docs/measured" / page
    text = path.read_text()
    for name, table in tables.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        head, rest = text.split(begin, 1)
        text = head + begin + table + "\n" + end + rest.split(end, 1)[1]
    path.write_text(text)
