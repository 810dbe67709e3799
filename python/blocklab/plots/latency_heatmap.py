"""Latency heat map: the modes that percentile curves hide."""

from __future__ import annotations

import math

import polars as pl

from .. import _numbers as numbers
from ..rundir import Run, RunDirectory
from . import Figure, _frame, _layout, _style

PANEL_HEIGHT = 132.0
_LEFT, _GAP, _TOP, _BOTTOM = 48.0, 20.0, 24.0, 34.0
_WIDTH = 936.0


def draw(data: RunDirectory) -> Figure | None:
    """One panel per grid point: time across, latency upwards, colour for the count."""
    table = data.table("heatmap").filter((pl.col("count") > 0) & (pl.col("latency_us") > 0))
    if table.is_empty():
        return None
    table = table.with_columns(
        level=(4 * pl.col("latency_us").log(2)).round().cast(pl.Int64))
    grid = _layout.grid(data)
    low, high = _bounds(table["level"].to_list())
    most = max(table["count"].to_list())
    canvas = _frame.Canvas(_WIDTH)
    _frame.scale_key(canvas, _WIDTH, 10, "1", f"{numbers.count(most)} requests per cell")
    width = (_WIDTH - _LEFT - _GAP * (grid.width - 1)) / grid.width
    y = 20.0
    for row in grid.rows:
        for column, panel in enumerate(row):
            x = _LEFT + column * (width + _GAP)
            peers = [r[column].run.index for r in grid.rows if column < len(r)]
            end = _end(table.filter(pl.col("run").is_in(peers)), data.runs)
            mine = table.filter(pl.col("run") == panel.run.index)
            title = _layout.shorten(panel.title, width)
            canvas.text(x, y + _TOP - 7, title, fill="ink", weight=600)
            _latency_axis(canvas, x, y + _TOP, width, low, high, column == 0)
            if not mine.is_empty():
                time = panel.run.metric("simulated_s") or end
                _cells(canvas, x, y + _TOP, width, mine, (low, high), (end, time), most)
            _frame.time_axis(canvas, x, y + _TOP + PANEL_HEIGHT, width, end)
        y += _TOP + PANEL_HEIGHT + _BOTTOM
    finding = _finding(data, table, grid)
    return Figure(
        title=finding,
        subtitle="Latency (log scale) of the requests completed in each interval; colour: how "
        "many, on a log scale",
        svg=canvas.svg(y),
        how="Each column of cells is the latency distribution of one moment. Level bands are "
        "modes: cache hits, media reads, mechanical positioning. Bands that appear later are "
        "background work starting, such as garbage collection.",
        alt="Heat map of request latency over time. " + finding + ".",
        data="heatmap.parquet",
        note=grid.note,
    )


def _bounds(levels: list[int]) -> tuple[int, int]:
    """The levels shown: everything, and at least a factor of 100."""
    low, high = min(levels) - 1, max(levels) + 2
    missing = max(0, 27 - (high - low))
    return low - missing // 2, high + missing - missing // 2


def _end(table: pl.DataFrame, runs: list[Run]) -> float:
    """The end of the time axis: the last bin's end."""
    starts: list[float] = sorted(set(table["t_s"].to_list()))
    if len(starts) > 1:
        return starts[-1] + _step(starts)
    # One bin is as wide as was expected of the run, however short it was.
    index = set(table["run"].to_list())
    times = [run.metric("simulated_s") or 0.0 for run in runs if run.index in index]
    return max(times, default=0.0) or 1.0


def _step(starts: list[float]) -> float:
    """The width of a bin, of those of several."""
    return min(after - start for start, after in zip(starts, starts[1:], strict=False))


def _cells(
    canvas: _frame.Canvas, x: float, y: float, width: float, mine: pl.DataFrame,
    bounds: tuple[int, int], times: tuple[float, float], most: int,
) -> None:
    """Draw a run's cells; `times` are the end of the axis and that of the run."""
    (low, high), (end, time) = bounds, times
    starts = sorted(set(mine["t_s"].to_list()))
    step = _step(starts) if len(starts) > 1 else time
    columns = max(1, min(400, round(end / step)))
    rows = [[0.0] * columns for _ in range(high - low)]
    full = math.log1p(most)
    for t_s, level, count in mine.select("t_s", "level", "count").iter_rows():
        column = min(columns - 1, int(t_s / end * columns + 1e-6))
        rows[high - 1 - level][column] = max(math.log1p(count) / full,
                                             rows[high - 1 - level][column])
    canvas.cells(x, y, width, PANEL_HEIGHT, rows)


def _latency_axis(
    canvas: _frame.Canvas, x: float, y: float, width: float, low: int, high: int, labels: bool
) -> None:
    first, last = 2.0 ** (low / 4), 2.0 ** (high / 4)
    for tick in _style.decades(first, last):
        share = (4 * math.log2(tick) - low) / (high - low)
        if 0 <= share <= 1:
            at = y + PANEL_HEIGHT * (1 - share)
            canvas.line(x, at, x + width, at)
            if labels:
                canvas.text(x - 6, at + 4, numbers.tick(tick), anchor="end")


def _finding(data: RunDirectory, table: pl.DataFrame, grid: _layout.Grid) -> str:
    """Where the most requests sit, per device or for the one run."""
    modes: dict[str, tuple[int, float]] = {}
    axes = ["device"] if "device" in data.axes else list(data.axes)
    points = _layout.points(data.runs, axes)
    most = (
        table.join(_layout.by_point(points, table), on="run")
        .group_by("point", "level").agg(pl.col("count").sum())
        .sort(["point", "count", "level"], descending=[False, True, True])
        .group_by("point", maintain_order=True).first())
    names = list(points)
    for point, level, count in most.select("point", "level", "count").iter_rows():
        modes[names[point]] = (count, 2.0 ** ((level + 0.5) / 4))
    if not modes:
        return "Latency over time"
    if len(modes) == 1:
        return f"The commonest latency is about {_about(next(iter(modes.values()))[1])}"
    if len({mode for _, mode in modes.values()}) == 1:
        where = _layout.everywhere(data.runs)
        return f"The commonest latency is about {_about(max(modes.values())[1])} {where}"
    if len(modes) <= 3:
        parts = [f"{_about(mode)} on {name}" for name, (_, mode) in modes.items()]
        return f"The commonest latency: {', '.join(parts)}"
    low, high = (chosen(mode for _, mode in modes.values()) for chosen in (min, max))
    return f"The commonest latency runs from {_about(low)} to {_about(high)}"


def _about(micros: float) -> str:
    """Two digits: a cell is a fifth of its latency high."""
    return numbers.micros(micros, 2)
