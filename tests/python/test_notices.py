"""Has what is given away the notices of everybody whose code is in it?"""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_crate_that_is_linked_has_its_notice() -> None:
    done = subprocess.run(
        [ROOT / "scripts/notices.py"], capture_output=True, text=True, check=True).stdout
    heads = {line.split(": ")[0] for line in done.splitlines() if ": " in line}
    for manifest, of in (("Cargo.toml", "blocklab"), ("Cargo.toml", "blocklab-py"),
                         ("crates/boot/loader/Cargo.toml", "blocklab-loader")):
        tree = subprocess.run(
            ["cargo", "tree", "--locked", "--manifest-path", ROOT / manifest, "--package", of,
             "--edges", "normal,no-proc-macro", "--prefix", "none"],
            capture_output=True, text=True, check=True).stdout
        crates = {tuple(line.split()[:2]) for line in tree.splitlines() if line.strip()}
        others = {f"{name} {version.removeprefix('v')}" for name, version in crates
                  if not name.startswith("blocklab")}
        assert len(others) > 3 and others <= heads, others - heads
    # C that a crate brings along, and what an Apache licence asks to be passed on.
    assert "Copyright (c) Meta Platforms, Inc. and affiliates" in done
    assert done.count("TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION") > 1
