#!/usr/bin/python3
"""Power cuts of set-ups that are right: none of them may lose anything.

    scripts/crash-right.py [CUTS [PROGRAM]]

runs `blocklab crash` for each program of examples/crash that syncs what it promises, or for one,
for each file system and drive, CUTS cuts each, a line each. Exit code 1 when anything was lost: a
false alarm or a finding.
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BLOCKLAB = ROOT / "target/debug/blocklab"
#: By name: the program in examples/crash, and what it is told.
PROGRAMS = {
    "files": "files.py write",
    "git": "git.py write",
    "sqlite delete/extra": "sqlite.py write delete extra",
    "sqlite wal/full": "sqlite.py write wal full",
    "lmdb": "lmdb.py write",
    "postgresql": "postgresql.sh write",
}
FILE_SYSTEMS = ["ext4", "xfs", "btrfs"]
PARTS = ["tlc-3d-128", "wd-80g-5400"]


def sweep(cuts: str, programs: dict[str, str]) -> int:
    """All of them."""
    print("program              on     drive         cuts  media  clean  repaired  lost  refused")
    wrong = total = 0
    for name, write in programs.items():
        path, *words = write.split()
        path = f"{ROOT}/examples/crash/{path}"
        for file_system in FILE_SYSTEMS:
            for part in PARTS:
                with tempfile.TemporaryDirectory() as folder:
                    command = [BLOCKLAB, "crash", "--part", part, "--mkfs", file_system,
                               "--mem", "512M", "--cuts", cuts, "--check", f"{path} check",
                               "--out", folder, "--json", "--", path, *words]
                    began = time.monotonic()
                    run = subprocess.run(command, capture_output=True, text=True)
                    if run.returncode not in (0, 1):
                        sys.exit(run.stderr)
                    report = json.loads((pathlib.Path(folder) / "crash.json").read_text())
                    if run.returncode == 1:
                        print(run.stderr[-1500:])
                counts = report["counts"]
                bad = counts["lost"] + counts["refused"]
                number = len(report["cuts"])
                wrong += bad
                total += number
                media = number - sum(cut["same_as_ns"] is not None for cut in report["cuts"])
                print(f"{name:20} {file_system:6} {part:12} {number:5} {media:6} "
                      f"{counts['clean']:6} {counts['repaired']:9} {counts['lost']:5} "
                      f"{counts['refused']:8} {time.monotonic() - began:4.0f} s", flush=True)
    print(f"{total} cuts, {wrong} of them wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            sys.exit(sweep("210", PROGRAMS))
        case [cuts]:
            sys.exit(sweep(cuts, PROGRAMS))
        case [cuts, name] if name in PROGRAMS:
            sys.exit(sweep(cuts, {name: PROGRAMS[name]}))
        case _:
            sys.exit(__doc__)
