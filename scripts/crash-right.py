#!/usr/bin/python3
"""Power cuts of set-ups that are right: none of them may lose anything.

    scripts/crash-right.py [CUTS]

runs `blocklab crash` for each program (files with fsync of file and folder, SQLite with what it
needs, git with core.fsync=all), file system and drive, CUTS cuts each, a line each. `write` and
`check` are what runs in the guests. Exit code 1 when anything was lost: a false alarm or a finding.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve()
sys.path.insert(0, str(HERE.parent.parent / "examples"))

from blocklab_ack import ack  # noqa: E402

BLOCKLAB = HERE.parent.parent / "target/debug/blocklab"
SQLITE = HERE.with_name("crash-sqlite.py")
ROUNDS = 20
#: By name: what writes, and what checks.
PROGRAMS = {
    "files": (f"{HERE} write files", f"{HERE} check files"),
    "git": (f"{HERE} write git", f"{HERE} check git"),
    "sqlite delete/extra": (f"{SQLITE} write delete extra", f"{SQLITE} check"),
    "sqlite wal/full": (f"{SQLITE} write wal full", f"{SQLITE} check"),
}
FILE_SYSTEMS = ["ext4", "xfs", "btrfs"]
PARTS = ["tlc-3d-128", "wd-80g-5400"]


def write_files() -> None:
    """New content for one of five names, each by a file beside it that takes the name's place."""
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


def check_files(promised: list[str]) -> str:
    """Each name has what was promised last, or what came later, and all of it."""
    last = {name: int(number) for name, number in (line.split() for line in promised)}
    for name, number in last.items():
        lines = pathlib.Path(name).read_text(encoding="utf-8").splitlines()
        if len(lines) != 3000 or len(set(lines)) != 1 or int(lines[0]) < number:
            return f"{name}: {lines[:1]} {len(lines)} times where {number} was promised"
    return ""


#: A person for git, and a repository that syncs everything.
GIT = ["git", "-c", "core.fsync=all", "-c", "core.fsyncMethod=fsync", "-c", "user.name=a",
       "-c", "user.email=a@b", "-c", "gc.auto=0", "-c", "safe.directory=*",
       "-c", "commit.gpgsign=false"]


def git(*words: str) -> str:
    """What git says."""
    environment = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        [*GIT, *words], check=True, capture_output=True, text=True, env=environment)
    return done.stdout.strip()


def write_git(behind: int) -> None:
    """Commits, of which each is promised when `behind` more have returned: git syncs a branch's new
    file before it takes the branch's name, and not its folder behind that."""
    git("init", "-q", "-b", "main", "repository")
    os.sync()  # it syncs neither the files of a new repository nor their folders
    os.chdir("repository")
    for number in range(ROUNDS // 2):
        pathlib.Path("file").write_text(f"{number}\n" * 100, encoding="utf-8")
        git("add", "file")
        git("commit", "-q", "-m", str(number))
        if number >= behind:
            ack(git("rev-parse", f"HEAD~{behind}"))


def check_git(promised: list[str]) -> str:
    """The last commit that was promised is there, whole, and in the history."""
    if not promised:
        return ""
    os.chdir("repository")
    git("fsck", "--full", "--strict")
    git("merge-base", "--is-ancestor", promised[-1], "HEAD")
    return ""


def check(what: str) -> int:
    """Is all there that was promised?"""
    promised = pathlib.Path(os.environ["BLOCKLAB_ACKS"]).read_text(encoding="utf-8").splitlines()
    try:
        wrong = {"files": check_files, "git": check_git}[what](promised)
    except (OSError, ValueError) as why:
        wrong = str(why)
    except subprocess.CalledProcessError as why:
        wrong = f"{why} {why.stdout} {why.stderr}"
    if wrong:
        print(wrong)
    return int(bool(wrong))


def sweep(cuts: str) -> int:
    """All of them."""
    print("program              on     drive         cuts  media  clean  repaired  lost  refused")
    wrong = total = 0
    for name, (write, check_with) in PROGRAMS.items():
        for file_system in FILE_SYSTEMS:
            for part in PARTS:
                with tempfile.TemporaryDirectory() as folder:
                    command = [BLOCKLAB, "crash", "--part", part, "--mkfs", file_system,
                               "--mem", "512M", "--cuts", cuts, "--check", check_with,
                               "--out", folder, "--json", "--", *write.split()]
                    began = time.monotonic()
                    run = subprocess.run(command, capture_output=True, text=True)
                    if run.returncode not in (0, 1):
                        sys.exit(run.stderr)
                    report = json.loads((pathlib.Path(folder) / "crash.json").read_text())
                    if run.returncode == 1:
                        print(run.stderr[-1500:])
                counts = report["counts"]
                bad = counts["lost"] + counts["refused"]
                number = len(report["cuts"])
                wrong += bad
                total += number
                media = number - sum(cut["same_as_ns"] is not None for cut in report["cuts"])
                print(f"{name:20} {file_system:6} {part:12} {number:5} {media:6} "
                      f"{counts['clean']:6} {counts['repaired']:9} {counts['lost']:5} "
                      f"{counts['refused']:8} {time.monotonic() - began:4.0f} s", flush=True)
    print(f"{total} cuts, {wrong} of them wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write", "files"]:
            os.chdir("/mnt")
            write_files()
        case ["write", "git"]:
            os.chdir("/mnt")
            write_git(1)
        case ["write", "git", "at once"]:
            os.chdir("/mnt")
            write_git(0)
        case ["check", what]:
            sys.exit(check(what))
        case []:
            sys.exit(sweep("210"))
        case [cuts]:
            sys.exit(sweep(cuts))
        case _:
            sys.exit(__doc__)
