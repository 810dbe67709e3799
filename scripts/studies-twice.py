#!/usr/bin/python3
"""Do studies that travel give the same digests on a busy machine?

    scripts/studies-twice.py [--shipped] [--keep DIR] [--load N] [--blocklab PROGRAM] [STUDY ...]

Runs each of them at a small size, two sessions at a time, and then once more, one at a time, while
N processes (one per core, if not said) do nothing but compute. With --shipped each is as it is
shipped, and two sessions run at a time both times. A line each, with the seconds of both; exit code
1 when a run failed or came out differently. DIR keeps what the runs wrote.
"""

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
POSTMARK = (
    r"travel.command=printf 'set location .\nset size 102400 3145728\nset number 40\n"
    r"set transactions 100\nrun\nquit\n' > $TMPDIR/ll && postmark $TMPDIR/ll"
)
SMALL = ["travel.arguments.class=LL", "travel.arguments.scale=100"]
#: What makes each of them small.
STUDIES = {
    "linux-io/bonnie": ["travel.command=bonnie++ -d . -u root -r 16 -s 32 -n 0 -q -m lab"],
    "linux-io/dbench": ["travel.arguments.clients=10", "travel.arguments.seconds=1"],
    "linux-io/file-systems": SMALL,
    "linux-io/hdtach": ["travel.arguments.percent=50"],
    "linux-io/readahead": [POSTMARK],
    "linux-io/schedulers": SMALL,
    "linux-io/write-cache": [POSTMARK],
    "linux-now/discard": [],
    "linux-now/readahead": ["travel.read_ahead_kb=128"],
    "linux-now/which-scheduler": ["travel.arguments.seconds=1", "travel.file_system=f2fs"],
    "linux-now/writeback": ["travel.arguments.seconds=1", "travel.wbt=2ms"],
}


@contextlib.contextmanager
def busy(processes: int):
    """Keep that many cores busy."""
    spin = [sys.executable, "-c", "while True: pass"]
    spinning = [subprocess.Popen(spin) for _ in range(processes)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def digests(command: list[str], settings: list[str], out: pathlib.Path) -> list[str | None]:
    """The digest of each run, nothing for one that failed."""
    words = [word for setting in settings for word in ("--set", setting)]
    command = [*command, "--no-report", "--no-cache", "--out", str(out), *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT)
    # 1: an expectation about the study's own size does not hold at this one.
    if done.returncode > 1:
        sys.exit(f"{command[2]}: {done.stderr.strip()}")
    runs = json.loads((out / "result.json").read_text(encoding="utf-8"))["runs"]
    return [None if run.get("failed") else run["result_digest"] for run in runs]


def main() -> int:
    """A line per study."""
    parser = argparse.ArgumentParser(description="The same digests on a busy machine?")
    parser.add_argument("--shipped", action="store_true")
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--load", type=int, default=os.cpu_count())
    parser.add_argument("--blocklab", default=str(ROOT / "target/debug/blocklab"))
    parser.add_argument("studies", nargs="*", choices=[*STUDIES, []], metavar="STUDY")
    given = parser.parse_args()
    wrong = 0
    for study in given.studies or STUDIES:
        settings = [] if given.shipped else STUDIES[study]
        with tempfile.TemporaryDirectory() as temporary:
            folder = (given.keep or pathlib.Path(temporary)) / study
            command = [given.blocklab, "run", study, "--jobs"]
            began = time.monotonic()
            first = digests([*command, "2"], settings, folder / "first")
            between = time.monotonic()
            with busy(given.load):
                jobs = "2" if given.shipped else "1"
                second = digests([*command, jobs], settings, folder / "second")
            ended = time.monotonic()
        same = sum(a is not None and a == b for a, b in zip(first, second, strict=True))
        wrong += len(first) - same
        seconds = f"{between - began:.0f} s, then {ended - between:.0f} s"
        print(f"{study:<26} {same:3} of {len(first):3} the same, {seconds}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
