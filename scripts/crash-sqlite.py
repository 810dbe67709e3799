#!/usr/bin/python3
"""What SQLite keeps of its commits when the power goes, by journal mode and `synchronous`.

    scripts/crash-sqlite.py [CUTS]

runs `blocklab crash` for each pair: 20 commits, each acknowledged once SQLite has returned. `write`
and `check` are what runs in the guests.
"""

import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve()
BLOCKLAB = HERE.parent.parent / "target/debug/blocklab"
DATABASE = "/mnt/database"
COMMITS = 20
PAIRS = [(journal, synchronous) for journal in ("delete", "wal")
         for synchronous in ("off", "normal", "full", "extra")]


def write(journal: str, synchronous: str, commits: int) -> None:
    """Commit, and acknowledge each commit."""
    database = sqlite3.connect(DATABASE)
    database.execute(f"pragma journal_mode = {journal}")
    database.execute(f"pragma synchronous = {synchronous}")
    database.execute("create table rows (number integer primary key, text)")
    database.commit()
    for number in range(commits):
        database.execute("insert into rows values (?, ?)", (number, "x" * 500))
        database.commit()
        subprocess.run(["blocklab-ack", str(number)], check=True)


def check() -> int:
    """Is every row there that was acknowledged, and the database sound?"""
    promised = {int(line) for line in open(os.environ["BLOCKLAB_ACKS"], encoding="utf-8")}
    database = sqlite3.connect(DATABASE)
    try:
        found = {number for number, in database.execute("select number from rows")}
        sound = database.execute("pragma integrity_check").fetchone()[0]
    except sqlite3.Error as why:
        found, sound = set(), "ok" if not promised else str(why)
    missing = sorted(promised - found)
    if missing or sound != "ok":
        print(f"missing {missing} of {len(promised)}; {sound}")
    return int(bool(missing) or sound != "ok")


def sweep(cuts: str) -> None:
    """All pairs, a line each."""
    print("journal  synchronous   cuts  clean  lost  most commits lost")
    for journal, synchronous in PAIRS:
        with tempfile.TemporaryDirectory() as folder:
            command = [BLOCKLAB, "crash", "--part", "tlc-3d-128", "--mkfs", "ext4", "--cuts", cuts,
                       "--check", f"{HERE} check", "--out", folder, "--json", "--",
                       HERE, "write", journal, synchronous]
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
        case ["write", journal, synchronous]:
            write(journal, synchronous, COMMITS)
        case ["write", journal, synchronous, commits]:
            write(journal, synchronous, int(commits))
        case ["check"]:
            sys.exit(check())
        case []:
            sweep("60")
        case [cuts]:
            sweep(cuts)
        case _:
            sys.exit(__doc__)
