#!/usr/bin/env python3
"""Run a shell script in a virtual machine with a Debian kernel, and pass on what it did.

    scripts/guest.py [--module NAME]... [--late NAME]... [--bring PROGRAM]... [--file HERE=THERE]...
                     [--disk MIB]... [--vhost-user SOCKET]... SCRIPT

The guest has busybox, the kernel's modules named by --module, and the programs named by --bring
(a name in PATH or a path) with the libraries they need. Its output is ours, and so is its exit
code. Each --vhost-user is a disk of the guest that another process serves: /dev/vda, ... with as
many queues as --queues says. Exit code 77: this machine cannot run guests, and why; `make clients`
gets what it needs.

Nothing of the machine is touched: the kernel's package is unpacked in the cache folder. A guest
is emulated, or runs under KVM where the processor has it.
"""

from __future__ import annotations

import argparse
import lzma
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

# What Debian 12 ships with ublk, nbd and the older file systems as modules.
KERNEL = "linux-image-6.12-amd64"
SKIPPED = 77
END = "guest-exit-code"
INIT = f"""#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
mkdir -p /dev/shm /run; mount -t tmpfs lab /lab
export PATH=/bin:/sbin:/usr/bin:/usr/sbin HOME=/lab TMPDIR=/lab
ip link set lo up
for module in $(cat /modules/order); do insmod "/modules/$module" || exit 1; done
stty -F /dev/ttyS1 raw
cd /lab; sh /script < /dev/null > /dev/ttyS1 2>&1
echo "{END} $?" > /dev/ttyS1
poweroff -f
"""


class CannotRun(Exception):
    """This machine lacks something; it says what."""


def cache() -> Path:
    """Where the kernel's package is unpacked."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "blocklab" / "guest"


def fetch() -> None:
    """Download the kernel's package and unpack it, unless it is there."""
    listed = run(["apt-cache", "depends", "--important", KERNEL])
    names: list[str] = re.findall(r"Depends: (linux-image-\S+)", listed)
    if not names:
        raise CannotRun(f"apt knows no {KERNEL}: it is in Debian 12; try apt-get update")
    wanted = cache() / names[0]
    if (wanted / "boot").exists():
        return
    with tempfile.TemporaryDirectory() as folder:
        run(["apt-get", "download", "-q", names[0]], cwd=folder)
        package = next(Path(folder).glob("*.deb"))
        unpacked = cache() / f"{names[0]}.partial"
        shutil.rmtree(unpacked, ignore_errors=True)
        unpacked.mkdir(parents=True)
        run(["dpkg", "-x", str(package), str(unpacked)])
    for old in cache().glob("linux-image-*"):
        if old != unpacked:
            shutil.rmtree(old)
    unpacked.rename(wanted)


def run(command: list[str], cwd: str | None = None) -> str:
    """The output of a command that must work."""
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=True)
    except FileNotFoundError:
        raise CannotRun(f"{command[0]} is not installed") from None
    except subprocess.CalledProcessError as error:
        raise CannotRun(f"{' '.join(command)}: {error.stderr.strip()}") from None
    return done.stdout


class Kernel:
    """An unpacked kernel and its modules."""

    def __init__(self) -> None:
        images = sorted(cache().glob("linux-image-*/boot/vmlinuz-*"))
        if not images:
            raise CannotRun("there is no guest kernel; get it: make clients")
        self.image = images[-1]
        version = self.image.name.removeprefix("vmlinuz-")
        root = self.image.parent.parent / "lib" / "modules" / version
        self.files = {plain(file): file for file in root.rglob("*.ko*")}
        builtin = (root / "modules.builtin").read_text().split()
        self.builtin = {plain(Path(line)) for line in builtin}

    def load(self, names: Iterable[str]) -> dict[str, bytes]:
        """The modules and all they need, in the order in which they can be loaded."""
        found: dict[str, bytes] = {}

        def add(name: str) -> None:
            if name in found or name in self.builtin:
                return
            if name not in self.files:
                raise CannotRun(f"the guest's kernel has no module {name}")
            data = read_module(self.files[name])
            for needed in said(data, "depends"):
                add(needed)
            # What a module would rather have is often a checksum, by the name of its algorithm.
            for wanted in said(data, "softdep"):
                algorithm = wanted.removeprefix("crypto_")
                for known in {wanted, algorithm, f"{algorithm}_generic"} & self.files.keys():
                    add(known)
            found[name] = data

        for name in names:
            add(name.replace("-", "_"))
        return found


def plain(file: Path) -> str:
    """A module's name, of its file's."""
    return file.name.split(".ko")[0].replace("-", "_")


def read_module(file: Path) -> bytes:
    data = file.read_bytes()
    return lzma.decompress(data) if file.suffix == ".xz" else data


def said(module: bytes, key: str) -> list[str]:
    """The names of other modules that a module says under a key."""
    found: list[str] = []
    for entry in re.findall(rb"\0" + key.encode() + rb"=([^\0]*)", module):
        words = entry.decode().replace("pre:", " ").replace("post:", " ").replace(",", " ")
        found += [word.replace("-", "_") for word in words.split()]
    return found


class Archive:
    """An initial file system, in the form that the kernel unpacks (cpio, newc)."""

    def __init__(self) -> None:
        self.out = bytearray()
        self.known: set[str] = set()

    def add(self, name: str, data: bytes, mode: int = 0o100755) -> None:
        """A file, and the folders it is in; the first one of a name wins."""
        name = name.strip("/")
        if name in self.known:
            return
        parent = os.path.dirname(name)
        if parent:
            self.add(parent, b"", 0o40755)
        self.known.add(name)
        self._entry(name, data, mode)

    def _entry(self, name: str, data: bytes, mode: int) -> None:
        links = 2 if mode & 0o40000 else 1
        fields = [len(self.known), mode, 0, 0, links, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
        self.out += b"070701" + b"".join(b"%08x" % field for field in fields)
        self.out += name.encode() + b"\0"
        self._align()
        self.out += data
        self._align()

    def _align(self) -> None:
        self.out += bytes(-len(self.out) % 4)

    def bring(self, program: str) -> None:
        """A program and the libraries that it needs, all at their places."""
        search = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
        path = shutil.which(program, path=search)
        if path is None:
            raise CannotRun(f"{program} is not installed")
        with tempfile.TemporaryDirectory() as folder:
            # What a debugger wants is most of it.
            small = Path(folder) / "program"
            done = subprocess.run(["strip", "-o", small, path], capture_output=True, check=False)
            data = (small if done.returncode == 0 else Path(path)).read_bytes()
            self.add(f"bin/{Path(path).name}", data)
            hollow(path, Path(folder))
            near = {**os.environ, "LD_LIBRARY_PATH": folder}
            listed = subprocess.run(["ldd", path], env=near, capture_output=True, text=True)
            for library in re.findall(r"(/\S+) \(0x", listed.stdout):
                self.add(library.replace(folder, "/lib"), Path(library).read_bytes())

    def finish(self) -> bytes:
        self._entry("TRAILER!!!", b"", 0)
        return bytes(self.out)


# fio is linked with the clients of cluster file systems: 80 MB, which an emulated machine takes
# seconds to load each time.
UNUSED = re.compile(r"lib(gfapi|rados|rbd|ibverbs|rdmacm|pmem|pmemblk)\.so")


def hollow(program: str, folder: Path) -> None:
    """Make libraries whose functions do nothing, in the place of those that nobody uses."""
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    unused = [Path(path) for path in re.findall(r"(/\S+) \(0x", listed) if UNUSED.search(path)]
    if not unused or shutil.which("cc") is None:
        return
    wanted = dict(re.findall(r" [UwW] ([a-z]\w*)@?(\S*)", run(["nm", "-D", program])))
    for library in unused:
        there = set(re.findall(r" T (\w+)", run(["nm", "-D", str(library)])))
        names = sorted(wanted.keys() & there)
        versions, source = folder / "versions", folder / "empty.c"
        nodes = {wanted[name]: "".join(f"{n};" for n in names if wanted[n] == wanted[name])
                 for name in names if wanted[name]} or {"NONE": ""}  # fmt: skip
        versions.write_text("".join(f"{name} {{ {list} }};\n" for name, list in nodes.items()))
        source.write_text("".join(f"void {name}(void) {{}}\n" for name in names))
        run(["cc", "-shared", "-fPIC", "-w", f"-Wl,-soname,{library.name}", str(source),
             f"-Wl,--version-script={versions}", "-o", str(folder / library.name)])  # fmt: skip


def build(kernel: Kernel, options: argparse.Namespace, script: str) -> bytes:
    """The guest's initial file system."""
    archive = Archive()
    archive.bring("busybox")
    for folder in ["proc", "sys", "dev", "lab", "modules"]:
        archive.add(folder, b"", 0o40755)
    archive.add("init", INIT.encode())
    archive.add("script", script.encode())
    modules = kernel.load(options.module)
    archive.add("modules/order", " ".join(modules).encode())
    for name, data in {**kernel.load(options.late), **modules}.items():
        archive.add(f"modules/{name}", data)
    for program in options.bring:
        archive.bring(program)
    for pair in options.file:
        here, there = pair.split("=", 1)
        archive.add(there, Path(here).read_bytes())
    return archive.finish()


def accelerator() -> str:
    """KVM where the processor has it: inside another machine it may be there and not work.

    Without it the guest's processors take turns: side by side one of them may run code that the
    other has just patched (an `int3` in `sched_clock_cpu`, once, on a busy machine).
    """
    flags = Path("/proc/cpuinfo").read_text()
    works = re.search(r"^flags\s*:.*\b(vmx|svm)\b", flags, re.MULTILINE)
    return "kvm" if works and os.access("/dev/kvm", os.R_OK | os.W_OK) else "tcg,thread=single"


def disks(options: argparse.Namespace) -> list[str]:
    """What QEMU has to be told of disks that others serve: they see the guest's memory."""
    if not options.vhost_user:
        return []
    memory = f"memory-backend-memfd,id=ram,size={options.memory}M,share=on"
    told = ["-object", memory, "-machine", "memory-backend=ram"]
    for number, socket in enumerate(options.vhost_user):
        told += ["-chardev", f"socket,id=disk{number},path={socket}"]
        device = f"vhost-user-blk-pci,chardev=disk{number},num-queues={options.queues}"
        told += ["-device", device]
    return told


def boot(kernel: Kernel, initial: bytes, options: argparse.Namespace) -> int:
    """Run the guest to its end; its exit code."""
    qemu = shutil.which("qemu-system-x86_64")
    if qemu is None:
        raise CannotRun("qemu-system-x86_64 is not installed")
    with tempfile.TemporaryDirectory() as folder:
        archive, console, output = (Path(folder) / name for name in ("initrd", "console", "out"))
        archive.write_bytes(initial)
        command = [
            qemu, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
            "-accel", accelerator(), "-cpu", "max", "-smp", "2", "-m", str(options.memory),
            "-kernel", str(kernel.image), "-initrd", str(archive),
            "-append", "console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=on",
            "-chardev", f"file,id=console,path={console}", "-serial", "chardev:console",
            "-chardev", f"file,id=out,path={output}", "-serial", "chardev:out",
        ]  # fmt: skip
        command += disks(options)
        for number, mib in enumerate(options.disk):
            disk = Path(folder) / f"disk{number}"
            disk.touch()
            os.truncate(disk, mib << 20)
            command += ["-drive", f"file={disk},if=virtio,format=raw,cache=unsafe"]
        try:
            subprocess.run(command, timeout=options.timeout, check=False)
        except subprocess.TimeoutExpired:
            print(f"guest.py: not done after {options.timeout} s", file=sys.stderr)
        text = output.read_text(errors="replace") if output.exists() else ""
        said, end, code = text.rpartition(f"{END} ")
        sys.stdout.write(said if end else text)
        if end and code.strip().isdigit():
            return int(code)
        # It died: the kernel says of what.
        sys.stderr.write(console.read_text(errors="replace") if console.exists() else "")
        return 1


def main() -> int:
    parser = argparse.ArgumentParser(description="Run a shell script in a virtual machine.")
    parser.add_argument("--fetch", action="store_true", help="get the kernel, run nothing")
    parser.add_argument("--module", action="append", default=[], metavar="NAME")
    parser.add_argument("--late", action="append", default=[], metavar="NAME",
                        help="a module that the script loads, and modules it needs")  # fmt: skip
    parser.add_argument("--bring", action="append", default=[], metavar="PROGRAM")
    parser.add_argument("--file", action="append", default=[], metavar="HERE=THERE")
    parser.add_argument("--vhost-user", action="append", default=[], metavar="SOCKET")
    parser.add_argument("--queues", type=int, default=1, metavar="N")
    parser.add_argument("--disk", type=int, action="append", default=[], metavar="MIB",
                        help="an empty disk with a write cache: /dev/vda and so on")  # fmt: skip
    parser.add_argument("--memory", type=int, default=1024, metavar="MIB")
    parser.add_argument("--timeout", type=float, default=240, metavar="SECONDS")
    parser.add_argument("script", nargs="?", help="a file, or - for stdin")
    options = parser.parse_args()
    try:
        if options.fetch:
            fetch()
            return 0
        if options.script is None:
            parser.error("which script?")
        script = sys.stdin.read() if options.script == "-" else Path(options.script).read_text()
        kernel = Kernel()
        return boot(kernel, build(kernel, options, script), options)
    except CannotRun as why:
        print(f"guest.py: {why}", file=sys.stderr)
        return SKIPPED


if __name__ == "__main__":
    sys.exit(main())
