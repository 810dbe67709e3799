#!/usr/bin/env python3
"""Run real programs on a real kernel in virtual time, and write the table.

    scripts/measure-travel.py [--binary target/release/blocklab] [--only NAME] [--write]

Each is run twice, the second time with every core kept busy: what is reported must be the same.
With --write the table replaces the one in docs/measured/travel.md. Needs `blocklab kernel build`,
and fio, postmark, bonnie++, dbench, e2fsprogs, xfsprogs, reiserfsprogs (make clients). A program
that is missing is left out, with a line that says so.
"""

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import measured
from measured import BINARY

DISK, SSD = "wd-80g-5400", "mqsim-f"
POSTMARK = (
    "printf 'set location /mnt\\nset size 9000 15000\\nset number 2000\\n"
    "set transactions 10000\\nrun\\nquit\\n' > /tmp/p && postmark /tmp/p"
)
# Without the tests that do a system call for each byte: they measure the host.
BONNIE = "bonnie++ -d /mnt -s 256 -r 128 -n 4 -u root -q -f"
DBENCH = "dbench -t 3 -c /usr/share/dbench/client.txt -D /mnt 2"
FIO = (
    "fio --name=t --directory=/mnt --size=64m --rw=randrw --bs=4k --ioengine=psync --thread "
    "--number_ios=4000 --fsync=32 --clocksource=clock_gettime --output-format=terse"
)
# One thread at a depth, without a clock read per request; in batches, as io_uring is meant.
FIO_RAW = (
    "fio --name=t --filename=/dev/vda --size=512m --rw={rw} --bs=4k --ioengine=io_uring "
    "--iodepth={depth} --iodepth_batch={batch} --iodepth_batch_complete_min={batch} --direct=1 "
    "--number_ios={ios} --gtod_reduce=1 --clocksource=clock_gettime --output-format=terse"
)
FILE_SYSTEMS = ("ext2", "ext3", "reiserfs", "xfs")
PROGRAMS = (("postmark", POSTMARK), ("bonnie++", BONNIE), ("dbench", DBENCH), ("fio", FIO))
# (rw, depth, batch, requests)
RAW = (
    ("randread", 32, 1, 200_000),
    ("randread", 32, 16, 200_000),
    ("randwrite", 32, 1, 100_000),
    ("randwrite", 32, 16, 100_000),
    ("randread", 1, 1, 50_000),
)


def shell(text: str) -> list[str]:
    return ["sh", "-c", text]


def journeys() -> list[tuple[str, str, list[str], list[str], str]]:
    """(name, part, options, command, the program it needs)"""
    found = [("sleep 3600", SSD, [], ["sleep", "3600"], "sleep")]
    for name, text in PROGRAMS:
        for part in (DISK, SSD):
            for fs in FILE_SYSTEMS:
                found.append((f"{name}, {fs}", part, ["--mkfs", fs], shell(text), name))
    options = ["--fill", "--sched", "none"]
    for rw, depth, batch, ios in RAW:
        text = FIO_RAW.format(rw=rw, depth=depth, batch=batch, ios=ios)
        name = f"fio {rw}, depth {depth}, batches of {batch}"
        found.append((name, SSD, options, shell(text), "fio"))
    return found


def installed(program: str) -> bool:
    return shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin") is not None


class Load:
    """Keeps every core busy."""

    def __enter__(self) -> None:
        command = [sys.executable, "-c", "while True: pass"]
        self.busy = [subprocess.Popen(command) for _ in range(os.cpu_count() or 1)]

    def __exit__(self, *_: object) -> None:
        for process in self.busy:
            process.kill()
            process.wait()


def travel(binary: Path, part: str, options: list[str], command: list[str]) -> dict:
    """The report of a journey, and the seconds of CPU that it and its guest took."""
    with tempfile.TemporaryDirectory() as folder:
        arguments = [str(binary), "travel", part, *options, "--out", folder, "--", *command]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(arguments, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=1800)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode != 0:
            sys.exit(f"{' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}")
        report = json.loads((Path(folder) / "travel.json").read_text())
    report["cpu_s"] = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return report


def repeatable(report: dict) -> dict:
    """What must be the same again: everything but the host's own seconds."""
    of_the_host = ("wall_s", "cpu_s", "free_cpu_s", "free_cpu_share")
    return {key: value for key, value in report.items() if key not in of_the_host}


def row(name: str, part: str, report: dict, same: str) -> str:
    disk = report["disks"][0]
    total = {key: sum(block[key] for block in disk["block"]) for key in
             ("queued", "merged", "dispatched")}
    whole = sum(op["requests"] for op in disk["device_whole"])
    wall, cpu = report["wall_s"], report["cpu_s"]
    return (
        f"| {name} | {part} | {report['command_s']:.3f} | {report['sync_s']:.3f} "
        f"| {total['queued']:,} | {total['merged']:,} | {total['dispatched']:,} "
        f"| {wall:.1f} | {cpu:.1f} | {whole / wall:,.0f} | {whole / cpu:,.0f} "
        f"| `{report['digest']}` | {same} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", type=Path, default=BINARY)
    parser.add_argument("--only", default="")
    parser.add_argument("--once", action="store_true", help="not again on a busy machine")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    binary = options.binary.resolve()
    lines = [
        "| program | part | virtual s | to write back | queued | merged | dispatched | wall s "
        "| CPU s | device I/Os per wall s | per CPU s | digest | again, busy |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    others = []
    began = os.getloadavg()[0]
    for name, part, extra, command, program in journeys():
        if options.only not in name:
            continue
        if not installed(program):
            print(f"left out: {name}: {program} is not installed", file=sys.stderr)
            continue
        report, same = travel(binary, part, extra, command), "not tried"
        if not options.once:
            with Load():
                again = travel(binary, part, extra, command)
            same = "the same" if repeatable(again) == repeatable(report) else "DIFFERENT"
            if same == "DIFFERENT":
                others.append(name)
        lines.append(row(name, part, report, same))
        print(lines[-1], flush=True)
    ended = os.getloadavg()[0]
    lines.append(f"\nLoad of the machine before: {began:.1f}, after: {ended:.1f}, on "
                 f"{os.cpu_count()} cores.")
    print(lines[-1])
    if options.write:
        measured.write("travel.md", {"measured": "\n".join(lines)})
    if others:
        sys.exit(f"not the same again: {', '.join(others)}")


if __name__ == "__main__":
    main()
