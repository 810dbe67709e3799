#!/usr/bin/python3
"""Transactions of LMDB (Debian's python3-lmdb); `write nosync` leaves its syncs out.

    blocklab crash --part tlc-3d-128 --mkfs ext4 \
        --check "$PWD/examples/crash/lmdb.py check" -- $PWD/examples/crash/lmdb.py write
"""

import importlib
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from blocklab_ack import ack, promised  # noqa: E402

# This file has the module's name.
sys.path = [folder for folder in sys.path if folder != str(pathlib.Path(__file__).resolve().parent)]
lmdb = importlib.import_module("lmdb")

PLACE = "/mnt/lmdb"
TRANSACTIONS = 20


def write(sync: bool) -> None:
    """Put a key and take another one away, and promise both."""
    with lmdb.open(PLACE, map_size=1 << 24, sync=sync) as environment:
        for number in range(TRANSACTIONS):
            with environment.begin(write=True) as transaction:
                transaction.put(f"{number}".encode(), f"{number}".encode() * 300)
                transaction.delete(f"{number - 3}".encode())
            ack(str(number))


def check() -> str | None:
    """What was promised is there, what was deleted is not, and all values are whole."""
    wanted = [int(line) for line in promised()]
    if not wanted:
        return None
    last = wanted[-1]
    try:
        with lmdb.open(PLACE, map_size=1 << 24, create=False) as environment:
            with environment.begin() as transaction:
                found = {int(key): value for key, value in transaction.cursor()}
    except lmdb.Error as why:
        return f"{last} was promised: {why}"
    # One transaction more may be there than was promised.
    exact = [set(range(max(0, number - 2), number + 1)) for number in (last, last + 1)]
    if set(found) not in exact:
        return f"{last} was promised; there are {sorted(found)}"
    torn = [number for number, value in found.items() if value != f"{number}".encode() * 300]
    return f"torn: {torn}" if torn else None


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write"]:
            write(sync=True)
        case ["write", "nosync"]:
            write(sync=False)
        case ["check"]:
            sys.exit(check())
        case _:
            sys.exit(__doc__)
