#!/usr/bin/env python3
"""Measure the latency of the served mirror's writes: what its modes cost, and what a freeze does.

    sudo scripts/measure-mirror.py [--rounds 5] [--seconds 4] [--write]

Both legs are `blocklab attach` devices of 200 us (the slow one 2 ms in the frozen runs) behind loop
devices; fio writes 4 KiB at random, one at a time, by NBD, and
flushes after each in the frozen runs. Modes and freezes take turns
within a round, so that all see the same neighbours; a ratio is the median of the rounds'. A frozen
leg answers nothing for 200 ms of each second. With --write the tables replace those of
docs/measured/mirror.md.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import measured
from measured import BINARY

LEGS = ("fast", "slow")
# What a write may leave in one failure domain, as the engine is configured.
EXPOSED_MAX = 8 << 20


class Bench:
    def __init__(self, binary: Path, folder: Path, seconds: float) -> None:
        self.binary, self.folder, self.seconds = binary, folder, seconds
        self.processes: dict[str, subprocess.Popen] = {}

    @contextmanager
    def server(self, *command: str):
        """A server until the block ends: its process, and what it says."""
        log = self.folder / f"{command[0]}{time.monotonic_ns()}.log"
        with log.open("w") as out:
            process = subprocess.Popen([self.binary, *command], stdout=out, stderr=out)
        try:
            while "end with Ctrl-C" not in log.read_text():
                if process.poll() is not None:
                    raise SystemExit(log.read_text())
                time.sleep(0.05)
            yield process, log.read_text().split()
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()

    @contextmanager
    def devices(self, slow: str):
        """The options that name two legs, of which the slow one takes so long."""
        with ExitStack() as stack:
            options = []
            for leg, latency in zip(LEGS, ("200us", slow)):
                part = self.folder / f"{leg}.toml"
                part.write_text(f'[null]\nlatency = "{latency}"\ncapacity = "256MiB"\n')
                self.processes[leg], said = stack.enter_context(self.server(
                    "attach", str(part), "--as", "loop", "--no-realtime", "--compensate", "off",
                    "--out", str(self.folder / leg)))  # fmt: skip
                path = next(word for word in said if word.startswith("/dev/loop"))
                options.append(f"--{leg}={path}")
            yield options

    @contextmanager
    def mirror(self, devices: list[str], mode: str):
        """A new mirror, served; yields its control socket."""
        create = [self.binary, "mirror", "create", *devices, "--size", "128MiB", "--mode", mode]
        for device in devices:
            create += ["--overwrite", device.split("=")[1]]
        subprocess.run(create, check=True, capture_output=True)
        control = self.folder / "m.ctl"
        with self.server("mirror", "serve", *devices, "--socket", str(self.folder / "m.sock"),
                         "--control", str(control)):  # fmt: skip
            yield control

    def write(self, *options: str) -> dict:
        """fio's percentiles of its writes, and of its flushes if it flushes after each."""
        command = ["fio", "--name=w", "--ioengine=nbd", "--rw=randwrite", "--bs=4k", "--iodepth=1",
                   f"--uri=nbd+unix:///?socket={self.folder}/m.sock", "--size=64m", "--time_based",
                   f"--runtime={self.seconds}", "--percentile_list=50:99",
                   "--output-format=json", *options]  # fmt: skip
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        job = json.loads(out[out.index("{"):])["jobs"][0]
        flush = job["sync"]["lat_ns"].get("percentile", {})
        return job["write"]["clat_ns"]["percentile"] | {f"flush {k}": v for k, v in flush.items()}

    @contextmanager
    def freezing(self, leg: str | None):
        """The leg answers nothing for 200 ms of each second: its process is stopped."""
        over = threading.Event()

        def freeze() -> None:
            while not over.wait(0.8):
                self.processes[leg].send_signal(signal.SIGSTOP)
                time.sleep(0.2)
                self.processes[leg].send_signal(signal.SIGCONT)

        helper = threading.Thread(target=freeze)
        if leg:
            helper.start()
        try:
            yield
        finally:
            over.set()
            if leg:
                helper.join()


def modes(bench: Bench, rounds: int) -> str:
    """The table of what each mode costs while nothing freezes."""
    found: dict[str, list[tuple[float, float]]] = {}
    with bench.devices("200us") as devices:
        for _ in range(rounds):
            for mode in ("strict", "log", "relaxed"):
                with bench.mirror(devices, mode):
                    times = bench.write()
                found.setdefault(mode, []).append((times["50.000000"], times["99.000000"]))
    lines = ["| mode | p50 | p99 | p50 over strict |", "|---|---|---|---|"]
    for mode, times in found.items():
        p50, p99 = (statistics.median(column) / 1e3 for column in zip(*times))
        ratio = statistics.median(a[0] / b[0] for a, b in zip(times, found["strict"]))
        lines.append(f"| {mode} | {p50:.0f} us | {p99:.0f} us | {ratio:.2f} |")
    return "\n".join(lines)


def freezes(bench: Bench, rounds: int) -> str:
    """The table of what a frozen leg does to the writes, and of the bytes at risk meanwhile."""
    found: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    shown = ("50.000000", "99.000000", "flush 50.000000", "flush 99.000000")
    most: dict[str, int] = {}
    with bench.devices("2ms") as devices:
        for _ in range(rounds):
            for mode in ("strict", "log", "relaxed"):
                with bench.mirror(devices, mode) as control:
                    for leg in (None, "fast", "slow"):
                        with bench.freezing(leg):
                            times = bench.write("--rate_iops=100", "--fsync=1")
                        at = found.setdefault((mode, leg or "none"), [])
                        at.append(tuple(times[name] for name in shown))
                    most[mode] = max(most.get(mode, 0), exposed(bench, control))
    lines = ["| mode | frozen | write p50 | p99 | p99 over unfrozen | flush p50 | p99 "
             "| most bytes at risk | bound |", "|---|---|---|---|---|---|---|---|---|"]  # fmt: skip
    for (mode, leg), times in found.items():
        p50, p99, *flush = (statistics.median(column) / 1e6 for column in zip(*times))
        ratio = statistics.median(a[1] / b[1] for a, b in zip(times, found[mode, "none"]))
        risk = f"{most[mode]} | {EXPOSED_MAX}" if leg == "none" else "|"
        lines.append(f"| {mode} | {leg} | {p50:.2f} ms | {p99:.2f} ms | {ratio:.2f} "
                     f"| {flush[0]:.1f} ms | {flush[1]:.1f} ms | {risk} |")  # fmt: skip
    return "\n".join(lines)


def exposed(bench: Bench, control: Path) -> int:
    """The most bytes at risk that `status` tells while all goes in as fast as it can."""
    seen, over = [0], threading.Event()

    def look() -> None:
        while not over.is_set():
            with socket.socket(socket.AF_UNIX) as asking:
                asking.connect(str(control))
                asking.sendall(b'{"status":{}}\n')
                answer = json.loads(asking.makefile().readline())
                seen.append(answer["status"]["bytes_at_risk"])
            time.sleep(0.002)

    looker = threading.Thread(target=look)
    looker.start()
    with bench.freezing("slow"):
        bench.write("--bs=64k", "--iodepth=32")
    over.set()
    looker.join()
    return max(seen)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--binary", type=Path, default=BINARY)
    options = parser.parse_args()
    before = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="measure-mirror-") as folder:
        bench = Bench(options.binary, Path(folder), options.seconds)
        tables = [modes(bench, options.rounds), freezes(bench, options.rounds)]
    tables.append(f"{options.rounds} rounds of {options.seconds:g} s per figure; load average "
                  f"{before:.1f} before, {os.getloadavg()[0]:.1f} after.")  # fmt: skip
    text = "\n\n".join(tables)
    print(text)
    if options.write:
        measured.write("mirror.md", {"latency": text})
    return 0


if __name__ == "__main__":
    sys.exit(main())
