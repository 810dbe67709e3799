"""A study on more than one machine: its runs as tasks of a Ray cluster.

Every machine has the same blocklab. The study travels as text; files that it names are looked for
at the same places, so that traces belong into a folder that all machines share. A drive that
several runs start from is made once; it travels as its image, through Ray's object store, to
machines that do not have it, or not at all where `cache` is a folder that all share.

What comes back is kept beside the results, as that of a study that was interrupted. So the study
that writes the results finds its runs done, and if the cluster goes away in the middle, the same
call goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import takewhile
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from . import _core
from ._progress import shown
from .errors import StudyError, wrong_argument

#: A worker that goes away takes its task along; the task is tried again so often.
_RETRIES = 5
#: Tasks beyond those that run, so that no worker waits for the next.
_AHEAD = 2
#: A task costs a cluster some hundredths of a second, so that quick runs share one: about so many
#: seconds of them, and at most so many runs, which are lost together.
_TASK_S = 0.5
_TASK_RUNS_MAX = 256


@dataclass(frozen=True)
class _Described:
    """A study as another machine reads it."""

    name: str
    text: str
    sets: list[str]
    directory: str
    digest: str


def fill(
    plan: _core.Plan,
    sets: list[str],
    out: Path,
    on: str,
    cache: str | PathLike[str] | None = None,
    tell: Callable[[float, int], None] | None = None,
) -> None:
    """Do the runs that are left for results in `out` on the cluster `on`, and keep what they gave.

    Raises StudyError, as a local run does, and when there is no such cluster.
    """
    plan.check_output(fspath(out))
    ray = _connected(on)
    folder = fspath(cache) if cache is not None else None
    directory = os.path.abspath(fspath(plan.directory) or ".")
    study = ray.put(_Described(plan.name, plan.text, sets, directory, plan.digest))
    left = plan.left(fspath(out))
    done = len(plan.runs) - len(left)
    measure = ray.remote(max_retries=_RETRIES)(_measure)
    prepare = ray.remote(max_retries=_RETRIES)(_prepare)
    shares = _Shares(plan, left)
    drives = _Drives(shares, lambda number: prepare.remote(study, number, folder))
    room = max(1, int(ray.cluster_resources().get("CPU", 1))) * (1 + _AHEAD)
    pending: dict[Any, list[int]] = {}
    try:
        while True:
            while len(pending) < room and (share := shares.next()):
                # Nothing else here may hold the image: it would outlive its last run.
                pending[measure.remote(study, share, folder, drives.image(share))] = share
            if not pending:
                return
            ready, _ = ray.wait([*pending], num_returns=1, timeout=0.2)
            for task in ready:
                took_s, results = _answer(ray, task)
                share = pending.pop(task)
                for number, result in zip(share, results, strict=True):
                    plan.take(number, result, fspath(out))
                shares.took(len(share), took_s)
                drives.done(share)
                done += len(share)
            if tell is not None:
                tell(done / len(plan.runs), done)
    finally:
        for task in pending:
            ray.cancel(task, force=True)


class _Shares:
    """Hands out runs, one drive at a time, more at once when they are quick."""

    def __init__(self, plan: _core.Plan, left: list[int]) -> None:
        #: By run, the drive it starts from.
        self.drives = [drive for _, _, drive in plan.runs]
        by_drive: dict[str | None, list[int]] = {}
        for number in left:
            by_drive.setdefault(self.drives[number], []).append(number)
        #: Those of one drive after each other, whatever their order in the grid.
        self.left = [number for numbers in by_drive.values() for number in numbers]
        self.at = 0
        self.runs = 1

    def next(self) -> list[int]:
        """The runs of the next task; none when all are handed out."""
        share = self.left[self.at:self.at + self.runs]
        same = [*takewhile(lambda number: self.drives[number] == self.drives[share[0]], share)]
        self.at += len(same)
        return same

    def took(self, runs: int, seconds: float) -> None:
        """A task of so many runs took so long."""
        if runs == self.runs and seconds < _TASK_S:
            self.runs = min(2 * self.runs, _TASK_RUNS_MAX)
        elif seconds > 2 * _TASK_S:
            self.runs = max(1, self.runs // 2)


class _Drives:
    """The drives that runs start from: each is made once, and kept until its last run is done."""

    def __init__(self, shares: _Shares, make: Callable[[int], Any]) -> None:
        self.of_run = shares.drives
        self.make = make
        #: Runs that are left, by drive.
        self.left = Counter(self.of_run[number] for number in shares.left)
        self.images: dict[str, Any] = {}

    def image(self, share: list[int]) -> list[Any]:
        """What the runs of a task start from, if they need it, in a list, so that a worker that
        has the drive need not fetch it."""
        drive = self.of_run[share[0]]
        if drive is None:
            return []
        if drive not in self.images:
            self.images[drive] = self.make(share[0])
        return [self.images[drive]]

    def done(self, share: list[int]) -> None:
        """These runs are done; an image that no run is left for need not be stored."""
        drive = self.of_run[share[0]]
        self.left[drive] -= len(share)
        if drive is not None and not self.left[drive]:
            del self.images[drive]


def _connected(on: str) -> Any:
    """Ray, with a connection to the cluster."""
    scheme, _, address = on.partition("://")
    if scheme != "ray" or "://" in on and not address:
        raise wrong_argument(
            f"`{on}` is no place to run a study", "`ray`, or `ray://HOST:PORT` of a cluster")
    try:
        import ray
    except ModuleNotFoundError as error:
        raise StudyError(
            f"error: Ray is not installed: {error}\n  = help: pip install 'ray[client]'",
            kind="machine") from error
    if ray.is_initialized():
        return ray
    try:
        ray.init(address=on if address else None, log_to_driver=False, logging_level=logging.ERROR)
    except ImportError as error:
        raise StudyError(
            f"error: Ray lacks what {on} needs: {error}\n  = help: pip install 'ray[client]'",
            kind="machine") from error
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise StudyError(
            f"error: there is no Ray cluster at {on}, or it refuses this machine: {error}\n"
            "  = help: `ray start --head` begins one; RAY_ADDRESS names it for `ray`; if it wants\n"
            "    a token, put what `ray get-auth-token` prints there into ~/.ray/auth_token here",
            kind="machine") from error
    return ray


def _answer(ray: Any, task: Any) -> Any:
    """What a task returned, or its StudyError, or why it was lost."""
    try:
        return ray.get(task)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, StudyError):
            raise error.cause from None
        raise StudyError(
            f"error: a run failed on the cluster: {error}\n"
            "  = help: install the same blocklab on every machine", kind="machine") from error
    except ray.exceptions.RayError as error:
        raise StudyError(
            f"error: a run was lost {_RETRIES + 1} times: {error}\n"
            "  = help: the same call goes on with the runs that are left",
            kind="machine") from error


#: Studies that this worker has read.
_plans: dict[str, _core.Plan] = {}


def _plan(study: _Described) -> _core.Plan:
    plan = _plans.get(study.digest)
    if plan is None:
        plan = _core.Plan.parse(study.directory, study.name, study.text, study.sets)
        if plan.digest != study.digest:
            raise StudyError(
                f"error: the study {study.name} is another one on {os.uname().nodename}\n"
                "  = expected: the same blocklab, and the same files at the same places, on every "
                "machine", kind="machine")
        _plans.clear()
        _plans[study.digest] = plan
    return plan


def _prepare(study: _Described, number: int, cache: str | None) -> bytes | None:
    """Make a drive; its image, unless it is in a folder that all machines share."""
    place = _plan(study).prepare(number, cache)
    return None if place is None or cache is not None else Path(place).read_bytes()


def _measure(
    study: _Described, numbers: list[int], cache: str | None, drive: list[Any]
) -> tuple[float, list[bytes]]:
    """Measure runs that start from one drive, and how long that took; `drive` refers to what
    `_prepare` returned, if they need it."""
    plan = _plan(study)
    place = plan.image(numbers[0], cache)
    if drive and place is not None and not Path(place).exists():
        import ray

        # Waits until it is made; nothing comes where all machines share the folder.
        image: bytes | None = ray.get(drive[0])
        if image is not None:
            _keep(Path(place), image)
    began = time.monotonic()
    results = [plan.measure(number, cache) for number in numbers]
    return time.monotonic() - began, results


def _keep(place: Path, image: bytes) -> None:
    """Write a drive's image in one piece; without it the drive is made anew."""
    partial = place.with_name(f".{place.name}.partial-{os.uname().nodename}-{os.getpid()}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(image)
        partial.replace(place)
    except OSError:
        partial.unlink(missing_ok=True)


def main(argv: list[str] | None = None) -> int:
    """What `blocklab run --on` starts: do the runs of a study that are left; returns the exit
    code."""
    parser = argparse.ArgumentParser(prog="blocklab.cluster", description=fill.__doc__)
    parser.add_argument("study")
    parser.add_argument("--on", required=True)
    parser.add_argument("--set", action="append", default=[], dest="sets")
    parser.add_argument("--out")
    parser.add_argument("--json", action="store_true", help="a failure as one object on stdout")
    arguments = parser.parse_args(argv)
    try:
        plan = _core.Plan.read(arguments.study, arguments.sets)
        out = Path(arguments.out) if arguments.out else Path("out") / plan.name
        with shown(None, len(plan.runs)) as tell:
            fill(plan, arguments.sets, out, arguments.on, tell=tell)
    except StudyError as error:
        print(error, file=sys.stderr)
        if arguments.json:
            print(json.dumps(error.to_json()))
        return error.exit_code
    except KeyboardInterrupt:
        print("the runs that were finished are kept: the same command goes on there",
              file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
