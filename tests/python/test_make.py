"""Does `make` keep what cannot be made again, and test what it says?"""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def make(folder: Path, *words: str) -> str:
    """What `make` says in a copy of the Makefile, where cargo does nothing."""
    shutil.copy(ROOT / "Makefile", folder)
    programs = folder / "programs"
    programs.mkdir()
    (programs / "cargo").write_text("#!/bin/sh\n", encoding="utf-8")
    (programs / "cargo").chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    # It is no part of a `make` around the tests.
    environment.pop("MAKEFLAGS", None)
    return subprocess.run(
        ["make", *words], cwd=folder, env=environment, capture_output=True, text=True, check=True
    ).stdout


def test_clean_keeps_what_was_run(tmp_path: Path) -> None:
    for name in ("out/boot/mine.record", "out/first-look/result.json", "dist/a", ".venv/b"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("", encoding="utf-8")
    make(tmp_path, "clean")
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*")}
    assert left - {"Makefile", "programs", "programs/cargo"} == {
        "out", "out/boot", "out/boot/mine.record"}


def test_the_slow_tests_have_their_assertions(tmp_path: Path) -> None:
    plan = make(tmp_path, "--dry-run", "test-all")
    assert "cargo test --workspace --profile long -- --include-ignored" in plan, plan
    with (ROOT / "Cargo.toml").open("rb") as file:
        profile = tomllib.load(file)["profile"]["long"]
    assert profile == {"inherits": "release", "debug-assertions": True, "overflow-checks": True}


def test_the_fuzz_targets_are_checked(tmp_path: Path) -> None:
    plan = make(tmp_path, "--dry-run", "check-fuzz")
    assert "cargo check --manifest-path fuzz/Cargo.toml --bins --locked" in plan, plan
    assert "$(MAKE) check-fuzz" in (ROOT / "Makefile").read_text(encoding="utf-8")
