"""Percentile curves on a nines axis: the main latency figure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import altair as alt
import polars as pl

from .. import _numbers as numbers
from ..rundir import Run, RunDirectory
from . import Figure, _layout, _style

#: Lines in one panel; more cannot be told apart at the line.
MAX_LINES = 6
HEIGHT = 210
#: The operations drawn where there are any; flushes are in the table.
_OPS = ("read", "write", "discard")
_DASHES: list[list[int]] = [[1, 0], [6, 3], [2, 2]]
_NINES = "format(100 * (1 - pow(10, -datum.value)), '.9~g')"
#: The curve starts at this many nines (3 %): the very fastest request says little.
_START = 0.013


@dataclass
class _Line:
    label: str
    colour: str
    dash: list[int]
    points: list[tuple[float, float]]  # (nines, latency in µs)


def draw(data: RunDirectory) -> Figure | None:
    """One panel per workload, one line per device (or other grid point) and operation."""
    table = data.table("latency").filter((pl.col("count") > 0) & pl.col("op").is_in(_OPS))
    if table.is_empty():
        return None
    across = _across(data)
    rest = [axis for axis in data.axes if axis != across]
    parts = _layout.points(data.runs, [across] if across else [])
    groups = {title: _layout.points(runs, rest) for title, runs in parts.items()}
    left_out = sum(max(0, len(lines) - MAX_LINES) for lines in groups.values())
    measured = set(table.select("run", "op").unique().iter_rows())
    if all(len(lines) <= len(_DASHES) for lines in groups.values()):
        ops: list[str | None] = [None]
    else:  # too many lines to tell operations apart by colour: a row of panels for each
        ops = [op for op in _OPS if op in table["op"]]
    panels = [
        (op, title, lines) for op, (title, lines) in product(ops, groups.items())
        if any((run.index, known) in measured for runs in list(lines.values())[:MAX_LINES]
               for run in runs for known in ([op] if op else _OPS))]
    shown = []
    for op, title, lines in panels[: _layout.MAX_PANELS]:
        words = (title if across else "", f"{op}s" if op and len(ops) > 1 else "")
        drawn = _lines(table, lines, op, rest)
        shown.append((" · ".join(filter(None, words)), drawn))
    notes = [f"{left_out} grid points are in the tables only."] if left_out else []
    if len(shown) < len(panels):
        notes.append(f"{len(shown)} of {len(panels)} panels are drawn; the tables have all.")
    columns = len(groups) if 1 < len(groups) <= _layout.COLUMNS else _layout.COLUMNS
    return Figure(
        title=_finding(data),
        subtitle="Latency of a request (log scale) at each percentile in %; every further nine "
        "takes the same width",
        svg=_style.svg(_chart(shown, columns), "percentiles"),
        how="Read upwards from 99 %: one request in a hundred is slower than the line there. "
        "The curve ends where the sample does, at one request. A step means two kinds of "
        "requests, such as hits and misses.",
        alt="Percentile curves: latency against percentile. " + _finding(data) + ".",
        data="latency.parquet",
        note=" ".join(notes),
    )


def _across(data: RunDirectory) -> str | None:
    """The axis with a panel per value: workloads, or the first when one panel would not do."""
    if "workload" in data.axes:
        return "workload"
    points = _layout.points(data.runs, list(data.axes))
    return next(iter(data.axes)) if len(points) > MAX_LINES else None


def _lines(
    table: pl.DataFrame, groups: dict[str, list[Run]], only: str | None, axes: list[str]
) -> list[_Line]:
    """The lines of one panel: of one operation, or of all, told apart by colour."""
    lines = []
    groups = dict(list(groups.items())[:MAX_LINES])
    names = _layout.labels(groups, axes, 150) if axes else [""] * len(groups)
    for index, (name, runs) in enumerate(zip(names, groups.values(), strict=True)):
        mine = table.filter(pl.col("run").is_in([run.index for run in runs]))
        for op in [only] if only else [op for op in _OPS if op in mine["op"]]:
            counts = mine.filter(pl.col("op") == op).group_by("latency_ns").agg(
                pl.col("count").sum()).sort("latency_ns")
            label = name if only else " ".join(filter(None, (name, op)))
            colour = _style.CATEGORIES[index] if only else _style.OPS[op]
            dash = _DASHES[0] if only else _DASHES[index]
            if not counts.is_empty():
                lines.append(_Line(label, colour, dash, _curve(counts)))
    return lines


def _curve(counts: pl.DataFrame) -> list[tuple[float, float]]:
    """(nines, µs) from a histogram, thinned to what a panel's width can show.

    All requests of a bucket have its latency: the line goes up where the bucket begins, and is
    level to its end.
    """
    total = int(counts["count"].sum())
    points: list[tuple[float, float]] = []
    below = 0
    for latency_ns, count in counts.iter_rows():
        below += count
        micros = max(latency_ns, 1) / 1000
        end = math.log10(total) if below == total else -math.log10(1 - below / total)
        before = points[-1][0] if points else 0.0
        if end - before < _START and below < total:
            continue
        if not points:
            points.append((_START, micros))
        elif micros != points[-1][1]:
            points.append((before, micros))
        points.append((end, micros))
    return points


def _chart(panels: list[tuple[str, list[_Line]]], columns: int) -> _style.Drawing:
    curves = [line.points for _, lines in panels for line in lines]
    micros = [point[1] for points in curves for point in points]
    ticks = _style.decades(min(micros), max(micros))
    nines = max(points[-1][0] for points in curves)
    columns = min(len(panels), columns)
    width = {1: 780, 2: 345, 3: 216}[columns]
    charts = [
        _panel(title, lines, width, ticks, nines, index % columns == 0,
               last=index + columns >= len(panels))
        for index, (title, lines) in enumerate(panels)
    ]
    rows = [
        alt.hconcat(*charts[index : index + columns], spacing=16)
        for index in range(0, len(charts), columns)
    ]
    return alt.vconcat(*rows, spacing=20)


def _panel(
    title: str, lines: list[_Line], width: int, ticks: list[float], nines: float, first: bool,
    *, last: bool,
) -> _style.Drawing:
    """One panel; the `first` of a row and the `last` of a column say what the axes are."""
    x_ticks = [math.log10(2), *(float(n) for n in range(1, math.floor(nines) + 1))]
    x = alt.X("x:Q", title="percentile, in %" if last else None).scale(
        domain=[0, nines], nice=False).axis(
        values=x_ticks, labelExpr=_NINES, grid=True, labelOverlap="greedy", labelFontSize=10)
    room = (ticks[-1] / ticks[0]) ** (7 / HEIGHT)  # for the upper half of the top label
    y = alt.Y("y:Q", title="latency (log scale)" if first else None).scale(
        type="log", domain=[ticks[0], ticks[-1] * room], nice=False).axis(
        values=ticks, labelExpr=_style.MICROS_EXPR, labels=first)
    rows = [
        {"x": round(nine, 3), "y": round(micros, 3), "colour": line.colour, "dash": line.dash,
         "line": index}
        for index, line in enumerate(lines) for nine, micros in line.points
    ]
    curves = alt.Chart(_style.values(rows)).mark_line(strokeWidth=1.8, clip=True).encode(
        x=x, y=y, color=_style.AS_IS, detail="line:N",
        strokeDash=alt.StrokeDash("dash:N").scale(None))
    labels = _labels(lines, ticks, nines).encode(x=x, y=y)
    title = _layout.shorten(title, width + 60)
    return alt.layer(curves, labels).properties(width=width, height=HEIGHT, title=title)


def _labels(lines: list[_Line], ticks: list[float], nines: float) -> _style.Drawing:
    """Names at the lines' ends, moved apart where the lines meet."""
    low, high = math.log10(ticks[0]), math.log10(ticks[-1])
    gap = 13 * (high - low) / HEIGHT
    heights = _style.spread(
        [math.log10(line.points[-1][1]) for line in lines], gap, low + gap / 2, high - gap / 2)
    rows = [
        {"x": nines, "y": 10**height, "label": line.label, "colour": line.colour}
        for line, height in zip(lines, heights, strict=True)
    ]
    return alt.Chart(_style.values(rows)).mark_text(
        align="left", baseline="middle", dx=5, fontWeight=600).encode(
        text="label:N", color=_style.AS_IS)


def _finding(data: RunDirectory) -> str:
    """The headline: how far apart the first axis's values are, or the shape of the one curve."""
    name, word = _told(data)
    pairs = _layout.means(data.runs, name) if name else []
    if not pairs:
        return "Latency by percentile"
    if len(pairs) == 1 and name.endswith("_p50"):
        return f"{word[:1].upper()}{word[1:]} {numbers.micros(pairs[0][1])}"
    if len(pairs) == 1:
        run, value = pairs[0]
        [members] = [runs for runs in _layout.repeats(data.runs) if runs[0] is run]
        median = _layout.mean(members, name.replace("p99", "p50"))
        start = f"Median {numbers.micros(median)}, " if median is not None else ""
        return f"{start}{word} {numbers.micros(value)}"
    axes = list(data.axes)
    best, worst = (chosen(pairs, key=lambda pair: pair[1]) for chosen in (min, max))
    if numbers.micros(best[1]) == numbers.micros(worst[1]):
        where = _layout.everywhere(data.runs)
        return f"{word[:1].upper()}{word[1:]}: {numbers.micros(best[1])} {where}"
    devices = data.axes.get("device", [])
    if len(devices) == 2:
        return _two(pairs, devices, word)
    return (f"{word[:1].upper()}{word[1:]} runs from {numbers.micros(best[1])} "
            f"({_layout.name_of(best[0], axes)}) to {numbers.micros(worst[1])} "
            f"({_layout.name_of(worst[0], axes)})")


def _told(data: RunDirectory) -> tuple[str, str]:
    """The metric of the headline and what it is called: the 99th percentile, or the median where a
    run has too few requests for that; nothing where it has too few for either.
    """
    kind = next((f"{op}_" for op in _OPS
                 if all(run.metric(f"{op}_latency_us_p99") is not None for run in data.runs)), "")
    of = f" of {kind[:-1]}s" if kind else ""
    for share, word in (("p99", "p99"), ("p50", "median")):
        name = f"{kind}latency_us_{share}"
        if _layout.is_told(data.runs, name):
            return name, word + of
    return "", ""


def _two(pairs: list[tuple[Run, float]], devices: list[Any], word: str) -> str:
    """Two devices: the range of their ratio over everything else."""
    by_rest: dict[str, dict[Any, float]] = {}
    for run, value in pairs:
        # The pairs are of grid points, whichever repeat stands for one.
        rest = str({
            key: val for key, val in run.params.items() if key not in ("device", "repeat")})
        by_rest.setdefault(rest, {})[run.params["device"]] = value
    ratios = [
        both[devices[1]] / both[devices[0]]
        for both in by_rest.values() if len(both) == 2 and min(both.values()) > 0
    ]
    if not ratios:
        return "Latency by percentile"
    fast, slow = devices
    if max(ratios) < 1:
        fast, slow, ratios = slow, fast, [1 / ratio for ratio in ratios]
    if min(ratios) > 0.95 and max(ratios) < 1.05:
        return f"{word[:1].upper()}{word[1:]}: {slow} and {fast} are within 5 % of each other"
    low, high = numbers.significant(min(ratios), 2), numbers.significant(max(ratios), 2)
    span = f"{low} times" if low == high else f"{low} to {high} times"
    return f"{word[:1].upper()}{word[1:]}: {slow} takes {span} as long as {fast}"
