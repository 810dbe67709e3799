"""Throughput over time: reads, writes and discards below each other, each upwards from an axis of
its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import altair as alt
import polars as pl

from .. import _numbers as numbers
from ..rundir import Run, RunDirectory
from . import Figure, _layout, _style

# Of a run's panel; reads and writes share it, and discards come on top.
HEIGHT = 108
_STRIP_MIN = HEIGHT // 2
#: The operations drawn where there are any.
_OPS = ("read", "write", "discard")
#: A unit that is busy for such a share of the time may be what holds the requests up.
_BUSY = 0.9
#: Intervals of a run, at most.
_BINS_MAX = 400


def draw(data: RunDirectory) -> Figure | None:
    """One panel per grid point; those of one workload share their scales."""
    table = _with_idle(_rates(data.table("series"), data.runs))
    if table.is_empty():
        return None
    grid = _layout.grid(data)
    columns = grid.width
    width = {1: 785, 2: 342, 3: 198}[columns]
    rows = [
        alt.hconcat(
            *(_panel(table, panel, _peers(grid, panel), width) for panel in row),
            spacing=24)
        for row in grid.rows
    ]
    return Figure(
        title=_finding(data),
        subtitle=f"MB/s (10⁶ bytes) completed in each of up to {_BINS_MAX} intervals; the "
        "numbers are means",
        svg=_style.svg(alt.vconcat(*rows, spacing=16), "throughput"),
        how="Reads, writes and discards have an axis each, all upwards. "
        "Panels of one workload share their scales. A device that falls behind the recorded "
        "arrivals shows lower, longer hills.",
        alt="Throughput over time by operation. " + _finding(data) + ".",
        data="series.parquet",
        note=grid.note,
    )


def _rates(table: pl.DataFrame, runs: Iterable[Run] = ()) -> pl.DataFrame:
    """MB/s per run, operation and bin that is not empty, and `step`, the bin's width."""
    times = {run.index: run.metric("simulated_s") for run in runs}
    steps = {
        int(index): step
        for index, starts in table.group_by("run").agg(pl.col("t_s").unique().sort()).iter_rows()
        if (step := _width(starts) or times.get(index))
    }
    columns = {"run": table.schema["run"], "step": pl.Float64()}
    widths = pl.DataFrame({"run": list(steps), "step": list(steps.values())}, schema=columns)
    return table.filter(pl.col("op").is_in(_OPS)).join(widths, on="run").with_columns(
        mb_s=pl.col("bytes") / pl.col("step") / 1e6).sort("run", "op", "t_s")


def _width(starts: list[float]) -> float | None:
    """The width of the bins that start then, whichever operation fills them; None of one bin
    alone, which has all that completed.

    All starts are multiples of it in whole nanoseconds. There may be no two bins beside each
    other, so that the smallest step would be too wide.
    """
    if len(starts) < 2:
        return None
    common = math.gcd(*(round(start * 1e9) for start in starts)) / 1e9
    smallest = min(after - before for before, after in zip(starts, starts[1:], strict=False))
    return common if starts[-1] < _BINS_MAX * common else smallest


def _with_idle(rates: pl.DataFrame) -> pl.DataFrame:
    """The rates with a zero behind each bin that no other one follows at once.

    Empty bins have no rows, and a step lasts until the next row: the zero ends it. One per gap
    does, however long the gap.
    """
    after = pl.col("t_s").shift(-1).over("run", "op") - pl.col("t_s")
    ends = rates.filter((after > 1.5 * pl.col("step")).fill_null(True)).with_columns(
        t_s=pl.col("t_s") + pl.col("step"), mb_s=pl.lit(0.0))
    return pl.concat([rates, ends]).sort("run", "op", "t_s")


def _peers(grid: _layout.Grid, panel: _layout.Panel) -> list[Run]:
    """The runs to be compared with the panel's: those of the same workload."""
    workload = panel.run.params.get("workload")
    runs = [other.run for other in grid.panels]
    return [run for run in runs if run.params.get("workload") == workload]


def _panel(
    table: pl.DataFrame, panel: _layout.Panel, peers: list[Run], width: int
) -> _style.Drawing:
    column = table.filter(pl.col("run").is_in([run.index for run in peers]))
    mine = table.filter(pl.col("run") == panel.run.index)
    ops = [op for op in _OPS if _most(column, op) > 0] or ["read"]
    end = float(column["t_s"].max() or 1.0)  # type: ignore[arg-type]
    strips = [
        _strip(mine.filter(pl.col("op") == op), op, _most(column, op), end,
               panel.run.metric(f"{op}_mb_s"), last=op == ops[-1])
        .properties(width=width, height=max(HEIGHT // len(ops), _STRIP_MIN))
        for op in ops
    ]
    strips[0] = strips[0].properties(title=_layout.shorten(panel.title, width + 60))
    return alt.vconcat(*strips, spacing=6)


def _strip(
    table: pl.DataFrame, op: str, high: float, end: float, mean: float | None, *, last: bool
) -> _style.Drawing:
    """One operation of one run; the last one has the time below it."""
    unit, scale = _style.time_unit(end)
    label = f"format(datum.value, '~g') + ' {unit}'"
    x = alt.X("t:Q", title="time" if last else None).scale(
        domain=[0, end / scale], nice=False).axis(
        grid=False, tickCount=4, labelExpr=label, labelFlush=True, labels=last, ticks=last)
    y = alt.Y("v:Q", title="MB/s").scale(domain=[0, high or 1.0], nice=True).axis(
        tickCount=2, labelExpr="format(datum.value, '~g')")
    colour = _style.OPS[op]
    rows: list[dict[str, Any]] = [
        {"t": round(t / scale, 4), "v": round(v, 4), "colour": colour}
        for t, v in table.select("t_s", "mb_s").iter_rows()
    ]
    words = [{"t": end / scale, "v": (high or 1.0) / 2, "colour": colour,
              "text": f"{op} {numbers.significant(mean, 2)}"}] if mean else []
    area = alt.Chart(_style.values(rows)).mark_area(
        interpolate="step-after", clip=True).encode(x=x, y=y.stack(None), color=_style.AS_IS)
    names = alt.Chart(_style.values(words)).mark_text(
        align="left", dx=5, baseline="middle", fontWeight=600).encode(
        x=x, y=y, text="text:N", color=_style.AS_IS)
    return alt.layer(area, names)


def _most(table: pl.DataFrame, op: str) -> float:
    top = table.filter(pl.col("op") == op)["mb_s"].max()
    return float(top) if isinstance(top, float) else 0.0


def _is_by_its_times(data: RunDirectory) -> bool:
    """Whether requests come when a trace says, however long the device takes."""
    if "workload.trace.replay" in data.axes:
        return False
    study = data.study
    workloads = [study["workload"]] if "workload" in study else [
        *(study.get("workloads") or {}).values()]
    replays = [workload.get("trace", {"replay": None}).get("replay", "timestamps")
               for workload in workloads]
    return bool(replays) and all(
        replay == "timestamps" or isinstance(replay, dict) and "timestamps" in replay
        for replay in replays)


def _is_busy(run: Run) -> bool:
    """Whether some unit of the device had next to nothing to spare."""
    busiest = run.metric("utilisation_max")
    return busiest is not None and busiest >= _BUSY


def _finding(data: RunDirectory) -> str:
    name, word = "throughput_mb_s", "Mean throughput"
    rates = [pair for pair in _layout.means(data.runs, name) if pair[1]]
    if not rates:
        name, word = "discard_mb_s", "Mean throughput of discards"
        rates = [pair for pair in _layout.means(data.runs, name) if pair[1]]
    if not rates:
        return "Throughput over time"
    axes = list(data.axes)
    best, worst = (chosen(rates, key=lambda pair: pair[1]) for chosen in (max, min))
    if len(rates) == 1:
        return f"{word} {numbers.metric(name, best[1])}"
    if worst[1] > 0.97 * best[1] and "device" not in axes:
        where = _layout.everywhere(data.runs)
        return f"{word} {numbers.metric(name, best[1])} {where}"
    by_column: dict[str, list[float]] = {}
    for run, rate in rates:
        rest = [axis for axis in axes if axis != "device"]
        by_column.setdefault(_layout.name_of(run, rest), []).append(rate)
    # What one device lacks says nothing of how they compare.
    devices = len(data.axes.get("device", []))
    both = [found for found in by_column.values() if len(found) == devices]
    if "device" in axes and both and all(max(found) < 1.03 * min(found) for found in both):
        if _is_by_its_times(data) and not any(_is_busy(run) for run, _ in rates):
            return "Every device keeps up: the throughput is the workload's, not the device's"
        return f"{word}: the devices are within 3 % of each other"
    return (f"{word} runs from {numbers.metric(name, worst[1])} "
            f"({_layout.name_of(worst[0], axes)}) to {numbers.metric(name, best[1])} "
            f"({_layout.name_of(best[0], axes)})")
