#!/usr/bin/env python3
"""Put Linux's md with write-behind and our mirror on the same legs, in one guest and one run.

    scripts/mirror-against-md.py [--seconds 4] [--write]

Both legs are disks with a write cache behind dm-delay: one without delay, one of 20 ms. Frozen
means that a leg answers nothing for 2 s. With --write the table replaces that of
docs/measured/mirror.md. Exit code 77: this machine cannot run guests.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import measured
from measured import BINARY, ROOT

MODULES = ["virtio_pci", "virtio_blk", "dm_mod", "dm_delay", "raid1", "ublk_drv"]
PROGRAMS = ["fio", "dmsetup", "mdadm"]
CASES = {
    "none": "200 writes/s",
    "fast": "fast leg frozen 2 s",
    "slow": "slow leg frozen 2 s",
    "cap": "8 x 200 writes/s, slow leg 300 ms",
}


def parse(text: str) -> tuple[dict, dict, dict, int]:
    """What the guest said: fio's runs, single writes in seconds, probes, and md's backlog."""
    runs, once, probes = {}, {}, {}
    for who, case, found in re.findall(r"^== fio ([^;\n]*);(\w*)\n(.*?)^== end", text, re.M | re.S):
        write = json.loads(found[found.index("{"):])["jobs"][0]["write"]
        runs[who, case] = write
    for who, what, seconds in re.findall(r"^== once (.*);(.*) ([\d.]+)$", text, re.M):
        once[who, what] = float(seconds)
    for who, *held in re.findall(r"^== probe (\S+) (\S+) (\S+) (\S+)$", text, re.M):
        probes[who] = held
    backlog = re.findall(r"^== backlog (\d+)$", text, re.M)
    return runs, once, probes, max(map(int, backlog), default=0)


def table(runs: dict, once: dict, probes: dict, backlog: int) -> str:
    lines = ["| | case | writes/s | p50 ms | p99 ms | p99.9 ms | max ms |",
             "|---|---|---|---|---|---|---|"]  # fmt: skip
    for (who, case), write in runs.items():
        times = write["clat_ns"]
        cells = [times["percentile"][f"{share}000"] for share in ("50.000", "99.000", "99.900")]
        cells = [f"{ns / 1e6:.2f}" for ns in [*cells, times["max"]]]
        lines.append(f"| {who} | {CASES[case]} | {write['iops']:.0f} | {' | '.join(cells)} |")
    lines += ["", f"md's backlog went up to {backlog} of 256 writes.", "",
              "| | first write after 8 s, slow leg 1 s | write + FLUSH, slow leg: writes 5 s, "
              "flushes 200 ms | then on the fast leg | on the slow leg | on the witness |",
              "|---|---|---|---|---|---|"]  # fmt: skip
    for who, held in probes.items():
        lines.append(f"| {who} | {once[who, 'idle']:.2f} s | {once[who, 'flush']:.2f} s | "
                     + " | ".join(held) + " |")  # fmt: skip
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=4, help="of each measurement")
    parser.add_argument("--write", action="store_true", help="into docs/measured/mirror.md")
    parser.add_argument("--said", type=Path, help="what a guest said before; do not start one")
    parser.add_argument("--binary", type=Path, default=BINARY)
    options = parser.parse_args()
    if options.said:
        text = options.said.read_text()
    else:
        command = [str(ROOT / "scripts/guest.py"), "--timeout", "1500"]
        for module in MODULES:
            command += ["--module", module]
        for program in [*PROGRAMS, str(options.binary)]:
            command += ["--bring", program]
        for _ in range(3):
            command += ["--disk", "64"]
        script = Path(__file__).with_suffix(".sh").read_text()
        done = subprocess.run([*command, "-"], input=f"SECONDS={options.seconds}\n{script}",
                              stdout=subprocess.PIPE, text=True)  # fmt: skip
        text = done.stdout
        if done.returncode != 0:
            print(text[-3000:], file=sys.stderr)
            return done.returncode
    load = f"load average {os.getloadavg()[0]:.1f} after"
    text = table(*parse(text)) + f"\n\n{options.seconds} s per figure; {load}."
    print(text)
    if options.write:
        measured.write("mirror.md", {"against md": text})
    return 0


if __name__ == "__main__":
    sys.exit(main())
