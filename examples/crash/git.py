#!/usr/bin/python3
"""Commits of git with core.fsync=all; `write at-once` promises each as soon as it has returned.

    blocklab crash --part tlc-3d-128 --mkfs ext4 --mem 512M \
        --check "$PWD/examples/crash/git.py check" -- $PWD/examples/crash/git.py write
"""

import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from blocklab_ack import ack, promised  # noqa: E402

COMMITS = 10
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


def write(behind: int) -> None:
    """Commits, of which each is promised when `behind` more have returned: git syncs a branch's new
    file before it takes the branch's name, and not its folder behind that."""
    os.chdir("/mnt")
    git("init", "-q", "-b", "main", "repository")
    os.sync()  # it syncs neither the files of a new repository nor their folders
    os.chdir("repository")
    for number in range(COMMITS):
        pathlib.Path("file").write_text(f"{number}\n" * 100, encoding="utf-8")
        git("add", "file")
        git("commit", "-q", "-m", str(number))
        if number >= behind:
            ack(git("rev-parse", f"HEAD~{behind}"))


def check() -> str | None:
    """The last commit that was promised is there, whole, and in the history."""
    commits = promised()
    if not commits:
        return None
    try:
        os.chdir("repository")
        git("fsck", "--full", "--strict")
        git("merge-base", "--is-ancestor", commits[-1], "HEAD")
    except OSError as why:
        return str(why)
    except subprocess.CalledProcessError as why:
        return f"{why} {why.stdout} {why.stderr}"
    return None


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write"]:
            write(1)
        case ["write", "at-once"]:
            write(0)
        case ["check"]:
            sys.exit(check())
        case _:
            sys.exit(__doc__)
