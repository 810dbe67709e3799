#!/usr/bin/env python3
"""Run real programs on a real kernel in virtual time, and write the table.

    scripts/measure-travel.py [--binary target/release/blocklab] [--only NAME] [--write]

With --write the tables replace those in docs/measured/travel.md. Needs `blocklab kernel build`,
and fio, postmark, bonnie++, dbench, e2fsprogs, xfsprogs, reiserfsprogs (make clients). A program
that is missing is left out, with a line that says so.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/measured/travel.md"
DISK, SSD = "wd-80g-5400", "mqsim-f"
POSTMARK = (
    "printf 'set location /mnt\\nset size 9000 15000\\nset number 2000\\n"
    "set transactions 10000\\nrun\\nquit\\n' > /tmp/p && postmark /tmp/p"
)
BONNIE = "bonnie++ -d /mnt -s 512 -r 256 -n 4 -u root -q"
DBENCH = "dbench -t 20 -c /usr/share/dbench/client.txt -D /mnt 2"
FIO = (
    "fio --name=t --directory=/mnt --size=64m --rw=randrw --bs=4k --ioengine=psync --thread "
    "--number_ios=4000 --fsync=32 --clocksource=clock_gettime --output-format=terse"
)
FIO_RAW = (
    "fio --name=t --filename=/dev/vda --size=512m --rw={rw} --bs=4k --ioengine=io_uring "
    "--iodepth={depth} --direct=1 --number_ios={ios} --clocksource=clock_gettime "
    "--output-format=terse"
)


def shell(text: str) -> list[str]:
    return ["sh", "-c", text]


def journeys() -> list[tuple[str, str, list[str], list[str], str]]:
    """(name, part, options, command, the program it needs)"""
    found = [("sleep 3600", SSD, [], ["sleep", "3600"], "sleep")]
    for part in (DISK, SSD):
        for fs in ("ext2", "ext3", "reiserfs", "xfs"):
            options = ["--mkfs", fs]
            found.append((f"postmark, {fs}", part, options, shell(POSTMARK), "postmark"))
        for name, text in (("bonnie++", BONNIE), ("dbench", DBENCH), ("fio", FIO)):
            found.append((f"{name}, ext3", part, ["--mkfs", "ext3"], shell(text), name))
    for rw, depth, ios in (("randread", 32, 200_000), ("randwrite", 32, 100_000),
                           ("randread", 1, 50_000)):
        text = FIO_RAW.format(rw=rw, depth=depth, ios=ios)
        found.append((f"fio {rw}, depth {depth}, raw", SSD, ["--fill", "--sched", "none"],
                      shell(text), "fio"))
    return found


def installed(program: str) -> bool:
    return shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin") is not None


def travel(binary: Path, part: str, options: list[str], command: list[str]) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        arguments = [str(binary), "travel", part, *options, "--out", folder, "--", *command]
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=1800)
        if done.returncode != 0:
            sys.exit(f"{' '.join(arguments)}: {done.returncode}\n{done.stdout}{done.stderr}")
        return json.loads((Path(folder) / "travel.json").read_text())


def row(name: str, part: str, report: dict) -> str:
    disk = report["disks"][0]
    total = {key: sum(block[key] for block in disk["block"]) for key in
             ("queued", "merged", "dispatched")}
    whole = sum(op["requests"] for op in disk["device_whole"])
    return (
        f"| {name} | {part} | {report['command_s']:.3f} | {report['sync_s']:.3f} "
        f"| {total['queued']:,} | {total['merged']:,} | {total['dispatched']:,} "
        f"| {report['wall_s']:.1f} | {whole / report['wall_s']:,.0f} | `{report['digest']}` |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", type=Path, default=ROOT / "target/release/blocklab")
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    lines = [
        "| program | part | virtual s | then to write back | queued | merged | dispatched | wall s "
        "| device I/Os per wall s | digest |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, part, extra, command, program in journeys():
        if options.only not in name:
            continue
        if not installed(program):
            print(f"left out: {name}: {program} is not installed", file=sys.stderr)
            continue
        lines.append(row(name, part, travel(options.binary.resolve(), part, extra, command)))
        print(lines[-1], flush=True)
    load = os.getloadavg()[0]
    lines.append(f"\nLoad of the machine at the end: {load:.1f} on {os.cpu_count()} cores.")
    if options.write:
        text = PAGE.read_text()
        before, rest = text.split("<!-- measured -->", 1)
        _, after = rest.split("<!-- end measured -->", 1)
        table = "\n".join(lines)
        PAGE.write_text(f"{before}<!-- measured -->\n{table}\n<!-- end measured -->{after}")


if __name__ == "__main__":
    main()
