"""Write amplification by cause, and the wear it leaves behind."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import altair as alt
import polars as pl

from .. import _core
from .. import _numbers as numbers
from ..rundir import Run, RunDirectory
from . import Figure, _layout, _parts, _style

#: Up to this many runs are drawn over time; more become one bar each.
MOST_OVER_TIME = 6
MOST_BARS = 40
HEIGHT = 104
#: Colours of causes that have one of their own; others take the categories in turn.
_COLOURS = {"host": _style.WRITE, "gc": _style.BACKGROUND}
#: What the metric of a cause begins with.
_PART = "waf_"
#: The counter of what the host wrote.
_HOST = "host_bytes_written"


def draw(data: RunDirectory) -> Figure | None:
    """Over time beside wear for a few runs; stacked bars for a sweep."""
    some = [runs for runs in _layout.repeats(data.runs)
            if any(run.metric("waf") is not None for run in runs)]
    points = [runs for runs in some if _layout.mean(runs, "waf") is not None]
    if not points:
        return None
    first = [runs[0] for runs in points]
    shares = _shares_of(data, first) if len(first) <= MOST_OVER_TIME else {}
    if shares:
        chart = _over_time(data, first, shares)
        notes = [_layout.repeats_note(points)]
        subtitle = ("Left: bytes programmed per byte the host wrote since the start, by "
                    "cause. Right: blocks by how often they were erased")
        source = "counters.parquet, wear.parquet"
    else:
        chart = _bars(data, points[:MOST_BARS])
        left_out = len(points) - MOST_BARS
        notes = [f"{left_out} more grid points are in the tables only."] if left_out > 0 else []
        subtitle = "Bytes programmed into flash per byte the host wrote, by cause"
        source = "runs.parquet"
    if len(points) < len(some):
        notes.append(f"{len(points)} of {len(some)} grid points have a value in every repeat; "
                     "the others are not drawn.")
    finding = _finding(data, points)
    return Figure(
        title=finding,
        subtitle=subtitle,
        svg=_style.svg(chart, "waf"),
        how="A value of 1 is a drive that programs each written byte once. What lies above is "
        "the drive's own work: gc moves valid pages out of victim blocks, merge folds log "
        "blocks, wear evens erases out, map writes mapping pages. A wide erase histogram means "
        "uneven wear.",
        alt="Write amplification by cause. " + finding + ".",
        data=source,
        note=" ".join(filter(None, notes)),
    )


@functools.cache
def causes() -> dict[str, str]:
    """Why flash is programmed, as drives declare it, and its colour, from the axis upwards."""
    names = [name.removeprefix(_PART) for name, *_ in _core.metrics() if name.startswith(_PART)]
    others = itertools.cycle(_style.CATEGORIES)
    return {name: _COLOURS.get(name) or next(others) for name in names}


#: Times, and at each of them bytes programmed per byte the host wrote, by cause.
_Shares = tuple[list[float], dict[str, list[float]]]


def _shares_of(data: RunDirectory, runs: list[Run]) -> dict[int, _Shares]:
    """The shares over time by run; nothing unless those of every run are known."""
    counters = data.table("counters")
    shares = {run.index: _shares(counters.filter(pl.col("run") == run.index)) for run in runs}
    # Of a short run nothing may have left the write buffer: its amplification is 0.
    known = [bool(times) and bool(by_cause or run.metric("waf") == 0)
             for run, (times, by_cause) in zip(runs, shares.values(), strict=True)]
    return shares if all(known) else {}


def _over_time(
    data: RunDirectory, runs: list[Run], shares: dict[int, _Shares]
) -> _style.Drawing:
    wear = data.table("wear")
    rows = []
    tops = [sum(share[-1] for share in by.values() if share) for _, by in shares.values()]
    top = max([1.0, *tops, *(_peak(by) for _, by in shares.values())])
    for run in runs:
        name = _layout.name_of(run, list(data.axes))
        times, by_cause = shares[run.index]
        panels = [_area(times, by_cause, top, name)]
        mine = wear.filter(pl.col("run") == run.index)
        if not mine.is_empty():
            panels.append(_histogram(mine))
        rows.append(alt.hconcat(*panels, spacing=40))
    return alt.vconcat(*rows, spacing=14)


def _shares(counters: pl.DataFrame) -> _Shares:
    """Bytes programmed per byte the host wrote since the first sample, by cause, where defined."""
    programmed_of = {cause: f"flash_bytes_programmed.{cause}" for cause in causes()}
    wide = _parts.wide(counters, [_HOST, *programmed_of.values()])
    times = [float(t) for t in wide["t_s"]]
    if _HOST not in wide.columns:
        return [], {}
    host = wide[_HOST].to_list()
    used = [index for index in range(len(times)) if host[index] > 0]
    by_cause = {}
    for cause, name in programmed_of.items():  # copy-backs are among them
        programmed = [wide[name][index] for index in used] if name in wide.columns else []
        if any(programmed):
            by_cause[cause] = [
                count / host[index] for count, index in zip(programmed, used, strict=True)]
    return [times[index] for index in used], by_cause


def _peak(by_cause: dict[str, list[float]]) -> float:
    """The highest total, leaving out the first tenth, where few writes make it wild."""
    totals = [sum(point) for point in zip(*by_cause.values(), strict=True)]
    return max(totals[len(totals) // 10 :], default=1.0)


def _area(
    times: list[float], by_cause: dict[str, list[float]], top: float, title: str
) -> _style.Drawing:
    unit, scale = _style.time_unit(times[-1] if times else 1.0)
    end = times[-1] / scale if times else 1.0
    x = alt.X("t:Q", title=None).scale(domain=[0, end], nice=False).axis(
        grid=False, tickCount=5, labelFlush=True,
        labelExpr=f"format(datum.value, '~g') + ' {unit}'")
    y = alt.Y("y:Q", title=None).scale(domain=[0, top * 1.04], nice=False).axis(tickCount=4)
    floor = [0.0] * len(times)
    rows: list[dict[str, Any]] = []
    labels: list[tuple[float, str, str]] = []
    for cause, shares in by_cause.items():
        roof = [low + share for low, share in zip(floor, shares, strict=True)]
        rows.extend(
            {"t": round(t / scale, 4), "y": round(high, 4), "low": round(low, 4),
             "colour": causes()[cause]}
            for t, low, high in zip(times, floor, roof, strict=True)
        )
        labels.append(((floor[-1] + roof[-1]) / 2, f"{cause} {shares[-1]:.2f}", causes()[cause]))
        floor = roof
    gap = 13 * top * 1.04 / HEIGHT
    heights = _style.spread([label[0] for label in labels], gap, gap / 2, top * 1.04 - gap / 2)
    words = [
        {"t": end, "y": height, "text": text, "colour": colour}
        for height, (_, text, colour) in zip(heights, labels, strict=True)
    ]
    area = alt.Chart(_style.values(rows)).mark_area(clip=True).encode(
        x=x, y=y, y2="low:Q", color=_style.AS_IS)
    names = alt.Chart(_style.values(words)).mark_text(
        align="left", baseline="middle", dx=5, fontWeight=600).encode(
        x=x, y=y, text="text:N", color=_style.AS_IS)
    title = _layout.shorten(title, 480)
    return alt.layer(area, names).properties(width=480, height=HEIGHT, title=title)


def _histogram(wear: pl.DataFrame) -> _style.Drawing:
    """Blocks by erase count, over all planes; at most 40 bars."""
    low, high = wear["erases"].to_list(), max(wear["erases"].to_list())
    width = max(1, -(-(high - min(low) + 1) // 40))
    bins = (
        wear.with_columns(bin=pl.col("erases") // width * width)
        .group_by("bin").agg(pl.col("blocks").sum()).sort("bin")
    )
    rows = [
        {"low": bin_low, "high": bin_low + width, "y": blocks}
        for bin_low, blocks in bins.iter_rows()
    ]
    most = max(row["y"] for row in rows)
    first, last = rows[0]["low"], rows[-1]["high"]
    room = max(2, 12 - (last - first))  # a single bar should not fill the panel
    x = alt.X("low:Q", title=None).scale(
        domain=[max(0, first - room // 2), last + room // 2], nice=False).axis(
        grid=False, format="d", tickMinStep=1, tickCount=6)
    return (
        alt.Chart(_style.values(rows))
        .mark_rect(color=_style.NEUTRAL, xOffset=0.5, x2Offset=-0.5)
        .encode(x=x, x2="high:Q",
                y=alt.Y("y:Q", title=None).scale(domain=[0, most * 1.08], nice=False).axis(
                    tickCount=4, labelExpr="format(datum.value, '~s')"),
                y2=alt.datum(0))
        .properties(width=250, height=HEIGHT, title="erases per block")
    )


def _bars(data: RunDirectory, points: list[list[Run]]) -> _style.Drawing:
    """A bar per grid point, its repeats averaged."""
    names = [_layout.name_of(runs[0], list(data.axes)) or str(data.result["study"])
             for runs in points]
    shares = [{cause: _of_cause(runs, cause) for cause in causes()} for runs in points]
    rows: list[dict[str, Any]] = []
    totals: list[dict[str, Any]] = []
    for name, runs, by_cause in zip(names, points, shares, strict=True):
        low = 0.0
        for cause, share in by_cause.items():
            if share > 0:
                rows.append({"name": name, "low": low, "high": low + share,
                             "colour": causes()[cause]})
            low += share
        waf = _layout.mean(runs, "waf")
        totals.append({"name": name, "high": low, "text": f"{waf:.2f}"})
    y = alt.Y("name:N", title=None, sort=names).axis(labelLimit=320)
    x = alt.X("low:Q", title=None).scale(domain=[0, max(t["high"] for t in totals) * 1.06 or 1.0])
    bars = alt.Chart(_style.values(rows)).mark_bar().encode(
        x=x, x2="high:Q", y=y, color=_style.AS_IS)
    text = alt.Chart(_style.values(totals)).mark_text(align="left", dx=5, color=_style.INK)
    labels = text.encode(x=alt.X("high:Q", title=None), y=y, text="text:N")
    used = [cause for cause in causes() if any(by_cause[cause] for by_cause in shares)]
    key = []
    at = 0.0
    for cause in used:  # names in their colours above the bars, in stacking order
        key.append(
            alt.Chart(_style.values([{"text": cause}]))
            .mark_text(align="left", color=causes()[cause], fontWeight=600)
            .encode(x=alt.value(at), y=alt.value(-10), text="text:N"))
        at += 7.0 * len(cause) + 16
    return alt.layer(bars, labels, *key).properties(width=560, height=alt.Step(18))


def _of_cause(runs: list[Run], cause: str) -> float:
    """The part of a grid point's write amplification, nothing where a run does not count it."""
    return sum(run.metric(_PART + cause) or 0.0 for run in runs) / len(runs)


def _finding(data: RunDirectory, points: list[list[Run]]) -> str:
    """The grid point with the least and the one with the most, repeats averaged."""
    pairs = _layout.means(data.runs, "waf")
    axes = list(data.axes)
    if len(pairs) == 1:
        gc = _of_cause(points[0], "gc")
        return f"Write amplification {pairs[0][1]:.2f}, of which collection {gc:.2f}"
    low, high = (chosen(pairs, key=lambda pair: pair[1]) for chosen in (min, max))
    if numbers.significant(low[1]) == numbers.significant(high[1]):
        return f"Write amplification {low[1]:.2f} {_layout.everywhere(data.runs)}"
    return (f"Write amplification runs from {low[1]:.2f} ({_layout.name_of(low[0], axes)}) "
            f"to {high[1]:.2f} ({_layout.name_of(high[0], axes)})")
