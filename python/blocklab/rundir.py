"""A run directory: the files one run wrote, read lazily, and nothing else."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import polars as pl

from .errors import StudyError

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
    seed: int | None

    def metric(self, name: str) -> float | None:
        """The metric `name`, or None where it is undefined."""
        return self.metrics.get(name)

    @property
    def repeat(self) -> int:
        """Which repeat of its grid point this is, from 0."""
        return int(self.params.get("repeat", 0))


class RunDirectory:
    """Reads `path`; raises StudyError, once and clearly, if a run did not write it."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        self.result = _read_result(self.path)

    @cached_property
    def runs(self) -> list[Run]:
        """The runs, in the order of the grid."""
        try:
            return [_run(index, run) for index, run in enumerate(self.result["runs"])]
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


def _read_result(path: Path) -> dict[str, Any]:
    file = path / "result.json"
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
            f"  = help: run the study again: `blocklab run STUDY --out {path}`",
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
        f"  = help: run the study again: `blocklab run STUDY --out {file.parent}`",
        file=str(file),
    )


def _run(index: int, run: dict[str, Any]) -> Run:
    return Run(
        index=index,
        label=str(run.get("label") or f"run {index}"),
        params=dict(run["params"]),
        metrics=dict(run["metrics"]),
        device=dict(run.get("device") or {}),
        workload=str(run.get("workload") or ""),
        notes=[str(note) for note in run.get("notes") or []],
        gate=run.get("gate"),
        seed=run.get("seed"),
    )
