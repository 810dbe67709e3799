"""Does setup.sh say what a machine lacks before anything is built?"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("program", "script", "said"), [
    ("cc", 'for word; do [ "$word" != -static ] || exit 1; done', "glibc-static on Fedora"),
    ("uname", "echo Linux aarch64", "Linux on x86-64, not Linux aarch64"),
    ("rustc", "echo rustc 1.70.0", "Rust 1.88 or newer"),
])
def test_what_is_missing_is_named(
    tmp_path: Path, program: str, script: str, said: str
) -> None:
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    stubs = tmp_path / "bin"
    stubs.mkdir()
    # As root it would install what is missing: that must not help here.
    for name, does in ((program, script), ("apt-get", "exit 0")):
        (stubs / name).write_text(f"#!/bin/sh\n{does}\n")
        (stubs / name).chmod(0o755)
    done = subprocess.run(
        [tmp_path / "scripts" / "setup.sh"], capture_output=True, text=True, check=False,
        env={**os.environ, "PATH": f"{stubs}:{os.environ['PATH']}"})
    assert done.returncode == 3 and said in done.stderr, done.stderr
    assert not (tmp_path / ".venv").exists()
