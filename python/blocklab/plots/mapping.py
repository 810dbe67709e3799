"""The mapping over time: the RAM that its tables and windows take, and the hit ratio they buy."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from .. import _numbers as numbers
from ..rundir import Run, RunDirectory
from . import Figure, _axes, _frame, _layout, _parts

#: Lines in one panel; more cannot be told apart where they cross.
MAX_LINES = 4
_WIDTH, _LEFT, _GAP = 936.0, 62.0, 20.0
_RAM, _HITS, _BETWEEN, _TITLE, _BOTTOM = 96.0, 70.0, 12.0, 26.0, 30.0
#: RAM that goes up and down this often follows its workload.
_FOLLOWS = 2.0
_NAMES = ("map_ram_bytes", "map_lookups", "map_hits")


@dataclass(frozen=True)
class _Line:
    times: list[float]
    kib: list[float]
    #: Share of the lookups since the time before; None where there were none.
    hits: list[float | None]

    @property
    def movement(self) -> float:
        """How often the RAM went its whole range; a table that only fills has 1."""
        steps = sum(abs(b - a) for a, b in zip(self.kib, self.kib[1:], strict=False))
        return steps / max(max(self.kib), 1e-9)


def draw(data: RunDirectory) -> Figure | None:
    """A panel per workload, a line per mapping: those whose size changes the most."""
    counters = data.table("counters")
    across = _layout.column_axis(data)
    rest = [axis for axis in data.axes if axis != across]
    panels: dict[str, dict[str, _Line]] = {}
    for title, runs in _layout.points(data.runs, [across] if across else []).items():
        lines = {name: _line(counters, members[0])
                 for name, members in _layout.points(runs, rest).items()}
        known = {name: line for name, line in lines.items() if line is not None}
        if known:
            panels[title] = known
    if not panels:
        return None
    every = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    names = _liveliest(every, panels)
    shown = dict(list(panels.items())[: _layout.MAX_PANELS])
    notes = []
    if len(names) < len(every):
        notes.append(f"{len(names)} of {len(every)} are drawn, those whose size changes most.")
    if len(shown) < len(panels):
        notes.append(f"{len(shown)} of {len(panels)} panels are drawn.")
    notes += filter(None, [_layout.repeats_note(_layout.repeats(data.runs))])
    finding = _finding(data)
    return Figure(
        title=finding,
        subtitle="Above: RAM of the mapping, its window included. Below: share of lookups in each "
        "interval that RAM answered",
        svg=_draw(shown, names),
        how="A window that follows its workload grows where the hit ratio falls and gives RAM back "
        "where it does not help. A mapping that only fills its cache rises once and stays.",
        alt="RAM and hit ratio of the mapping over time. " + finding + ".",
        data="counters.parquet",
        note=" ".join(notes),
    )


def _line(counters: pl.DataFrame, run: Run) -> _Line | None:
    wide = _parts.wide(counters.filter(pl.col("run") == run.index), _NAMES)
    if "map_ram_bytes" not in wide.columns:
        return None
    times = [float(t) for t in wide["t_s"]]
    kib = [float(size) / 1024 for size in wide["map_ram_bytes"]]
    steps = [
        list(wide[name].diff().fill_null(0)) if name in wide.columns else [0] * len(times)
        for name in ("map_hits", "map_lookups")
    ]
    hits = [hit / lookup if lookup > 0 else None for hit, lookup in zip(*steps, strict=True)]
    return _Line(times, kib, hits)


def _liveliest(names: list[str], panels: dict[str, dict[str, _Line]]) -> list[str]:
    """The names whose RAM moves most in any panel, in the order of the grid."""
    movement = {
        name: max(lines[name].movement for lines in panels.values() if name in lines)
        for name in names
    }
    chosen = sorted(names, key=movement.__getitem__, reverse=True)[:MAX_LINES]
    if movement[chosen[0]] > _FOLLOWS:  # beside what follows its workload, constants say nothing
        chosen = [name for name in chosen if movement[name] > _FOLLOWS]
    return [name for name in names if name in chosen]


def _draw(panels: dict[str, dict[str, _Line]], names: list[str]) -> str:
    canvas = _frame.Canvas(_WIDTH)
    top = 12.0
    if len(names) > 1:
        top += _axes.legend(canvas, top, names, lines=True)
    columns = {1: 1, 2: 2, 4: 2}.get(len(panels), 3)
    width = (_WIDTH - columns * _LEFT - (columns - 1) * _GAP) / columns
    height = _TITLE + _RAM + _BETWEEN + _HITS + _BOTTOM
    for index, (title, lines) in enumerate(panels.items()):
        x = _LEFT + index % columns * (width + _GAP + _LEFT)
        y = top - 8 + index // columns * height
        canvas.text(x, y + _TITLE - 8, _layout.shorten(title, width), fill="ink", weight=600)
        _panel(canvas, (x, y + _TITLE), width, {n: lines[n] for n in names if n in lines}, names)
    rows = -(-len(panels) // columns)
    return canvas.svg(top - 8 + rows * height)


def _panel(
    canvas: _frame.Canvas, at: tuple[float, float], width: float, lines: dict[str, _Line],
    names: list[str],
) -> None:
    x, y = at
    end = max((line.times[-1] for line in lines.values()), default=0.0) or 1.0
    across = _axes.Scale(0, end, x, x + width)
    most = max((max(line.kib) for line in lines.values()), default=1.0)
    unit, scale = ("MiB", 1024.0) if most >= 4096 else ("KiB", 1.0)
    ram = _axes.Scale(0, 1.06 * most / scale or 1.0, y + _RAM, y)
    known = [hit for line in lines.values() for hit in line.hits if hit is not None]
    least = min(known, default=0.0)
    floor = 0.0 if least < 0.5 else 0.5 if least < 0.9 else 0.9
    below = y + _RAM + _BETWEEN
    hits = _axes.Scale(floor, 1.0, below + _HITS, below + 4)
    for tick in ram.ticks(3):
        canvas.line(x, ram.at(tick), x + width, ram.at(tick))
        label = f"{_axes.tick_text('', tick)}{numbers.SPACE}{unit}"
        canvas.text(x - 6, ram.at(tick) + 4, label, anchor="end")
    for tick in (floor, (1 + floor) / 2, 1.0):
        canvas.line(x, hits.at(tick), x + width, hits.at(tick))
        canvas.text(x - 6, hits.at(tick) + 4, _axes.tick_text("map_hit_ratio", tick), anchor="end")
    for name, line in lines.items():
        colour, dash = _axes.style(names.index(name))
        steps = [(across.at(t), ram.at(kib / scale))
                 for t, kib in zip(line.times, line.kib, strict=True)]
        canvas.path(steps, colour, 1.6, dash)
        for piece in _pieces(line):
            canvas.path([(across.at(t), hits.at(hit)) for t, hit in piece], colour, 1.2, dash)
    _frame.time_axis(canvas, x, below + _HITS, width, end)


def _pieces(line: _Line) -> list[list[tuple[float, float]]]:
    """The hit ratio in pieces without a gap."""
    pieces: list[list[tuple[float, float]]] = [[]]
    for t, hit in zip(line.times, line.hits, strict=True):
        if hit is not None:
            pieces[-1].append((t, hit))
        elif pieces[-1]:
            pieces.append([])
    return [piece for piece in pieces if piece]


def _finding(data: RunDirectory) -> str:
    pairs = [pair for pair in _layout.means(data.runs, "map_ram_kib_mean") if pair[1]]
    if not pairs:
        return "RAM and hit ratio of the mapping over time"
    low, high = (chosen(pairs, key=lambda pair: pair[1]) for chosen in (min, max))
    axes = list(data.axes)
    if len(pairs) == 1 or low[1] == high[1]:
        return f"The mapping takes {_kib(low[1])} of RAM"
    return (f"The mapping takes {_kib(low[1])} ({_layout.name_of(low[0], axes)}) to "
            f"{_kib(high[1])} ({_layout.name_of(high[0], axes)}) of RAM on average")


def _kib(value: float) -> str:
    unit, scale = ("MiB", 1024.0) if value >= 1024 else ("KiB", 1.0)
    return f"{numbers.significant(value / scale)}{numbers.SPACE}{unit}"
