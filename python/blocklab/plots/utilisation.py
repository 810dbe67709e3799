"""Utilisation of dies, channels or the arm: which part of the device is the bottleneck, when."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from .. import _numbers as numbers
from ..rundir import RunDirectory
from . import Figure, _frame, _layout

_WIDTH, _LEFT, _GAP = 936.0, 62.0, 20.0
_TITLE, _BOTTOM = 24.0, 32.0
_CHANNEL = re.compile(r"channel(\d+)(?:\.die(\d+))?$")
#: A map taller than this is no map any more; rows become thinner instead.
_TALLEST, _TALLEST_OF_MANY = 260.0, 110.0


@dataclass(frozen=True)
class _Row:
    group: str
    name: str
    busy: dict[float, float]


def draw(data: RunDirectory) -> Figure | None:
    """One panel per grid point: a row per die under its channel, or per kind of arm movement."""
    table = data.table("units")
    if table.is_empty():
        return None
    grid = _layout.grid(data)
    canvas = _frame.Canvas(_WIDTH)
    _frame.scale_key(canvas, _WIDTH, 10, "0 %", "100 % busy")
    canvas.text(0, 14, _rows_in_words(table))
    width = (_WIDTH - _LEFT * grid.width - _GAP * (grid.width - 1)) / grid.width
    most = _TALLEST if len(grid.rows) <= 2 else _TALLEST_OF_MANY
    y = 20.0
    for line in grid.rows:
        tallest = 0.0
        for column, panel in enumerate(line):
            x = _LEFT + column * (width + _GAP + _LEFT)
            title = _layout.shorten(panel.title, width)
            canvas.text(x, y + _TITLE - 7, title, fill="ink", weight=600)
            mine = table.filter(pl.col("run") == panel.run.index)
            if mine.is_empty():
                canvas.text(x, y + _TITLE + 12, "this device reports no units")
                continue
            time = panel.run.metric("simulated_s")
            tallest = max(tallest, _panel(canvas, (x, y + _TITLE), width, most, mine, time))
        y += _TITLE + max(tallest, 16.0) + _BOTTOM
    finding = _finding(data, table)
    return Figure(
        title=finding,
        subtitle="Busy share of each unit in each interval: dies (read, program and erase "
        "together) under their channel (transfer), or the disk's arm by what it does",
        svg=canvas.svg(y),
        how="A strong row is a busy unit. All rows of a device strong at once: the device is "
        "saturated. One strong row among faint ones: the data or the allocation are uneven.",
        alt="Heat rows of busy share per unit over time. " + finding + ".",
        data="units.parquet",
        note=grid.note,
    )


def _panel(
    canvas: _frame.Canvas, at: tuple[float, float], width: float, most: float, mine: pl.DataFrame,
    time: float | None,
) -> float:
    """Draw one device's rows, at most `most` high, of a run of so much `time` in seconds; returns
    the height they took.
    """
    x, y = at
    rows = _rows(mine)
    times = sorted(set(mine["t_s"].to_list()))
    groups = list(dict.fromkeys(row.group for row in rows))
    gaps = 5.0 * (len(groups) - 1)
    height = max(2.0, min(14.0, (most - gaps) / len(rows)))
    top = y
    for group in groups:
        members = [row for row in rows if row.group == group]
        block = height * len(members)
        cells = [[row.busy.get(t, 0.0) for t in times] for row in members]
        canvas.cells(x, top, width, block, cells)
        if height >= 10 and len(members) == 1 or not group:
            for index, row in enumerate(members):
                canvas.text(x - 6, top + height * (index + 0.5) + 4, row.name, anchor="end")
        elif block >= 10:
            canvas.text(x - 6, top + block / 2 + 4, group, anchor="end")
        canvas.line(x, top + block + 1, x + width, top + block + 1)
        top += block + 5.0
    # One bin is as wide as was expected of the run, however short it was.
    end = times[-1] + times[1] - times[0] if len(times) > 1 else time or 1.0
    _frame.time_axis(canvas, x, top - 4, width, end)
    return top - y


def _rows(mine: pl.DataFrame) -> list[_Row]:
    """Channels in order, each channel's bus above its dies; other units one row per kind."""
    mine = mine.with_columns(pl.col("unit").str.slice(len(_outside(mine["unit"].unique()))))
    flash = all(_CHANNEL.match(unit) for unit in mine["unit"].unique())
    keys = ["unit"] if flash else ["unit", "what"]
    sums = mine.group_by([*keys, "t_s"]).agg(pl.col("busy").sum())
    rows: dict[tuple[str, ...], dict[float, float]] = {}
    for record in sums.iter_rows():
        rows.setdefault(record[: len(keys)], {})[record[-2]] = record[-1]
    if flash:
        return [
            _Row(f"channel {channel}", "bus" if die < 0 else f"die {die}", rows[key])
            for channel, die, key in sorted((*_place(key[0]), key) for key in rows)
        ]
    order = {what: index for index, what in enumerate(mine["what"].unique(maintain_order=True))}
    several = len({key[0] for key in rows}) > 1
    return [
        _Row(key[0] if several else "", key[1], rows[key])
        for key in sorted(rows, key=lambda key: (key[0], order[key[1]]))
    ]


def _rows_in_words(table: pl.DataFrame) -> str:
    """What the rows are, for who sees the picture alone."""
    words = "busy share of each unit over time"
    for mine in table.partition_by("run"):
        rows = _rows(mine)
        die = next((row for row in rows if row.name.startswith("die ")), None)
        if die and any(row.group == die.group and row.name == "bus" for row in rows):
            return f"{words}; the top row of a channel is its bus, those below are its dies"
    return words


def _outside(units: Iterable[str]) -> str:
    """What stands before the names of all units of a device in a device, such as `device.` of an
    SSD behind an elevator."""
    names, outside = list(units), ""
    while True:
        words = {name.partition(".")[:2] for name in names}
        [(word, dot), *others] = words
        if others or not dot or _CHANNEL.match(word):
            return outside
        outside += word + dot
        names = [name.removeprefix(word + dot) for name in names]


def _place(unit: str) -> tuple[int, int]:
    match = _CHANNEL.match(unit)
    channel, die = match.groups() if match else ("0", None)
    return int(channel or 0), -1 if die is None else int(die)


def _finding(data: RunDirectory, table: pl.DataFrame) -> str:
    """The busiest unit on average over time and repeats, per device."""
    first = {run.index: runs[0].index for runs in _layout.repeats(data.runs) for run in runs}
    mean = (
        table.group_by("run", "unit", "t_s").agg(pl.col("busy").sum())
        .join(_lengths(data, table), on=["run", "t_s"])
        .group_by("run", "unit").agg((pl.col("busy") * pl.col("length")).sum()
                                     / pl.col("length").sum())
        .with_columns(pl.col("run").replace(first))
        .group_by("run", "unit").agg(pl.col("busy").mean())
        .sort(["busy", "run", "unit"], descending=[True, False, False])
    )
    axes = ["device"] if "device" in data.axes else list(data.axes)
    parts = []
    points = _layout.points(data.runs, axes)
    tops = mean.join(_layout.by_point(points, mean), on="run", maintain_order="left").group_by(
        "point", maintain_order=True).first().sort("point")
    names = list(points)
    for point, unit, busy in tops.select("point", "unit", "busy").iter_rows():
        where = f"{names[point]}, {_spoken(unit)}" if axes else _spoken(unit)
        parts.append((busy, f"{where} ({numbers.percent(busy)})"))
    if not parts:
        return "Busy share per unit"
    shown = [text for _, text in parts] if len(parts) <= 3 else [max(parts)[1]]
    return f"Busiest on average: {'; '.join(shown)}"


def _lengths(data: RunDirectory, table: pl.DataFrame) -> pl.DataFrame:
    """How long each bin of a run is, in seconds: the last one ends with the run."""
    indexes = [run.index for run in data.runs]
    # A run that took no time has a whole number there.
    seconds = [run.metric("simulated_s") for run in data.runs]
    ends = pl.Series(seconds, dtype=pl.Float64, strict=False)
    end = pl.col("run").replace_strict(indexes, ends, default=None)
    starts = table.select("run", "t_s").unique().sort("run", "t_s")
    last = pl.when(end > pl.col("t_s")).then(end - pl.col("t_s")).otherwise(1e-9)
    length = (pl.col("t_s").shift(-1) - pl.col("t_s")).over("run")
    return starts.with_columns(length=pl.coalesce(length, last))


def _spoken(unit: str) -> str:
    return re.sub(r"([a-z])(\d)", r"\1 \2", unit).replace(".", " ")
