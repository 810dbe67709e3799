#!/usr/bin/python3
"""What SQLite keeps of its commits when the power goes, by journal mode and `synchronous`.

    scripts/crash-sqlite.py [CUTS]

runs `blocklab crash` of examples/crash/sqlite.py for each pair: 20 commits, each acknowledged once
SQLite has returned.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCKLAB = ROOT / "target/debug/blocklab"
PROGRAM = ROOT / "examples/crash/sqlite.py"
PAIRS = [(journal, synchronous) for journal in ("delete", "wal")
         for synchronous in ("off", "normal", "full", "extra")]


def sweep(cuts: str) -> None:
    """All pairs, a line each."""
    print("journal  synchronous   cuts  clean  lost  most commits lost")
    for journal, synchronous in PAIRS:
        with tempfile.TemporaryDirectory() as folder:
            command = [BLOCKLAB, "crash", "--part", "tlc-3d-128", "--mkfs", "ext4", "--cuts", cuts,
                       "--check", f"{PROGRAM} check", "--out", folder, "--json", "--",
                       PROGRAM, "write", journal, synchronous]
            run = subprocess.run(command, capture_output=True, text=True)
            if run.returncode not in (0, 1):
                sys.exit(run.stderr)
            report = json.loads((pathlib.Path(folder) / "crash.json").read_text())
        lost = [cut for cut in report["cuts"] if cut["verdict"] == "lost"]
        most = max((len(cut["said"].split("]")[0].split(",")) for cut in lost), default=0)
        clean = report["counts"]["clean"]
        print(f"{journal:8} {synchronous:12} {len(report['cuts']):5} {clean:6} {len(lost):5} "
              f"{most:5}", flush=True)


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            sweep("60")
        case [cuts]:
            sweep(cuts)
        case _:
            sys.exit(__doc__)
