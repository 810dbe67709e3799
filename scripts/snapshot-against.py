#!/usr/bin/env python3
"""One Debian with systemd, back in five ways, in one run: a cold boot, its own initramfs' resume,
QEMU's loadvm, and the loader with an image that is plain and one that is packed.

    scripts/snapshot-against.py ROOT.tar [TIMES [BLOCKLAB]]
    scripts/snapshot-against.py ROOT.tar record DIR [BLOCKLAB]

ROOT.tar is a Debian with a kernel and its own initramfs:

    mmdebstrap --variant=essential --include=systemd-sysv,udev,dbus,cron,rsyslog,kmod,\
initramfs-tools,linux-image-6.1.0-56-amd64 bookworm ROOT.tar

Told is the time from the machine's start to the line behind `multi-user.target`, or to the first
word of the process that asked for the suspend, each way TIMES times [3], one after the other.
`record` counts instructions instead, and writes what was computed and read into DIR, for the
workload `boot`. Needs qemu-system-x86, e2fsprogs, mkswap.
"""

import json
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import debian

WAYS = ["cold", "kernel", "loadvm", "plain", "packed"]
MEMORY_MIB = 512
ROOT_MIB = 1200
# In a recording, disks lie behind each other.
DISK_SECTORS = (ROOT_MIB + 100) << 11
# The loader's reads of data have more, and what follows another of its reads has fewer.
DATA_SECTORS = 256
LAB = """#!/bin/sh
# 20 MiB that only memory has, and a file that is open over the suspend.
exec 3> /var/open
dd if=/dev/urandom of=/dev/shm/random bs=1M count=20 2> /dev/null
sha1sum /dev/shm/random > /dev/shm/sum
told() { echo "lab: $1 $(/usr/local/bin/blocklab-guest cycles)"; }
told reached
case $(sed 's/.*lab=\\([a-z]*\\).*/\\1/' /proc/cmdline) in
plain) /usr/local/bin/blocklab-guest suspend /dev/vda ;;
packed) /usr/local/bin/blocklab-guest suspend /dev/vda --compress lz4 ;;
kernel)
    swapon /dev/vdc
    echo shutdown > /sys/power/disk
    echo disk > /sys/power/state
    # What `blocklab-guest suspend` says, too: the process that asked is back.
    echo resumed ;;
loadvm)
    # It is saved while it says this.
    while sleep 0.02; do echo "lab: again"; done ;;
esac
told resumed
sha1sum --quiet -c /dev/shm/sum && systemctl is-active dbus > /dev/null && echo "lab: whole"
echo after >&3
sync
"""


class Machine:
    """A guest whose lines come with their times."""

    def __init__(
        self, disks: list[str], arguments: list[str], counted: pathlib.Path | None
    ) -> None:
        command = [*debian.QEMU.split(), "-m", str(MEMORY_MIB), "-no-reboot"]
        if counted:
            command += ["-icount", "shift=0,sleep=on", "-cpu", "max,la57=off", "-D", str(counted)]
            command += ["-trace", "enable=virtio_blk_handle_read"]
        else:
            command += ["-cpu", "qemu64"]
        for disk in disks:
            command += ["-drive", f"file={disk},if=virtio,cache=unsafe"]
        self.began = time.monotonic()
        self.said = ""
        self.qemu = subprocess.Popen(
            command + arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            errors="replace",
        )

    def until(self, head: str) -> float:
        """The seconds to the line in which that is found."""
        assert self.qemu.stdout
        for line in self.qemu.stdout:
            self.said += line
            if re.search(head, line.strip()):
                return time.monotonic() - self.began
        raise RuntimeError(f"no `{head}`; its last words:\n{self.said[-2000:]}")

    def end(self, wait: bool = False) -> None:
        """Switch it off."""
        if not wait:
            self.qemu.kill()
        else:
            assert self.qemu.stdout
            self.said += self.qemu.stdout.read()
        self.qemu.wait()


class Lab:
    """The disks and programs."""

    def __init__(self, tar: str, blocklab: str, folder: pathlib.Path) -> None:
        self.folder = folder
        subprocess.run([blocklab, "snapshot", "tools", folder / "tools"], check=True)
        program = folder / "tools/blocklab-guest"
        root, self.kernel, self.initrd = debian.unpack(tar, folder, "/dev/vdb", LAB, program)
        self.root_disk = folder / "root.img"
        with self.root_disk.open("wb") as file:
            file.truncate(ROOT_MIB << 20)
        subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", "-d", root, self.root_disk], check=True)
        shutil.rmtree(root)

    def disks(self, way: str) -> list[str]:
        """New disks for a way: for our image, the root, and swap; none has the size of another."""
        folder = self.folder / way
        folder.mkdir()
        names = [folder / name for name in ("image", "root", "swap")]
        for name, mib in zip(names, (MEMORY_MIB, 0, MEMORY_MIB + 1), strict=True):
            if mib:
                with name.open("wb") as file:
                    file.truncate(mib << 20)
        subprocess.run(["cp", "--sparse=always", self.root_disk, names[1]], check=True)
        subprocess.run(["mkswap", "-q", names[2]], check=True, stderr=subprocess.DEVNULL)
        if way != "loadvm":
            return [f"{name},format=raw" for name in names]
        for name in names:
            packed = f"{name}.qcow2"
            command = ["qemu-img", "convert", "-f", "raw", "-O", "qcow2", name, packed]
            subprocess.run(command, check=True)
        return [f"{name}.qcow2,format=qcow2" for name in names]

    def boot(self, way: str) -> list[str]:
        """QEMU's arguments to boot the kernel."""
        line = "root=/dev/vdb resume=/dev/vdc console=ttyS0 quiet loglevel=3 no_timer_check"
        line += f" lab={way}"
        return ["-kernel", str(self.kernel), "-initrd", str(self.initrd), "-append", line]

    def suspend(self, way: str, disks: list[str], counted: pathlib.Path | None) -> str:
        """Boot, and leave what the way resumes from; what was said."""
        monitor = self.folder / way / "monitor"
        arguments = self.boot(way)
        if way == "loadvm":
            arguments += ["-monitor", f"unix:{monitor},server,nowait"]
        machine = Machine(disks, arguments, counted)
        machine.until("lab: again" if way == "loadvm" else "lab: reached")
        if way == "loadvm":
            with socket.socket(socket.AF_UNIX) as control:
                control.connect(str(monitor))
                control.sendall(b"savevm lab\nquit\n")
                machine.end(wait=True)
        else:
            machine.end(wait=True)
        return machine.said

    def way_back(self, way: str) -> tuple[list[str], str]:
        """How a machine is started that comes back, and its first line."""
        if way == "loadvm":
            return [*self.boot(way), "-loadvm", "lab"], "lab: again"
        if way in ("plain", "packed"):
            return ["-kernel", str(self.folder / "tools/blocklab-loader")], "^resumed$"
        return self.boot(way), "^resumed$" if way == "kernel" else "lab: reached"

    def back(self, way: str, trace: bool = False) -> tuple[float, Machine, str]:
        """Suspend and come back; the seconds, the machine, and what was said before."""
        disks = self.disks(way)
        # Another processor is another machine.
        counted = self.folder / way / "trace" if trace else None
        before = "" if way == "cold" else self.suspend(way, disks, counted)
        arguments, head = self.way_back(way)
        machine = Machine(disks, arguments, counted)
        took = machine.until(head)
        if way in ("kernel", "plain", "packed"):
            machine.until("lab: whole")
        machine.end()
        if not trace:
            shutil.rmtree(self.folder / way)
        return took, machine, before


def measure(lab: Lab, times: int) -> None:
    """Each way, again and again."""
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(times):
        for way in WAYS:
            took, machine, before = lab.back(way)
            found[way].append(round(took, 2))
            words = re.findall(r"blocklab-loader: .*|image pages=.*", before + machine.said)
            print(way, round(took, 2), *words, flush=True)
    middle = {way: statistics.median(all_of_it) for way, all_of_it in found.items()}
    ratios = {way: round(middle[way] / middle["plain"], 1) for way in WAYS}
    print(json.dumps({"seconds": found, "median": middle, "beside the loader": ratios}))


def number(said: str, name: str) -> int:
    """A count of the last line that has it."""
    return int(re.findall(rf"{name}=(\d+)", said)[-1])


def record(lab: Lab, out: pathlib.Path) -> None:
    """What was computed and read, each way but QEMU's, which computes nothing in the guest."""
    out.mkdir()
    for way in ("cold", "kernel", "plain", "packed"):
        _, machine, _ = lab.back(way, trace=True)
        trace = (lab.folder / way / "trace").read_text()
        reads = re.findall(r"handle_read vdev (\S+) .* sector (\d+) nsectors (\d+)", trace)
        end = number(machine.said.split("lab: whole")[0], "cycles")
        after = checking = 0
        by_loader = way in ("plain", "packed")
        if by_loader:
            said = machine.said
            loaded, jumped = number(said, "loaded"), number(said, "jumped")
            after, checking = end - jumped, jumped - loaded
            end = loaded - number(said, "entered") - number(said, "waited")
        each = end // (len(reads) + 1)
        disks = sorted({disk for disk, _, _ in reads})
        lines = []
        behind = None
        for disk, sector, sectors in reads:
            at = int(sector) + disks.index(disk) * DISK_SECTORS
            # The loader asks for data beside the data before it.
            beside = by_loader and at == behind and int(sectors) >= DATA_SECTORS
            lines.append(f"{each} {sectors} {at}{' beside' if beside else ''}")
            behind = at + int(sectors)
        stored = sum(int(sectors) * 512 for _, _, sectors in reads)
        head = "blocklab boot recording 1\nkernel debian-12-systemd\nvariant snapshot\n"
        head += f"file_bytes {stored}\nlast_instructions {each + checking}\n"
        head += f"start_instructions {after}\nreads {len(reads)}\n"
        (out / f"debian-{way}.boot").write_text(head + "\n".join(lines) + "\n")
        computed = end + checking + after
        print(way, len(reads), "reads", stored, "bytes", computed, "instructions", flush=True)


def main() -> None:
    tar = sys.argv[1]
    own = str(pathlib.Path(__file__).resolve().parent.parent / "target/debug/blocklab")
    records = len(sys.argv) > 3 and sys.argv[2] == "record"
    rest = sys.argv[4:] if records else sys.argv[3:]
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(tar, rest[0] if rest else own, pathlib.Path(folder))
        if records:
            record(lab, pathlib.Path(sys.argv[3]))
        else:
            measure(lab, int(sys.argv[2]) if len(sys.argv) > 2 else 3)


if __name__ == "__main__":
    main()
