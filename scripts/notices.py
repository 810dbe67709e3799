#!/usr/bin/env python3
"""Print the notices of other people's code in what `make dist` gives away.

    scripts/notices.py

Each crate that is linked into the program, into what it carries for guests, or into the Python
package: its licence, its authors, and the texts that lie in its package. A text that several crates
share is printed once. The same lock files give the same bytes. Exit code 1: a crate has no licence.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Manifest, and what is given away of it.
GIVEN = [
    (ROOT / "Cargo.toml", {"blocklab", "blocklab-py", "blocklab-guest"}),
    (ROOT / "crates/boot/loader/Cargo.toml", {"blocklab-loader"}),
]
TEXT = re.compile(r"(licen[cs]e|copying|copyright|notice|unlicense)", re.IGNORECASE)
HEAD = """\
Other people's code in this blocklab
====================================

blocklab itself is Apache-2.0 or MIT, at your choice. Beside the crates below the programs have
Rust's standard library (MIT or Apache-2.0, https://www.rust-lang.org) in them, and the static ones
the GNU C Library (LGPL-2.1 or later, https://sourceware.org/glibc): with blocklab's sources, which
are free, they can be linked to another version of it.
"""


def linked(manifest: Path, roots: set[str]) -> dict[str, dict]:
    """By identity: other people's packages that are linked into those of `roots`."""
    host = subprocess.run(["rustc", "-vV"], capture_output=True, text=True, check=True).stdout
    target = next(line.split()[1] for line in host.splitlines() if line.startswith("host: "))
    command = ["cargo", "metadata", "--format-version=1", "--locked", "--filter-platform", target,
               "--manifest-path", str(manifest)]  # fmt: skip
    told = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    packages = {package["id"]: package for package in told["packages"]}
    nodes = {node["id"]: node["deps"] for node in told["resolve"]["nodes"]}
    macros = {key for key, package in packages.items()
              if any("proc-macro" in part["kind"] for part in package["targets"])}  # fmt: skip
    ahead = [key for key, package in packages.items() if package["name"] in roots]
    found: set[str] = set()
    while ahead:
        key = ahead.pop()
        if key in found or key in macros:
            continue
        found.add(key)
        # Not what only tests and build scripts have.
        ahead += [dep["pkg"] for dep in nodes[key]
                  if any(kind["kind"] is None for kind in dep["dep_kinds"])]  # fmt: skip
    return {key: packages[key] for key in found if packages[key]["source"]}


def texts(package: dict) -> list[str]:
    """What lies in a package about its licence, and in those of C that it brings along."""
    folder = Path(package["manifest_path"]).parent
    files = [path for depth in ("*", "*/*") for path in folder.glob(depth)
             if TEXT.match(path.name) and path.suffix not in {".rs", ".py", ".sh"}
             and path.is_file()]  # fmt: skip
    found = {path.read_text(encoding="utf-8", errors="replace").strip() for path in files}
    return sorted(found)


def main() -> int:
    packages: dict[str, dict] = {}
    for manifest, roots in GIVEN:
        packages |= linked(manifest, roots)
    crates = sorted(packages.values(), key=lambda package: (package["name"], package["version"]))
    without = [crate["name"] for crate in crates
               if not (crate["license"] or crate["license_file"])]  # fmt: skip
    if without:
        print(f"notices.py: no licence: {', '.join(without)}", file=sys.stderr)
        return 1
    numbers: dict[str, int] = {}
    print(HEAD)
    for crate in crates:
        own = [numbers.setdefault(text, len(numbers) + 1) for text in texts(crate)]
        listed = ", ".join(str(number) for number in own)
        print(f"{crate['name']} {crate['version']}: {crate['license'] or 'see its text'}")
        if crate["authors"]:
            print(f"    by {', '.join(crate['authors'])}")
        if crate["repository"]:
            print(f"    {crate['repository']}")
        print(f"    text {listed}" if own else "    its package has no text")
    for text, number in numbers.items():
        print(f"\n{'=' * 20} text {number} {'=' * 20}\n\n{text}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
