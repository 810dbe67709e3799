"""A run directory: the files one run wrote, read lazily, and nothing else."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass, fields
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import polars as pl

from . import _names
from .errors import StudyError, path_of

#: The columns that the plots rely on, per table.
COLUMNS: dict[str, dict[str, pl.DataType]] = {
    "latency": {
        "run": pl.UInt32(), "op": pl.String(), "latency_ns": pl.Int64(), "count": pl.Int64(),
    },
    "series": {
        "run": pl.UInt32(), "t_s": pl.Float64(), "op": pl.String(), "requests": pl.Int64(),
        "bytes": pl.Int64(),
    },
    "heatmap": {
        "run": pl.UInt32(), "t_s": pl.Float64(), "latency_us": pl.Float64(), "count": pl.Int64(),
    },
    "units": {
        "run": pl.UInt32(), "unit": pl.String(), "t_s": pl.Float64(), "what": pl.String(),
        "busy": pl.Float64(),
    },
    "wear": {
        "run": pl.UInt32(), "unit": pl.String(), "erases": pl.Int64(), "blocks": pl.Int64(),
    },
    "counters": {
        "run": pl.UInt32(), "t_s": pl.Float64(), "name": pl.String(), "value": pl.Int64(),
    },
}

_REQUIRED = ("study", "digest", "runs")


@dataclass(frozen=True)
class Run:
    """One run of the grid."""

    index: int
    label: str
    params: dict[str, Any]
    metrics: dict[str, float | None]
    device: dict[str, Any]
    workload: str
    notes: list[str]
    gate: dict[str, Any] | None
    #: Why it came to nothing, if it did: its metrics are undefined.
    failed: str | None
    seed: int | None
    #: Short names of the values in `params` that have one.
    names: dict[str, str]

    def metric(self, name: str) -> float | None:
        """The metric `name`, or None where it is undefined."""
        return self.metrics.get(name)

    @property
    def repeat(self) -> int:
        """Which repeat of its grid point this is, from 0."""
        return int(self.params.get("repeat", 0))


@dataclass(frozen=True)
class Dot:
    """One point of the grid in a figure of the study's own, repeats averaged."""

    params: dict[str, Any]
    #: The value on the axis across, or of the metric.
    x: Any
    y: float | None
    #: No point of its panel beats it in both directions.
    front: bool


@dataclass(frozen=True)
class Drawing:
    """A figure of the study's own: numbers that only need to be drawn."""

    name: str
    title: str
    #: `lines`, `bars` or `points`.
    kind: str
    #: The axis or metric across, and which of them it is.
    x: str
    x_is_axis: bool
    #: The metric, and whether it is divided by that of another point.
    y: str
    relative: bool
    #: The axes whose values tell the series apart, and the one with a panel per value.
    series: list[str]
    panels: str | None
    x_label: str
    y_label: str
    x_log: bool
    y_log: bool
    #: `high-left`, `low-left` or None.
    front: str | None
    points: list[Dot]
    #: What was measured elsewhere, as pairs of what is across and up.
    measured: list[tuple[float, float]]


class RunDirectory:
    """Reads `path`; raises StudyError, once and clearly, if a run did not write it."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path_of(path, "the directory"))
        self.result = read_result(self.path)

    @cached_property
    def runs(self) -> list[Run]:
        """The runs, in the order of the grid."""
        try:
            return [_run(index, run, self.names)
                    for index, run in enumerate(self.result["runs"])]
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _broken(self.path / "result.json", f"a run is incomplete ({error})") from error

    @cached_property
    def axes(self) -> dict[str, list[Any]]:
        """The axes that vary, with their values in the order of the grid; repeats are no axis."""
        values: dict[str, list[Any]] = {}
        for run in self.runs:
            for axis, value in run.params.items():
                seen = values.setdefault(axis, [])
                if value not in seen:
                    seen.append(value)
        return {axis: seen for axis, seen in values.items() if axis != "repeat" and len(seen) > 1}

    @cached_property
    def names(self) -> dict[str, dict[str, str]]:
        """Axis -> label of a value -> as few words as tell it from the axis's others."""
        labels: dict[str, list[str]] = {}
        for run in self.result["runs"]:
            for axis, value in run["params"].items():
                if isinstance(value, str):
                    labels.setdefault(axis, []).append(value)
        return {axis: _names.short(values) for axis, values in labels.items()}

    @cached_property
    def drawings(self) -> dict[str, Drawing]:
        """The study's own figures by name."""
        try:
            return {str(one["name"]): _drawing(one) for one in self.result.get("figures") or []}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            file = self.path / "result.json"
            raise _broken(file, f"a figure is incomplete ({error})") from error

    @cached_property
    def study(self) -> dict[str, Any]:
        """The resolved study document, empty when the run wrote none."""
        try:
            return tomllib.loads((self.path / "study.toml").read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise _broken(self.path / "study.toml", str(error)) from error

    def table(self, name: str) -> pl.DataFrame:
        """The table `name`; empty, with its columns, when the run wrote none."""
        columns = COLUMNS[name]
        file = self.path / f"{name}.parquet"
        if not file.exists():
            return pl.DataFrame(schema=columns)
        try:
            return pl.read_parquet(file, columns=list(columns)).cast(pl.Schema(columns))
        except (OSError, pl.exceptions.PolarsError) as error:
            raise _broken(file, str(error).splitlines()[0]) from error

    @property
    def files(self) -> list[Path]:
        """The data files beside the report, by name."""
        kinds = {".json", ".parquet", ".toml", ".pftrace"}
        return sorted(file for file in self.path.iterdir() if file.suffix in kinds)


def read_result(path: Path) -> dict[str, Any]:
    """`result.json` of a run directory; raises StudyError if no run finished there."""
    file = path / "result.json"
    if path.is_file():
        raise StudyError(
            f"error: {path} is a file\n  = expected: the folder of a run, such as {path.parent}",
            file=str(path),
        )
    if not path.is_dir():
        raise StudyError(
            f"error: {path} is not a run directory\n  = help: `blocklab run STUDY --out {path}`",
            file=str(path),
        )
    try:
        result = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise StudyError(
            f"error: {path} holds no result.json, so no run finished here\n"
            f"  = help: `blocklab run STUDY --out {path}`",
            file=str(file),
        ) from None
    except json.JSONDecodeError as error:
        raise StudyError(
            f"error: {error.msg}\n  --> {file}:{error.lineno}:{error.colno}\n"
            "  = expected: the JSON object that `blocklab run` writes\n"
            f"  = help: move the folder away, then `blocklab run STUDY --out {path}`",
            file=str(file), line=error.lineno, column=error.colno,
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise _broken(file, str(error)) from error
    missing = [key for key in _REQUIRED if not isinstance(result, dict) or key not in result]
    if missing or not isinstance(result["runs"], list) or not result["runs"]:
        raise _broken(file, f"no {missing[0] if missing else 'runs'}")
    return dict(result)


def _broken(file: Path, what: str) -> StudyError:
    return StudyError(
        f"error: {what}\n  --> {file}\n  = expected: a file as `blocklab run` writes it\n"
        f"  = help: move the folder away, then `blocklab run STUDY --out {file.parent}`",
        file=str(file),
    )


def _drawing(document: dict[str, Any]) -> Drawing:
    points = [
        Dot(dict(point["params"]), point["x"],
            None if point["y"] is None else float(point["y"]), bool(point["front"]))
        for point in document["points"]
    ]
    for axis in [*document["series"], *([document["panels"]] if document["panels"] else [])]:
        if any(axis not in point.params for point in points):
            raise KeyError(axis)
    measured = [(float(x), float(y)) for x, y in document.get("measured", [])]
    return Drawing(**{field.name: document[field.name] for field in fields(Drawing)
                      if field.name not in ("points", "measured")},
                   points=points, measured=measured)


def _numbers(metrics: dict[str, Any]) -> dict[str, float | None]:
    for name, value in metrics.items():
        if value is not None and type(value) not in (int, float):
            raise ValueError(f"{name} is {value!r}")
    return dict(metrics)


def _run(index: int, run: dict[str, Any], names: dict[str, dict[str, str]]) -> Run:
    return Run(
        index=index,
        label=str(run.get("label") or f"run {index}"),
        params=dict(run["params"]),
        metrics=_numbers(run["metrics"]),
        device=dict(run.get("device") or {}),
        workload=str(run.get("workload") or ""),
        notes=[str(note) for note in run.get("notes") or []],
        gate=run.get("gate"),
        failed=run.get("failed"),
        seed=run.get("seed"),
        names={
            axis: names[axis][value] for axis, value in run["params"].items()
            if isinstance(value, str)
        },
    )
