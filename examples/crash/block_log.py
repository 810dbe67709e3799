#!/usr/bin/python3
"""A log on the bare device: records with a length and a checksum, each promised when it is durable.

    blocklab crash --part tlc-3d-128 --subsets 8 \\
        --check "$PWD/examples/crash/block_log.py check" -- $PWD/examples/crash/block_log.py write

`write no-dsync` promises what is only in the drive's cache.
"""

import os
import pathlib
import struct
import sys
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from blocklab_ack import ack, promised  # noqa: E402

DEVICE = "/dev/vda"
RECORDS = 16
RECORD_BYTES = 4096
#: Number, length, and checksum of both and the data.
HEADER = struct.Struct("<QII")


def record(number: int) -> bytes:
    """The record of that number, a block."""
    data = f"{number} ".encode() * (50 + 37 * number % 400)
    checksum = zlib.crc32(struct.pack("<QI", number, len(data)) + data)
    return (HEADER.pack(number, len(data), checksum) + data).ljust(RECORD_BYTES, b"\0")


def write(dsync: bool) -> None:
    """Append, past the page cache."""
    import mmap  # its memory is aligned, as O_DIRECT wants it

    flags = os.O_RDWR | os.O_DIRECT | (os.O_DSYNC if dsync else 0)
    device = os.open(DEVICE, flags)
    block = mmap.mmap(-1, RECORD_BYTES)
    for number in range(1, RECORDS + 1):
        block[:] = record(number)
        os.pwritev(device, [block], number * RECORD_BYTES)
        ack(str(number))


def check() -> str | None:
    """Read as far as records are whole: none that was promised is behind that."""
    with open(DEVICE, "rb") as device:
        log = device.read((RECORDS + 1) * RECORD_BYTES)
    whole = 0
    for number in range(1, RECORDS + 1):
        found = log[number * RECORD_BYTES:(number + 1) * RECORD_BYTES]
        named, length, checksum = HEADER.unpack_from(found)
        data = found[HEADER.size:HEADER.size + length]
        if checksum != zlib.crc32(struct.pack("<QI", named, length) + data) or named != number:
            break
        if found != record(number):
            return f"record {number} passes for whole and is not"
        whole = number
    last = max((int(line) for line in promised()), default=0)
    return f"{last} records were promised, {whole} are there" if whole < last else None


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write"]:
            write(dsync=True)
        case ["write", "no-dsync"]:
            write(dsync=False)
        case ["check"]:
            sys.exit(check())
        case _:
            sys.exit(__doc__)
