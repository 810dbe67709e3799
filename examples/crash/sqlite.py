#!/usr/bin/python3
"""Commits of SQLite, with a journal mode and a `synchronous`.

    blocklab crash --part tlc-3d-128 --mkfs ext4 \
        --check "$PWD/examples/crash/sqlite.py check" \
        -- $PWD/examples/crash/sqlite.py write wal full
"""

import pathlib
import sqlite3
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from blocklab_ack import ack, promised  # noqa: E402

DATABASE = "/mnt/database"


def write(journal: str, synchronous: str, commits: int) -> None:
    """Commit, and promise each commit."""
    database = sqlite3.connect(DATABASE)
    database.execute(f"pragma journal_mode = {journal}")
    database.execute(f"pragma synchronous = {synchronous}")
    database.execute("create table rows (number integer primary key, text)")
    database.commit()
    for number in range(commits):
        database.execute("insert into rows values (?, ?)", (number, "x" * 500))
        database.commit()
        ack(str(number))


def check() -> str | None:
    """Every row that was promised is there, and the database is sound."""
    wanted = {int(line) for line in promised()}
    database = sqlite3.connect(DATABASE)
    try:
        found = {number for number, in database.execute("select number from rows")}
        sound = database.execute("pragma integrity_check").fetchone()[0]
    except sqlite3.Error as why:
        found, sound = set(), "ok" if not wanted else str(why)
    missing = sorted(wanted - found)
    if missing or sound != "ok":
        return f"missing {missing} of {len(wanted)}; {sound}"
    return None


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write", journal, synchronous]:
            write(journal, synchronous, 20)
        case ["write", journal, synchronous, commits]:
            write(journal, synchronous, int(commits))
        case ["check"]:
            sys.exit(check())
        case _:
            sys.exit(__doc__)
