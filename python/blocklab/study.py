"""Run studies from Python. The numbers are those of the command line: the same Rust code runs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import polars as pl

from . import _core

#: What a key of a study may be set to: what TOML knows.
Value = bool | int | float | str | list[Any] | dict[str, Any]


@dataclass(frozen=True)
class Expectation:
    """One expectation of the study, judged."""

    #: The claim.
    text: str
    #: Whether it holds.
    ok: bool
    #: The measured value, None where the metric is undefined.
    value: float | None


@dataclass(frozen=True)
class Claim:
    """One claim of somebody else, judged by the study."""

    #: The claim.
    text: str
    #: Who says so, and where.
    source: str
    #: `"holds"`, `"holds in part"` or `"does not hold"`.
    standing: str
    #: Smallest and largest measured value, None where the metric is undefined everywhere.
    range: tuple[float, float] | None
    #: What would make it hold.
    expected: str

    @property
    def holds(self) -> bool:
        """True when it holds at every point it is about."""
        return self.standing == "holds"


class Result:
    """What a study answered. Everything is also in the files under `path`."""

    def __init__(self, path: Path, document: dict[str, Any]) -> None:
        #: The run directory.
        self.path = path
        #: `result.json` as it is.
        self.document = document

    @property
    def study(self) -> str:
        """The study's name."""
        return str(self.document["study"])

    @property
    def digest(self) -> str:
        """Digest of everything the result depends on."""
        return str(self.document["digest"])

    @property
    def result_digest(self) -> str:
        """Digest of everything that was simulated: equal digests, equal results."""
        return str(self.document["result_digest"])

    @property
    def expectations(self) -> list[Expectation]:
        """The study's expectations and whether they hold."""
        return [
            Expectation(entry["text"], entry["ok"], entry["value"])
            for entry in self.document["expectations"]
        ]

    @property
    def claims(self) -> list[Claim]:
        """What others say about the study's results, and how much of it holds."""
        return [
            Claim(
                entry["text"], entry["source"], entry["standing"],
                tuple(entry["range"]) if entry["range"] else None, entry["expected"])
            for entry in self.document["claims"]
        ]

    @property
    def ok(self) -> bool:
        """True when every expectation holds."""
        return all(expectation.ok for expectation in self.expectations)

    @property
    def metrics(self) -> list[dict[str, float | None]]:
        """The metrics of every run, in the order of the grid."""
        return [dict(run["metrics"]) for run in self.document["runs"]]

    @cached_property
    def runs(self) -> pl.DataFrame:
        """One row per run: label, axes and metrics. Read from `runs.parquet` on first use."""
        return pl.read_parquet(self.path / "runs.parquet")

    def table(self, name: str) -> pl.LazyFrame:
        """A data file of the run directory, such as `latency` or `series`, read when collected."""
        return pl.scan_parquet(self.path / f"{name}.parquet")

    def report(self, out: str | PathLike[str] | None = None) -> Path:
        """Write the HTML report and return its path: `report.html` in the run directory."""
        from ._report.page import write

        return write(self.path, out)

    def __repr__(self) -> str:
        held = sum(expectation.ok for expectation in self.expectations)
        return (f"Result({self.study!r}, {len(self.document['runs'])} runs, "
                f"{held} of {len(self.expectations)} expectations held, {str(self.path)!r})")


def run(
    study: str | PathLike[str],
    set: Mapping[str, Value] | None = None,  # noqa: A002: the command line's own word
    jobs: int | None = None,
    out: str | PathLike[str] | None = None,
    *,
    records: bool = False,
    perfetto: bool = False,
) -> Result:
    """Run a study and return what it answered.

    `study` is a file (with a `/` or ending in `.toml`) or the name of a shipped study. `set` lays
    values over keys of the study: `{"device.ssd.gc": "greedy"}`. `jobs` is the number of runs at a
    time, one per core by default; it never changes a result. `out` is the run directory,
    `out/STUDY` by default. `records` keeps every request in `requests.parquet`; `perfetto` writes
    `trace.pftrace` for ui.perfetto.dev.

    Raises StudyError with the place of whatever is wrong. Ctrl-C stops the study and leaves
    nothing behind.
    """
    sets = [f"{key}={_toml(value)}" for key, value in (set or {}).items()]
    name = fspath(study)
    replay = shlex.join(["blocklab", "run", name, *(w for s in sets for w in ("--set", s))])
    directory, text = _core.run_study(
        name, sets, jobs or 0, fspath(out) if out is not None else None, records, perfetto, replay)
    return Result(Path(directory), json.loads(text))


def _toml(value: Value) -> str:
    """`value` as TOML text: JSON, except for tables."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)
