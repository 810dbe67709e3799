"""Small multiples: which run is drawn in which panel."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import polars as pl

from ..rundir import Run, RunDirectory

#: More panels than this and nobody reads them: the tables have all.
MAX_PANELS = 12
#: Panels beside each other; more would be too small to read.
COLUMNS = 3


@dataclass(frozen=True)
class Panel:
    """One panel: the repeats of one grid point."""

    title: str
    runs: list[Run]

    @property
    def run(self) -> Run:
        """The run that stands for the repeats where they cannot be merged."""
        return self.runs[0]


@dataclass(frozen=True)
class Grid:
    """Panels in rows."""

    rows: list[list[Panel]]
    left_out: int

    @property
    def panels(self) -> list[Panel]:
        """All panels, row by row."""
        return [panel for row in self.rows for panel in row]

    @property
    def width(self) -> int:
        """The most panels in one row."""
        return max((len(row) for row in self.rows), default=0)

    @property
    def note(self) -> str:
        """Says aloud what is not drawn, where a panel shows one run of each grid point."""
        shown = len(self.panels)
        notes = [repeats_note([panel.runs for panel in self.panels])]
        if self.left_out:
            total = shown + self.left_out
            notes.insert(0, f"{shown} of {total} grid points are drawn; the tables have all.")
        return " ".join(filter(None, notes))


def repeats_note(points: list[list[Run]]) -> str:
    """Says that the first of a point's runs stands for all, where there are several."""
    most = max(points, key=len, default=[])
    return f"Repeat {most[0].repeat} of {len(most)} is drawn." if len(most) > 1 else ""


def value_text(value: Any) -> str:
    """A parameter's value as a label: `{"d-choices": {"d": 10}}` reads `d-choices d=10`."""
    if isinstance(value, dict):
        return " ".join(
            f"{key} {value_text(inner)}" if isinstance(inner, dict) else f"{key}={inner}"
            for key, inner in value.items()
        )
    if isinstance(value, list):
        return ",".join(value_text(inner) for inner in value)
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def name_of(run: Run, axes: list[str], *, bare: bool = False) -> str:
    """The run's values on `axes`; an axis that does not explain itself is named, unless `bare`."""
    parts = []
    for axis in axes:
        value = run.params.get(axis)
        plain = isinstance(value, str | dict) and not str(value)[:1].isdigit()
        short = axis.rsplit(".", 1)[-1]
        text = run.names.get(axis) or value_text(value)
        parts.append(text if plain or bare else f"{short} {text}")
    return " · ".join(parts)


def column_axis(data: RunDirectory) -> str | None:
    """The axis across: workloads if they vary, else the first axis."""
    axes = list(data.axes)
    return "workload" if "workload" in axes else (axes[0] if axes else None)


def shorten(text: str, width: float) -> str:
    """`text` cut to about `width` px at the figures' font size."""
    most = _letters(width)
    return text if len(text) <= most else f"{text[: most - 1].rstrip(' ·.')}…"


def labels(groups: dict[str, list[Run]], axes: list[str], width: float) -> list[str]:
    """The names of `groups`, which are by `axes`, cut to about `width` px: those of axes go first
    where the cut ones cannot be told apart, then what is in the middle.
    """
    bare = [name_of(runs[0], axes, bare=True) for runs in groups.values()]
    for names, cut in ((list(groups), shorten), (bare, shorten), (bare, _shorten_middle)):
        short = [cut(name, width) for name in names]
        if len(set(short)) == len(short):
            return short
    return list(groups)


def _letters(width: float) -> int:
    """How many of them `width` px hold."""
    return max(8, int(width / 6.2))


def _shorten_middle(text: str, width: float) -> str:
    most = _letters(width)
    head, tail = most // 2, most - most // 2 - 1
    return text if len(text) <= most else f"{text[:head]}…{text[-tail:]}"


def points(runs: list[Run], axes: list[str]) -> dict[str, list[Run]]:
    """`runs` by their values on `axes`, in the order of the grid; repeats share a point."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(name_of(run, axes), []).append(run)
    return groups


def by_point(points: dict[str, list[Run]], table: pl.DataFrame) -> pl.DataFrame:
    """Which of `points` each run of `table` belongs to, by number: to be joined once instead of
    looking through the table for every point.
    """
    pairs = [(run.index, at) for at, runs in enumerate(points.values()) for run in runs]
    schema = {"run": table.schema["run"], "point": pl.UInt32()}
    return pl.DataFrame(pairs, schema=schema, orient="row")


def repeats(runs: list[Run]) -> list[list[Run]]:
    """`runs` by grid point, in the order of the grid: the repeats of each."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        params = {axis: value for axis, value in run.params.items() if axis != "repeat"}
        groups.setdefault(json.dumps(params, sort_keys=True), []).append(run)
    return list(groups.values())


def mean(runs: list[Run], name: str) -> float | None:
    """The metric `name` of a grid point, its repeats averaged as in the study's answer: undefined
    where it is so in one of them.
    """
    known = [value for run in runs if (value := run.metric(name)) is not None]
    return sum(known) / len(known) if known and len(known) == len(runs) else None


def means(runs: list[Run], name: str) -> list[tuple[Run, float]]:
    """The metric `name` of each grid point that defines it, with a run that stands for it."""
    points = [(members[0], mean(members, name)) for members in repeats(runs)]
    return [(run, value) for run, value in points if value is not None]


#: Requests that a percentile takes: ten must lie beyond it.
_REQUESTS_MIN = {"_p50": 20, "_p99": 1000}


def is_told(runs: list[Run], name: str) -> bool:
    """False for a percentile of too few requests in one of the runs that define it."""
    needed = next((most for end, most in _REQUESTS_MIN.items() if name.endswith(end)), 0)
    return all(_requests(run, name) >= needed for run in runs if run.metric(name) is not None)


def _requests(run: Run, name: str) -> float:
    """How many requests a response time is of."""
    kind = name.partition("latency")[0]
    rate, time = run.metric(f"{kind}iops"), run.metric("simulated_s")
    return math.inf if rate is None or time is None else round(rate * time)


def everywhere(runs: list[Run]) -> str:
    """Where a mean that is the same for every grid point is found."""
    return "at every grid point" if any(run.repeat for run in runs) else "in every run"


def grid(data: RunDirectory, runs: list[Run] | None = None) -> Grid:
    """One panel per grid point of `runs` (of all by default): a column per workload if it fits."""
    chosen = data.runs if runs is None else runs
    across = column_axis(data)
    down = [axis for axis in data.axes if axis != across]
    axes = [*down, across] if across else []
    panels = [Panel(title, members) for title, members in points(chosen, axes).items()]
    left_out = max(0, len(panels) - MAX_PANELS)
    panels = panels[:MAX_PANELS]
    lines: dict[str, list[Panel]] = {}
    for panel in panels:
        lines.setdefault(name_of(panel.run, down), []).append(panel)
    rows = list(lines.values())
    if any(len(row) > COLUMNS for row in rows) or len(rows) > 1 == max(map(len, rows)):
        rows = [panels[index : index + COLUMNS] for index in range(0, len(panels), COLUMNS)]
    return Grid(rows, left_out)
