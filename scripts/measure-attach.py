#!/usr/bin/env python3
"""Measure `blocklab attach` beside other servers of block devices, and write the tables.

    sudo scripts/measure-attach.py [--rounds 3] [--seconds 2] [--only TABLE] [--write]
    sudo scripts/measure-attach.py --against BINARY [--rounds 3] [--seconds 2] [--only TABLE]

Every server, fio and, for block devices, the kernel's unbound workers run under SCHED_FIFO 40 where
that is permitted. Servers take turns within a round, so that all see the same neighbours; a figure
is the median of the rounds. With --write the tables replace those in docs/measured/attach.md, too.
Needs fio with its nbd engine, nbdkit, qemu-utils, nbd-server, and for the block devices root.
With --against another build of blocklab takes the place of the other servers.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import measured
from measured import BINARY

GIB = 1 << 30
OTHER = "the other blocklab"
FIFO = ["chrt", "-f", "40"]
# (title, fio's options, what is reported)
LOADS = [
    ("4K read QD1", ["--rw=randread", "--bs=4k", "--iodepth=1"], "iops"),
    ("4K read QD32", ["--rw=randread", "--bs=4k", "--iodepth=32"], "iops"),
    ("4K write QD32", ["--rw=randwrite", "--bs=4k", "--iodepth=32"], "iops"),
    ("128K read QD8", ["--rw=read", "--bs=128k", "--iodepth=8"], "mib"),
    ("128K write QD8", ["--rw=write", "--bs=128k", "--iodepth=8"], "mib"),
]


def permitted() -> bool:
    """True when SCHED_FIFO is."""
    return subprocess.run([*FIFO, "true"], capture_output=True).returncode == 0


class Bench:
    def __init__(self, folder: Path, binary: Path, against: Path | None, seconds: float) -> None:
        self.folder, self.binary, self.against, self.seconds = folder, binary, against, seconds
        self.fifo = FIFO if permitted() else []

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def image(self) -> str:
        """1 GiB of random data in the page cache."""
        path = self.folder / "raw.img"
        if not path.exists():
            with path.open("wb") as file:
                for _ in range(64):
                    file.write(os.urandom(16 << 20))
        return str(path)

    def fio(self, target: list[str], options: list[str], ordinary: bool = False) -> dict:
        """One job; its read or write part of fio's JSON. For an ordinary one nobody is raised."""
        by_loop = any(option.startswith("--filename=/dev/loop") for option in target)
        raised = by_loop and not ordinary
        command = [
            *([] if ordinary else self.fifo), "fio", "--name=t", *target, *options,
            "--time_based", "--size=1g", f"--runtime={self.seconds}", "--ramp_time=0.5",
            # Not clat: what an engine does while it submits, a reply included, is slat.
            "--clat_percentiles=0", "--lat_percentiles=1",
            "--percentile_list=50:99", "--output-format=json", "--direct=1",
        ]
        with self.workers_raised() if raised else contextlib.nullcontext():
            out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        job = json.loads(out[out.index("{"):])["jobs"][0]
        return job["read"] if "read" in options[0] else job["write"]

    @contextlib.contextmanager
    def workers_raised(self):
        """The kernel's unbound workers, which do loop devices' I/O, at the servers' priority."""
        over, raised = threading.Event(), set()

        def workers() -> set[str]:
            command = ["ps", "-eo", "pid=,comm="]
            listing = subprocess.run(command, capture_output=True, text=True)
            named = [line.split(maxsplit=1) for line in listing.stdout.splitlines()]
            return {pid for pid, name in named if name.startswith("kworker/u")}

        def change(pid: str, policy: str, priority: str) -> None:
            # One that has ended needs none.
            subprocess.run(["chrt", policy, "-p", priority, pid], capture_output=True)

        def keep() -> None:
            while True:
                for pid in workers() - raised:
                    change(pid, "-f", "40")
                    raised.add(pid)
                if over.wait(0.2):
                    return

        helper = threading.Thread(target=keep)
        if self.fifo and os.geteuid() == 0:
            helper.start()
        try:
            yield
        finally:
            over.set()
            if helper.is_alive():
                helper.join()
            for pid in raised:
                change(pid, "-o", "0")

    @contextlib.contextmanager
    def server(self, command: list[str], socket: str, fifo: bool = True):
        """A server until the block ends; yields its process id."""
        Path(socket).unlink(missing_ok=True)
        prefix = self.fifo if fifo else []
        process = subprocess.Popen(
            [*prefix, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            deadline = time.monotonic() + 20
            while not Path(socket).exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError(f"{command[0]} did not start")
                time.sleep(0.02)
            time.sleep(0.1)
            yield process.pid
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    @contextlib.contextmanager
    def ours(self, latency: str, frontend: str = "nbd", binary: Path | None = None):
        """Our server of a device of constant latency; yields what fio needs, and the process."""
        part = self.folder / f"null-{latency}.toml"
        part.write_text(f'[null]\nlatency = "{latency}"\ncapacity = "1GiB"\n')
        control, socket = self.path("c.sock"), self.path("ours.sock")
        command = [str(binary or self.binary), "attach", str(part), "--control", control,
                   "--out", self.path("out"), "--as", frontend]
        if frontend == "nbd":
            with self.server([*command, "--socket", socket], socket, fifo=False) as pid:
                # The socket is there before the calibration is over.
                time.sleep(2.5)
                yield nbd(socket), pid
            return
        ready = self.folder / "device"
        ready.unlink(missing_ok=True)
        run = f"echo $dev > {ready}.new; mv {ready}.new {ready}; exec sleep 600"
        with self.server([*command, "--run", run], str(ready), fifo=False) as pid:
            device = ready.read_text().strip()
            yield block(device), pid


def nbd(socket: str, export: str = "") -> list[str]:
    return ["--ioengine=nbd", f"--uri=nbd+unix:///{export}?socket={socket}"]


def block(device: str) -> list[str]:
    return ["--ioengine=io_uring", f"--filename={device}"]


@contextlib.contextmanager
def simple(bench: Bench, command: list[str], export: str = ""):
    socket = command[-1]
    with bench.server(command[:-1], socket) as pid:
        yield nbd(socket, export), pid


@contextlib.contextmanager
def nbd_server(bench: Bench):
    socket, config = bench.path("nbds.sock"), bench.folder / "nbds.conf"
    config.write_text(
        f"[generic]\nunixsock = {socket}\n[x]\nexportname = {bench.image()}\n"
        "flush = true\nfua = true\n"
    )
    pid_file = bench.folder / "nbds.pid"
    pid_file.unlink(missing_ok=True)
    Path(socket).unlink(missing_ok=True)
    # It goes into the background by itself.
    subprocess.run([*bench.fifo, "nbd-server", "-C", str(config), "-p", str(pid_file)], check=True)
    while not pid_file.exists() or not pid_file.read_text().strip():
        time.sleep(0.02)
    pid = int(pid_file.read_text())
    try:
        time.sleep(0.1)
        yield nbd(socket, "x"), pid
    finally:
        os.kill(pid, signal.SIGTERM)
        time.sleep(0.2)


def storage_daemon(bench: Bench, image: str):
    socket = bench.path("qsd.sock")
    command = [
        "qemu-storage-daemon", "--blockdev", f"driver=file,node-name=f,filename={image}",
        "--blockdev", "driver=raw,node-name=x,file=f",
        "--nbd-server", f"addr.type=unix,addr.path={socket}",
        "--export", "type=nbd,id=e,node-name=x,name=x,writable=on",
    ]
    return simple(bench, [*command, socket], "x")


def nbd_servers(bench: Bench) -> dict:
    """Each server of 1 GiB over a Unix socket, by name."""
    q, k = bench.path("q.sock"), bench.path("k.sock")
    ours = {"blocklab attach": lambda: bench.ours("0us")}
    if bench.against:
        return ours | {OTHER: lambda: bench.ours("0us", binary=bench.against)}
    image = bench.image()
    return ours | {
        "nbdkit memory": lambda: simple(
            bench, ["nbdkit", "-f", "-U", k, "memory", "1G", k]),
        "qemu-nbd": lambda: simple(
            bench, ["qemu-nbd", "-f", "raw", "-k", q, "-t", "-x", "x", "--cache=writeback",
                    "--aio=threads", image, q], "x"),
        "qemu-storage-daemon": lambda: storage_daemon(bench, image),
        "nbd-server": lambda: nbd_server(bench),
    }


@contextlib.contextmanager
def looped(path: str):
    """A loop device over a file."""
    command = ["losetup", "--find", "--show", "--direct-io=on", path]
    device = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    try:
        yield block(device), 0
    finally:
        subprocess.run(["losetup", "-d", device], check=True)


@contextlib.contextmanager
def storage_daemon_fuse(bench: Bench):
    """QEMU's FUSE export below a loop device."""
    mount = bench.folder / "exported"
    mount.touch()
    ready = bench.path("qsdf.pid")
    command = [
        "qemu-storage-daemon", "--blockdev", f"driver=file,node-name=f,filename={bench.image()}",
        "--blockdev", "driver=raw,node-name=x,file=f", "--pidfile", ready,
        "--export", f"type=fuse,id=e,node-name=x,mountpoint={mount},writable=on",
    ]
    with bench.server(command, ready) as pid:
        with looped(str(mount)) as (target, _):
            yield target, pid


def block_devices(bench: Bench) -> dict:
    ours = {"blocklab attach --as loop": lambda: bench.ours("0us", "loop")}
    if bench.against:
        return ours | {OTHER: lambda: bench.ours("0us", "loop", bench.against)}
    return ours | {
        "qemu-storage-daemon FUSE + loop": lambda: storage_daemon_fuse(bench),
        "loop on the file": lambda: looped(bench.image()),
    }


def throughput(bench: Bench, servers: dict, rounds: int) -> str:
    """The table of what each server carries, beside its share of the first one's."""
    found: dict = {}
    for round in range(rounds):
        for name, server in servers.items():
            print(f"round {round + 1}: {name}", file=sys.stderr)
            try:
                with server() as (target, _):
                    bench.fio(target, ["--rw=write", "--bs=1m", "--iodepth=4"])
                    for title, options, kind in LOADS:
                        part = bench.fio(target, options)
                        value = part["iops"] if kind == "iops" else part["bw_bytes"] / (1 << 20)
                        found.setdefault((name, title), []).append(value)
            except (RuntimeError, subprocess.CalledProcessError) as why:
                print(f"left out: {name}: {why}", file=sys.stderr)
    lines = ["| server | " + " | ".join(title for title, *_ in LOADS) + " |",
             "|---|" + "---|" * len(LOADS)]
    ours = next(iter(servers))
    for name in servers:
        cells = []
        for title, _, kind in LOADS:
            values = found.get((name, title))
            if not values:
                cells.append("-")
                continue
            value = statistics.median(values)
            text = f"{value / 1000:.1f} k" if kind == "iops" else f"{value:.0f} MiB/s"
            if name != ours:
                text += f" ({value / statistics.median(found[ours, title]):.2f})"
            cells.append(text)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def accuracy(bench: Bench, rounds: int) -> str:
    """The table of what a client sees of a promised latency."""
    k, q = bench.path("k.sock"), bench.path("q.sock")
    null_co = f"driver=null-co,size={GIB},latency-ns=100000"

    def ours(latency: str, frontend: str = "nbd"):
        return lambda binary=None: bench.ours(latency, frontend, binary)

    cases = [
        ("blocklab attach", 100, 1, ours("100us")),
        ("blocklab attach --as loop", 100, 1, ours("100us", "loop")),
        ("qemu-nbd null-co", 100, 1, lambda: simple(
            bench, ["qemu-nbd", "-k", q, "-t", "-x", "x", "--image-opts", null_co, q], "x")),
        ("blocklab attach", 1000, 1, ours("1ms")),
        ("nbdkit delay, 64 threads", 1000, 1, lambda: simple(
            bench, ["nbdkit", "-f", "-t", "64", "-U", k, "--filter=delay", "memory", "1G",
                    "rdelay=1ms", k])),
        ("blocklab attach", 1000, 32, ours("1ms")),
        ("nbdkit delay, 64 threads", 1000, 32, lambda: simple(
            bench, ["nbdkit", "-f", "-t", "64", "-U", k, "--filter=delay", "memory", "1G",
                    "rdelay=1ms", k])),
        ("blocklab attach", 10000, 1, ours("10ms")),
    ]
    if bench.against:
        cases = [case for case in cases if case[0].startswith("blocklab")]
        cases = [case for name, promised, depth, server in cases for case in (
            (name, promised, depth, server),
            (f"{OTHER}{name.removeprefix('blocklab attach')}", promised, depth,
             lambda server=server: server(bench.against)),
        )]
    found: dict = {}
    for round in range(rounds):
        for name, promised, depth, server in cases:
            print(f"round {round + 1}: {name} {promised} us QD{depth}", file=sys.stderr)
            try:
                with server() as (target, pid):
                    began, wall = cpu_seconds(pid), time.monotonic()
                    options = ["--rw=randread", "--bs=4k", f"--iodepth={depth}"]
                    took = bench.fio(target, options)["lat_ns"]["percentile"]
                    cpu = (cpu_seconds(pid) - began) / (time.monotonic() - wall)
                late = None
                if "blocklab" in name:
                    report = json.loads((bench.folder / "out/attach.json").read_text())
                    late = report["devices"][0]["lateness"]
                row = (took["50.000000"] / 1e3, took["99.000000"] / 1e3, cpu * 100,
                       late and late["p50"], late and late["p99"], late and late["early"])
                found.setdefault((name, promised, depth), []).append(row)
            except (RuntimeError, subprocess.CalledProcessError) as why:
                print(f"left out: {name}: {why}", file=sys.stderr)
    lines = ["| server | promised | depth | client p50 | client p99 | server's CPU | "
             "lateness p50 / p99 | early |", "|---|---|---|---|---|---|---|---|"]
    for (name, promised, depth), rows in found.items():
        middle = [statistics.median(column) if column[0] is not None else None
                  for column in zip(*rows)]
        p50, p99, cpu, late50, late99, early = middle
        error = (p50 / promised - 1) * 100
        late = f"{late50:.1f} / {late99:.1f} us" if late50 is not None else "-"
        lines.append(
            f"| {name} | {promised} us | {depth} | {p50:.0f} us ({error:+.1f} %) | {p99:.0f} us | "
            f"{cpu:.0f} % | {late} | {'-' if early is None else int(early)} |")
    return "\n".join(lines)


@contextlib.contextmanager
def busy(loops: int):
    """So many programs that want a core, until the block ends."""
    spin = [sys.executable, "-c", "while True: pass"]
    running = [subprocess.Popen(spin) for _ in range(loops)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


def loaded(bench: Bench, rounds: int) -> str:
    """The table of what an ordinary client sees, and what the session says of itself, when other
    programs want the cores."""
    binaries = {"": bench.binary} | ({f" ({OTHER})": bench.against} if bench.against else {})
    cases = [
        (f"{name}{which}", latency, loops, frontend, binary)
        for name, frontend in (("nbd", "nbd"), ("loop", "loop"))
        if frontend == "nbd" or os.geteuid() == 0
        for latency in ("100us", "10ms")
        for loops in (0, 4)
        for which, binary in binaries.items()
    ]
    found: dict = {}
    for round in range(rounds):
        for name, latency, loops, frontend, binary in cases:
            print(f"round {round + 1}: {name} {latency} beside {loops}", file=sys.stderr)
            with busy(loops), bench.ours(latency, frontend, binary) as (target, _):
                options = ["--rw=randread", "--bs=4k", "--iodepth=1"]
                took = bench.fio(target, options, ordinary=True)["lat_ns"]
            report = json.loads((bench.folder / "out/attach.json").read_text())
            clients = report["devices"][0].get("clients") or {}
            row = (report["compensation_us"], took["min"] / 1e3,
                   took["percentile"]["50.000000"] / 1e3, clients.get("beyond_us"),
                   report["faithful"])
            found.setdefault((name, latency, loops), []).append(row)
    lines = ["| server | promised | busy loops | compensation | client min | client p50 | "
             "session: clients beyond | faithful |", "|---|---|---|---|---|---|---|---|"]
    for (name, latency, loops), rows in found.items():
        column = list(zip(*rows))
        compensation, least, middle = (statistics.median(values) for values in column[:3])
        beyond = [value for value in column[3] if value is not None]
        told = f"{statistics.median(beyond):+.0f} us" if beyond else "-"
        faithful = f"{sum(column[4])} of {len(rows)}"
        lines.append(f"| {name} | {latency} | {loops} | {compensation:.1f} us | {least:.0f} us | "
                     f"{middle:.0f} us | {told} | {faithful} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--binary", type=Path, default=BINARY)
    parser.add_argument("--against", type=Path, help="another build of blocklab")
    parser.add_argument("--only", choices=["nbd", "accuracy", "load", "devices"], help="one table")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    for binary in filter(None, (arguments.binary, arguments.against)):
        if not binary.exists():
            sys.exit(f"{binary} is missing: cargo build --release -p blocklab")
    if arguments.against and arguments.write:
        sys.exit("--write is for the tables beside other servers: leave it out with --against")
    lacking = [tool for tool in ["fio", "nbdkit", "qemu-nbd", "nbd-server", "chrt"]
               if not shutil.which(tool)]
    if lacking:
        sys.exit(f"missing: {', '.join(lacking)}; get them: make clients")
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory(prefix="measure-attach-") as folder:
        bench = Bench(Path(folder), arguments.binary, arguments.against, arguments.seconds)
        tables, only, rounds = {}, arguments.only, arguments.rounds
        if only in (None, "nbd"):
            tables["throughput over NBD"] = throughput(bench, nbd_servers(bench), rounds)
        if only in (None, "accuracy"):
            tables["accuracy"] = accuracy(bench, rounds)
        if only in (None, "load"):
            tables["accuracy beside busy programs"] = loaded(bench, rounds)
        if only in (None, "devices") and os.geteuid() == 0:
            tables["throughput of block devices"] = throughput(bench, block_devices(bench), rounds)
    tables["conditions"] = (
        f"{arguments.rounds} rounds of {arguments.seconds:g} s per figure; load average "
        f"{load:.1f} before, {os.getloadavg()[0]:.1f} after; "
        f"{'SCHED_FIFO 40' if bench.fifo else 'normal priority'}; {os.cpu_count()} cores; "
        f"Linux {os.uname().release.split('-')[0]}.")
    print("\n\n".join(tables.values()))
    if arguments.write:
        measured.write("attach.md", tables)


if __name__ == "__main__":
    main()
