"""The commands of the README do what they say, on this machine, as they stand there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from needs import skip

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def commands() -> list[str]:
    """Every command of a block without a language, comments left out."""
    found: list[str] = []
    language: str | None = None
    for line in README.splitlines():
        if line.startswith("```"):
            language = line.removeprefix("```") if language is None else None
        elif language == "" and line.startswith(("make ", "blocklab ", "sudo ", "cargo ")):
            found.append(line.split("  #")[0].strip())
    return found


def without_sudo(command: str) -> str:
    if not command.startswith("sudo "):
        return command
    if os.geteuid() != 0:
        skip("root", "it is run with sudo")
    return command.removeprefix("sudo ")


def need_of(command: str) -> str | None:
    """What this machine lacks for it."""
    for tool in ("fio", "mkfs.ext4"):
        if tool in command and shutil.which(tool) is None:
            return tool
    if "--as loop" in command and not Path("/dev/loop-control").exists():
        return "loop"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    if "travel" in command and not list(cache.glob("blocklab/kernel/*/linux")):
        return "travel"
    return None


def test_there_are_commands() -> None:
    assert len(commands()) >= 8


@pytest.mark.parametrize("command", [c for c in commands() if c.startswith("make ")])
def test_a_target_exists(command: str) -> None:
    target = command.split()[1]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{target}:", makefile, re.MULTILINE), command


# `make kernel` does what takes minutes.
@pytest.mark.parametrize(
    "command", [c for c in commands() if "blocklab " in c and "kernel build" not in c])
def test_a_command_runs(command: str, tmp_path: Path) -> None:
    command = without_sudo(command)
    if (need := need_of(command)) is not None:
        skip(need, command)
    # As in a clone of the repository, but what is written goes elsewhere.
    for folder in ("studies", "traces", "devices"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("command", [c for c in commands() if c.startswith("cargo run -p xtask")])
def test_a_task_is_known(command: str) -> None:
    """Tests of xtask run each of them in a copy of the repository."""
    assert "-- new ftl-gc " in command
