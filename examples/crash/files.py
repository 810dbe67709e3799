#!/usr/bin/python3
"""Files that are replaced by a new one, which is synced with its folder: nothing may be lost.

    blocklab crash --part tlc-3d-128 --mkfs ext4 \
        --check "$PWD/examples/crash/files.py check" -- $PWD/examples/crash/files.py write
"""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from blocklab_ack import ack, promised  # noqa: E402

ROUNDS = 20


def write() -> None:
    """New content for one of five names, each by a file beside it that takes the name's place."""
    os.chdir("/mnt")
    folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    for number in range(ROUNDS):
        name = f"file-{number % 5}"
        file = os.open("new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.write(file, f"{number}\n".encode() * 3000)
        os.fsync(file)
        os.close(file)
        os.rename("new", name)
        os.fsync(folder)
        ack(f"{name} {number}")


def check() -> str | None:
    """Each name has what was promised last, or what came later, and all of it."""
    last = {name: int(number) for name, number in (line.split() for line in promised())}
    for name, number in last.items():
        try:
            lines = pathlib.Path(name).read_text(encoding="utf-8").splitlines()
            whole = len(lines) == 3000 and len(set(lines)) == 1 and int(lines[0]) >= number
        except (OSError, ValueError) as why:
            return f"{name}: {why} where {number} was promised"
        if not whole:
            return f"{name}: {lines[:1]} {len(lines)} times where {number} was promised"
    return None


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write"]:
            write()
        case ["check"]:
            sys.exit(check())
        case _:
            sys.exit(__doc__)
