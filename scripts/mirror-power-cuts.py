#!/usr/bin/env python3
"""Cut the power under a file system on a served mirror, at random, and look what is left.

    sudo scripts/mirror-power-cuts.py [--cuts 12] [--lives 1] [--log FILE] [--fs ext4] [--mode log]
                                      [--write] [--process]

The legs are a modelled SSD and a modelled disk (`blocklab attach --as loop --power-cuts`), whose
caches lose what was not flushed. `blocklab mirror serve` makes a mirror of them, QEMU has it as its
disk by NBD, and in the guest three programs overwrite, append and rename, each telling by a serial
line what fsync has answered for, beside two fios that verify what they wrote. A cut stops
the guest and the server, takes from both legs what they had not made durable, and kills the guest
and the server. Then all of it starts again, in one of three cases with a leg that is not there.

A *life* is a new mirror and so many cuts. Each start checks: the mirror starts, the file system
mounts and its checker finds nothing, fio's old file verifies, nothing that was acknowledged is
gone and nothing that was gone is back. Guests continue from one booted machine, saved before it
saw the disk. --log keeps a line per cut and goes on where it stopped. Exit code 77: this
machine cannot.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import guest
import measured
from measured import BINARY

LEGS = ("fast", "slow")
SIZE = "320MiB"  # mkfs.xfs takes no less than 300 MiB
SSD = """
[part]
title = "A small SSD whose buffer loses what was not flushed"
[ssd]
buffer = { capacity = "4MiB", destage_above_percent = 50, destage_order = "sorted" }
[ssd.geometry]
channels = 4
blocks_per_plane = 256
pages_per_block = 256
page = "4KiB"
"""
DISK = "wd-80g-5400"
LACKS = 3  # how blocklab ends where the machine lacks something


class Wrong(Exception):
    """What must not happen has happened."""


def end(process: subprocess.Popen) -> None:
    """Kill it and all that it has started."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Legs:
    """Both legs, and the power they hang on."""

    def __init__(self, binary: Path, folder: Path) -> None:
        (folder / "ssd.toml").write_text(SSD)
        self.control = folder / "legs.ctl"
        self.log = (folder / "legs.log").open("w+")
        command = [binary, "attach", f"fast={folder}/ssd.toml", f"slow={DISK}", "--as", "loop",
                   "--no-realtime", "--compensate", "off", "--power-cuts", "--out", folder / "out",
                   "--control", self.control]  # fmt: skip
        self.session = subprocess.Popen(command, stderr=self.log, text=True)
        lines: list[str] = []
        while "end with Ctrl-C" not in lines:
            code = self.session.poll()
            lines = (folder / "legs.log").read_text().splitlines()
            if code == LACKS:
                raise guest.CannotRun("\n".join(lines))
            if code is not None:
                raise Wrong(f"attach ended with {code}: " + "\n".join(lines))
            time.sleep(0.05)
        self.paths = dict(zip(LEGS, [line for line in lines if line.startswith("/dev/")]))

    def tell(self, line: str) -> str:
        """One line to the session that serves the legs."""
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(self.control))
            asking.sendall(f"{line}\n".encode())
            word, _, answer = asking.makefile().readline().strip().partition(" ")
        if word != "ok":
            raise Wrong(f"{line}: {answer}")
        return answer

    def cut(self, running: list[subprocess.Popen], written_back: list[str]) -> tuple[float, dict]:
        """Cut the power; when that was, and the writes that each leg and the host's cache lost."""
        for process in running:
            os.killpg(process.pid, signal.SIGSTOP)
        for leg in LEGS:
            self.tell(f"lift all export={leg}")
        for leg in written_back:
            # The kernel happens to write its cache to the disk's just now.
            subprocess.run(["blockdev", "--flushbufs", self.paths[leg]], check=True)
        at, lost = time.monotonic(), {}
        for leg in LEGS:
            # What a kernel's cache still writes has no disk to be written to.
            self.tell(f"inject lost export={leg}")
            lost[leg] = json.loads(self.tell(f"power-cut export={leg}"))["lost_writes"]
        for process in running:
            end(process)
        for leg in LEGS:
            subprocess.run(["blockdev", "--flushbufs", self.paths[leg]], check=True)
            lost[f"host's, {leg}"] = json.loads(self.tell(f"faults export={leg}"))[0]["hits"]
            self.tell(f"lift all export={leg}")
        return at, lost

    def end(self) -> None:
        self.session.send_signal(signal.SIGINT)
        self.session.wait()


class Guest:
    """A machine with the mirror as its disk; perhaps with a program in between."""

    verbose = False

    def __init__(self, command: list[str], between: list[subprocess.Popen] | None = None) -> None:
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
        self.processes = [self.process, *(between or [])]
        self.lines: queue.Queue[tuple[float, str]] = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.lines.put((time.monotonic(), line.decode(errors="replace").strip()))
            if Guest.verbose:
                print(f"{time.monotonic():.1f} {line!r}", file=sys.stderr)

    def say(self, line: str) -> None:
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def until(self, word: str, seconds: float) -> list[str]:
        """What it says before `word`."""
        said, end = [], time.monotonic() + seconds
        while True:
            try:
                _, line = self.lines.get(timeout=max(0, end - time.monotonic()))
            except queue.Empty:
                raise Wrong(f"no `{word}` after {seconds} s: {said[-9:]}") from None
            if line == word:
                return said
            if line == "asks":
                continue
            if line.startswith("bad ") or self.process.poll() is not None:
                time.sleep(0.5)
                rest = [line for _, line in self.rest()]
                raise Wrong("\n".join([line, *rest]))
            said.append(line)

    def work(self, acks: int, seconds: float) -> None:
        """Wait for so many acknowledgements, which stay to be read."""
        end = time.monotonic() + seconds
        while self.lines.qsize() < acks and time.monotonic() < end:
            time.sleep(0.01)

    def rest(self) -> list[tuple[float, str]]:
        """Everything that it has said since."""
        said = []
        while not self.lines.empty():
            said.append(self.lines.get())
        return said


class Emulated:
    """QEMU with Debian's kernel: booted once, saved before it sees the disk, continued often."""

    def __init__(self, folder: Path) -> None:
        script = Path(__file__).with_suffix(".sh").read_text()
        options = SimpleNamespace(
            module=["virtio_pci", "ext4", "xfs", "libcrc32c"], late=["virtio_blk"], file=[],
            bring=["fio", "mkfs.ext4", "e2fsck", "mkfs.xfs", "xfs_repair"],
        )  # fmt: skip
        kernel = guest.Kernel()
        archive, self.saved, self.folder = folder / "initrd", folder / "saved", folder
        archive.write_bytes(guest.build(kernel, options, script))
        qemu = shutil.which("qemu-system-x86_64")
        if qemu is None:
            raise guest.CannotRun("qemu-system-x86_64 is not installed")
        self.command = [
            qemu, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
            "-accel", guest.accelerator(), "-cpu", "max", "-smp", "1", "-m", "640",
            "-kernel", str(kernel.image), "-initrd", str(archive),
            "-append", "console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=on",
            "-chardev", f"file,id=console,path={folder}/console", "-serial", "chardev:console",
            "-chardev", "stdio,id=out,signal=off", "-serial", "chardev:out",
            "-device", "virtio-blk-pci,drive=disk",
        ]  # fmt: skip
        control = folder / "qmp"
        any_disk = "driver=null-co,size=320M,if=none,id=disk"
        new = Guest([*self.command, "-drive", any_disk, "-qmp", f"unix:{control},server,nowait"])
        try:
            new.until("asks", 240)
            self._save(control)
        finally:
            end(new.process)

    def _save(self, control: Path) -> None:
        with socket.socket(socket.AF_UNIX) as asking:
            asking.connect(str(control))
            answers = asking.makefile()

            def ask(command: str, **arguments: str) -> dict:
                line = json.dumps({"execute": command, "arguments": arguments})
                asking.sendall(line.encode())
                while "return" not in (answer := json.loads(answers.readline())):
                    if "error" in answer:
                        raise guest.CannotRun(str(answer))
                return answer["return"]

            ask("qmp_capabilities")
            ask("migrate", uri=f"exec:cat > {self.saved}")
            while (state := ask("query-migrate")["status"]) != "completed":
                if state == "failed":
                    raise guest.CannotRun("QEMU cannot save a machine")
                time.sleep(0.1)

    def start(self, disk: Path, told: str) -> Guest:
        """A guest on the disk at that socket; it begins with what it is told."""
        uri = f"nbd+unix:///?socket={disk}"
        drive = f"file={uri},if=none,id=disk,format=raw,cache=none,discard=unmap"
        new = Guest([*self.command, "-drive", drive, "-incoming", f"exec:cat {self.saved}"])
        new.until("asks", 60)
        new.say(told)
        return new


class UserMode:
    """Linux as a process of its own, which is quick: the kernel of `blocklab kernel build`."""

    INIT = """#!/bin/busybox sh
mount() { /bin/busybox mount "$@"; }
mount -t tmpfs lab HERE; mount -t proc proc /proc; mount -t sysfs sys /sys
/bin/busybox mkdir HERE/bin; /bin/busybox --install -s HERE/bin; unset -f mount
export PATH=HERE/bin:/usr/sbin:/usr/bin HOME=HERE
cd HERE
""".replace("HERE", tempfile.gettempdir())

    def __init__(self, folder: Path, binary: Path) -> None:
        self.folder, self.init = folder, folder / "init"
        self.init.write_text(self.INIT + Path(__file__).with_suffix(".sh").read_text())
        self.init.chmod(0o755)
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        kernels = sorted(base.glob("blocklab/kernel/*/linux"))
        if not kernels:
            raise guest.CannotRun(f"there is no kernel; get it: {binary} kernel build")
        self.kernel = kernels[-1]

    def start(self, disk: Path, told: str) -> Guest:
        """A guest on the disk at that socket; it begins with what it is told."""
        (self.folder / "disk").unlink(missing_ok=True)
        bridge = subprocess.Popen(
            ["qemu-storage-daemon",
             "--blockdev", f"driver=nbd,node-name=n,server.type=unix,server.path={disk}",
             "--export", "type=vhost-user-blk,id=e,node-name=n,addr.type=unix,writable=on,"
             f"addr.path={self.folder}/disk"], start_new_session=True)  # fmt: skip
        while not (self.folder / "disk").exists() and bridge.poll() is None:
            time.sleep(0.01)
        fs, boot, kept = told.split()
        return Guest(
            [str(self.kernel), "mem=256M", "root=98:0", "rootfstype=hostfs", "rootflags=/", "ro",
             f"init={self.init}", "quiet", "con=null", "con0=null,fd:1", "console=tty0",
             f"uml_dir={self.folder}/", f"virtio_uml.device={self.folder}/disk:2",
             f"fs={fs}", f"boot={boot}", f"kept={kept}"], [bridge])  # fmt: skip


Version = tuple[int, int]


class Ledger:
    """What the guest was promised, and what it must therefore find."""

    def __init__(self) -> None:
        # The versions of each key that must not be lost, and since when.
        self.acked: dict[str, list[tuple[Version, float]]] = {}
        # What was there when it was last looked at, and in which boot that was.
        self.found: dict[str, list[Version]] = {}
        self.looked = 0
        # The boot whose file of fio is durable.
        self.kept = 0

    def ack(self, line: str, when: float) -> None:
        kind, name, boot, number = line.split()[1:5]
        if kind == "keep":
            self.kept = int(boot)
        else:
            version = (int(boot), int(number))
            self.acked.setdefault(f"{kind} {name}", []).append((version, when))

    def look(self, lines: list[str], boot: int, may_lose: bool, cut_at: float) -> float | None:
        """Compare with what was found; the age of the oldest loss, where there may be one."""
        found: dict[str, list[Version]] = {}
        amounts: Counter[str] = Counter()
        for line in lines:
            if not line.startswith("have "):
                continue
            try:
                count, kind, name, at, number = line.split()[1:6]
                found.setdefault(f"{kind} {name}", []).append((int(at), int(number)))
                amounts[f"{kind} {name}"] += int(count)
            except ValueError:
                raise Wrong(f"nobody wrote `{line}`") from None
        ages = []
        for key, acked in self.acked.items():
            there = found.get(key, [])
            lost = [(version, when) for version, when in acked if not there or min(there) < version]
            if lost and not may_lose:
                raise Wrong(f"{key}: found {there}, but {lost[-1][0]} was acknowledged")
            ages += [cut_at - when for _, when in lost]
        for key, there in found.items():
            known = self.found.get(key, [])
            if back := [at for at in there if at not in known and at[0] < self.looked]:
                raise Wrong(f"{key}: {back} was gone and is back")
            if amounts[key] != (1 if key.startswith("tail") else 64):
                raise Wrong(f"{key}: {amounts[key]} lines of {there}")
        self.acked = {key: [(min(there), cut_at)] for key, there in found.items()}
        self.found, self.looked = found, boot
        return max(ages, default=None)


class Life:
    """A mirror from its making on, through many cuts."""

    def __init__(
        self, binary: Path, machine: Emulated | UserMode, folder: Path, kind: tuple[str, str, int]
    ) -> None:
        fs, mode, seed = kind
        self.binary, self.machine, self.folder = binary, machine, folder
        self.fs, self.mode, self.seed = fs, mode, seed
        self.random = random.Random(f"{fs} {mode} {seed}")
        self.legs = Legs(binary, folder)
        self.devices = [f"--{leg}={path}" for leg, path in self.legs.paths.items()]
        self.ledger, self.boot = Ledger(), 99
        # Legs that are not there; cuts that no check has followed yet.
        self.gone: str | None = None
        self.unchecked: list[dict] = []
        self.may_lose, self.cut_at = False, 0.0
        self.mirror("create", "--size", SIZE, "--mode", mode)

    def mirror(self, verb: str, *options: str) -> str:
        command = [self.binary, "mirror", verb, *self.devices, *options]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Wrong(f"mirror {verb}: {done.stderr}")
        return done.stdout

    def lose(self) -> None:
        """Perhaps a leg is not there any more, or is back."""
        self.may_lose &= bool(self.unchecked)
        if self.gone:
            self.gone = None if self.random.random() < 0.7 else self.gone
            return
        members = json.loads(self.mirror("status", "--json"))["devices"]
        full = all(device["membership"] == "member" for device in members)
        if full and self.boot >= 100 and self.random.random() < 0.35:
            self.gone = self.random.choice(LEGS)
            self.may_lose |= self.mode == "relaxed"

    def serve(self) -> subprocess.Popen:
        (self.folder / "m.sock").unlink(missing_ok=True)
        options = ["--socket", str(self.folder / "m.sock")]
        options += [f"--without={self.gone}"] if self.gone else []
        options += ["--accept-loss"] if self.may_lose else []
        self.log = (self.folder / "mirror.log").open("a+")
        command = [self.binary, "mirror", "serve", *self.devices, *options]
        return subprocess.Popen(command, stderr=self.log, stdout=self.log, start_new_session=True)

    def wait_for(self, server: subprocess.Popen) -> None:
        end = time.monotonic() + 120
        while not (self.folder / "m.sock").exists():
            if server.poll() is not None or time.monotonic() > end:
                self.log.seek(0)
                raise Wrong(f"the mirror did not start: {self.log.read()[-2000:]}")
            time.sleep(0.02)

    def start(self) -> Guest:
        told = f"{self.fs} {self.boot} {self.ledger.kept}"
        return self.machine.start(self.folder / "m.sock", told)

    def check(self, running: Guest) -> None:
        """Let a guest look at what is there, up to where it begins to write."""
        said = running.until("go", 240)
        lost_s = self.ledger.look(said, self.boot, self.may_lose, self.cut_at)
        self.may_lose = False
        for cut in self.unchecked:
            cut |= {"ok": True, "oldest_loss_s": lost_s}

    def turn(self) -> list[dict]:
        """Start, and cut the power somewhere; the cuts that were found to have lost nothing."""
        self.lose()
        stage = self.random.choices(["recovery", "boot", "load"], [0.2, 0.2, 0.6])[0]
        stage = "load" if self.boot < 100 else stage
        slowed, by_ms = self.random.choice([None, None, *LEGS]), self.random.randint(20, 200)
        began = time.monotonic()
        server, running, checked = self.serve(), None, []
        try:
            if stage == "recovery":
                time.sleep(self.random.uniform(0, 1))
            else:
                self.wait_for(server)
                self.boot += 1
                running = self.start()
                running.until("mounting", 240)
                if stage == "boot":
                    time.sleep(self.random.uniform(0, 3))
                else:
                    self.check(running)
                    checked, self.unchecked = self.unchecked, []
                    if slowed:
                        self.legs.tell(f"inject slow by={by_ms}ms export={slowed}")
                    running.work(self.random.randint(1, 50), 20)
                    time.sleep(self.random.uniform(0, 0.2))
            written_back = [leg for leg in LEGS if self.random.random() < 0.5]
            victims = [*(running.processes if running else []), server]
            at, lost = self.legs.cut(victims, written_back)
            cut = {"guest": type(self.machine).__name__, "fs": self.fs, "mode": self.mode,
                   "seed": self.seed, "boot": self.boot, "stage": stage, "without": self.gone,
                   "slowed": stage == "load" and slowed, "lost": lost,
                   "seconds": round(time.monotonic() - began, 1)}  # fmt: skip
            self.unchecked.append(cut | {"acked": self.end_of(running)})
            self.cut_at = at if running else self.cut_at
            return checked
        finally:
            for process in [*(running.processes if running else []), server]:
                end(process)

    def end_of(self, running: Guest | None) -> int:
        """Take down what a guest said up to its end."""
        if running is None:
            return 0
        running.reader.join()
        acks = 0
        for when, line in running.rest():
            if line.startswith("bad ") or "I/O error" in line:
                raise Wrong(line)
            if line.startswith("ack ") and len(line.split()) == 5:
                self.ledger.ack(line, when)
                acks += 1
        console = self.folder / "console"
        if console.exists() and "I/O error" in (text := console.read_text(errors="replace")):
            raise Wrong(text)
        return acks

    def last(self) -> list[dict]:
        """Start once more with both legs, look, and stop in order."""
        self.gone = None
        server = self.serve()
        try:
            self.wait_for(server)
            self.boot += 1
            running = self.start()
            running.until("mounting", 240)
            self.check(running)
            for process in running.processes:
                end(process)
            server.send_signal(signal.SIGINT)
            if server.wait() != 0:
                raise Wrong("the mirror did not stop in order")
            return self.unchecked
        finally:
            end(server)


def table(cuts: list[dict]) -> str:
    """What was cut, and what came of it."""
    heads = ["guest", "file system", "mode", "cuts", "in recovery", "at mount", "under load",
             "a leg gone", "acknowledged", "writes lost: fast leg", "slow leg", "host's cache",
             "promises broken"]  # fmt: skip
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    groups: dict[tuple[str, str, str], list[dict]] = {}
    for cut in cuts:
        groups.setdefault((cut["guest"], cut["fs"], cut["mode"]), []).append(cut)
    for (kind, fs, mode), of in sorted(groups.items()):
        stages = Counter(cut["stage"] for cut in of)
        cells = [kind, fs, mode, len(of), stages["recovery"], stages["boot"], stages["load"],
                 sum(cut["without"] is not None for cut in of), sum(cut["acked"] for cut in of),
                 *(sum(cut["lost"][leg] for cut in of) for leg in LEGS),
                 sum(cut["lost"][f"host's, {leg}"] for cut in of for leg in LEGS),
                 sum(not cut["ok"] for cut in of)]  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    if ages := {cut["oldest_loss_s"] for cut in cuts if cut.get("oldest_loss_s") is not None}:
        lines += ["", f"In relaxed mode {len(ages)} starts without a leg found acknowledged data "
                  f"gone; the oldest was acknowledged {max(ages) * 1000:.0f} ms before the cut."]
    return "\n".join(lines)


def live(life: Life, cuts: int, done: Callable[[dict], None]) -> None:
    """One life; `done` takes each cut that was looked at."""
    try:
        for _ in range(cuts):
            for cut in life.turn():
                done(cut)
        for cut in life.last():
            done(cut)
    except Wrong as why:
        for cut in life.unchecked:
            done(cut | {"ok": False, "why": str(why)})
        said = (life.folder / "mirror.log").read_text(errors="replace")[-2000:]
        raise Wrong(f"{why}\nthe mirror said: {said}") from why
    finally:
        life.legs.end()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lives", type=int, default=1, help="for each file system and mode")
    parser.add_argument("--cuts", type=int, default=12, help="of each life")
    parser.add_argument("--fs", action="append", choices=["ext4", "xfs"])
    parser.add_argument("--mode", action="append", choices=["strict", "log", "relaxed"])
    parser.add_argument("--process", action="store_true", help="Linux as a process, not QEMU")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log", type=Path, help="a line per cut; go on where it stopped")
    parser.add_argument("--binary", type=Path, default=BINARY)
    parser.add_argument("--write", action="store_true", help="into docs/measured/mirror.md")
    parser.add_argument("--verbose", action="store_true", help="all that the guests say")
    options = parser.parse_args()
    Guest.verbose = options.verbose
    cuts: list[dict] = []
    if options.log and options.log.exists():
        cuts = [json.loads(line) for line in options.log.read_text().splitlines()]
    lived = {(cut["guest"], cut["fs"], cut["mode"], cut["seed"]) for cut in cuts}

    def done(cut: dict) -> None:
        cuts.append(cut)
        if options.log:
            with options.log.open("a") as log:
                log.write(json.dumps(cut) + "\n")
        print(json.dumps(cut), file=sys.stderr)

    if os.geteuid() != 0:
        print("mirror-power-cuts.py: needs root for loop devices", file=sys.stderr)
        return guest.SKIPPED
    # So that nothing is left behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with tempfile.TemporaryDirectory(prefix="power-cuts-") as name:
            folder = Path(name)
            machine = UserMode(folder, options.binary) if options.process else Emulated(folder)
            for seed in range(options.seed, options.seed + options.lives):
                for mode in options.mode or ["log", "strict", "relaxed"]:
                    for fs in options.fs or ["ext4", "xfs"]:
                        if (type(machine).__name__, fs, mode, seed) not in lived:
                            life = Life(options.binary, machine, folder, (fs, mode, seed))
                            live(life, options.cuts, done)
    except guest.CannotRun as why:
        print(f"mirror-power-cuts.py: {why}", file=sys.stderr)
        return guest.SKIPPED
    except Wrong as why:
        print(f"mirror-power-cuts.py: {why}", file=sys.stderr)
        return 1
    text = table(cuts)
    print(text)
    if options.write:
        measured.write("mirror.md", {"power cuts": text})
    return 0


if __name__ == "__main__":
    sys.exit(main())
