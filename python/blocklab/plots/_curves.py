"""Lines and dots of a study's own figure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..rundir import Dot, Drawing, RunDirectory
from . import _axes, _frame, _labels, _layout
from ._panels import Panel, label_of, named_at_dots, names_of, shared

_WIDTH, _GAP, _TITLE, _BOTTOM = 936.0, 26.0, 26.0, 24.0


def draw(data: RunDirectory, drawing: Drawing, panels: list[Panel]) -> str:
    """Lines or dots."""
    canvas = _frame.Canvas(_WIDTH)
    names = names_of(panels)
    at_dots = named_at_dots(drawing, panels)
    columns = _columns(len(panels), at_dots)
    unit = "" if drawing.relative else drawing.y
    one_scale = shared(drawing, panels)
    ends = {panel.title: _y_domain(drawing, panels if one_scale else [panel]) for panel in panels}
    left = 12 + max(
        _axes.width_of(_axes.tick_text(unit, tick))
        for low, high in ends.values()
        for tick in _axes.Scale(low, high, 0, 1, drawing.y_log).ticks(4))
    width = (_WIDTH - columns * left - (columns - 1) * _GAP) / columns
    height = 300.0 if at_dots and len(names) > 8 else 230.0 if columns < 3 else 190.0
    top = 12.0
    if len(names) > 1 and not at_dots:
        top += _axes.legend(canvas, top, names, lines=drawing.kind == "lines")
    canvas.text(0, top, drawing.y_label)
    across = _x_scale(data, drawing, panels)
    for index, panel in enumerate(panels):
        column, row = index % columns, index // columns
        x = left + column * (width + _GAP + left)
        y = top + 8 + row * (height + _TITLE + _BOTTOM) + (_TITLE if drawing.panels else 6)
        if drawing.panels:
            canvas.text(x, y - 8, _layout.shorten(panel.title, width), fill="ink", weight=600)
        low, high = ends[panel.title]
        place = _Place(
            across.scale.moved(x, x + width),
            _axes.Scale(low, high, y + height, y, drawing.y_log), across.positions)
        _grid(canvas, drawing, place, across, unit)
        if at_dots:
            _named_dots(canvas, drawing, panel, place)
        else:
            _series(canvas, drawing, panel, place, names)
    rows = -(-len(panels) // columns)
    bottom = top + 8 + rows * (height + _TITLE + _BOTTOM) - (0 if drawing.panels else _TITLE - 6)
    canvas.text(_WIDTH, bottom + 10, f"{drawing.x_label} →", anchor="end")
    return canvas.svg(bottom + 16)


def _columns(panels: int, at_dots: bool) -> int:
    if panels == 1:
        return 1
    return 2 if at_dots or panels in (2, 4) else 3


@dataclass(frozen=True)
class _Place:
    """Where values lie in a panel."""

    x: _axes.Scale
    y: _axes.Scale
    #: Positions of values that are no numbers.
    positions: dict[Any, int]

    def of(self, dot: Dot) -> tuple[float, float]:
        x = self.positions[dot.x] if self.positions else float(dot.x)
        return self.x.at(x), self.y.at(dot.y or 0.0)


@dataclass(frozen=True)
class _Across:
    """The horizontal axis, which all panels share."""

    scale: _axes.Scale
    positions: dict[Any, int]
    ticks: list[tuple[float, str]]


def _x_scale(data: RunDirectory, drawing: Drawing, panels: list[Panel]) -> _Across:
    values = list(dict.fromkeys(dot.x for panel in panels for dot in panel.dots))
    if drawing.x_is_axis and not all(isinstance(value, int | float) for value in values):
        positions = {value: index for index, value in enumerate(values)}
        labels = [(float(i), label_of(data, drawing.x, v)) for v, i in positions.items()]
        return _Across(_axes.Scale(-0.5, len(values) - 0.5, 0, 1), positions, labels)
    low, high = _axes.domain([float(value) for value in values], log=drawing.x_log)
    scale = _axes.Scale(low, high, 0, 1, drawing.x_log)
    unit = "" if drawing.x_is_axis else drawing.x
    if drawing.x_is_axis and len(values) <= 8:
        ticks = [float(value) for value in sorted(values)]
    else:
        ticks = scale.ticks(5)
    return _Across(scale, {}, [(tick, _axes.tick_text(unit, tick)) for tick in ticks])


def _y_domain(drawing: Drawing, panels: list[Panel]) -> tuple[float, float]:
    values = [dot.y for panel in panels for dot in panel.dots if dot.y is not None]
    if drawing.relative:
        values.append(1.0)
    return _axes.domain(values, log=drawing.y_log)


def _grid(
    canvas: _frame.Canvas, drawing: Drawing, place: _Place, across: _Across, unit: str
) -> None:
    x, y = place.x, place.y
    for tick in y.ticks(4):
        at = y.at(tick)
        canvas.line(x.start, at, x.end, at)
        canvas.text(x.start - 6, at + 4, _axes.tick_text(unit, tick), anchor="end")
    if drawing.relative and y.low < 1 < y.high:
        canvas.line(x.start, y.at(1), x.end, y.at(1), "muted")
    room = (x.end - x.start) / len(across.ticks)
    free = x.start - 20
    for tick, text in across.ticks:
        at = x.at(tick)
        text = _layout.shorten(text, room) if across.positions else text
        half = _axes.width_of(text) / 2
        middle = min(max(at, x.start + half - 8), x.end - half + 8)
        canvas.line(at, y.start, at, y.start + 4)
        if middle - half > free:  # ticks close to each other: the later ones go unnamed
            canvas.text(middle, y.start + 16, text, anchor="middle")
            free = middle + half + 6


def _series(
    canvas: _frame.Canvas, drawing: Drawing, panel: Panel, place: _Place, names: list[str]
) -> None:
    _front(canvas, drawing, panel, place)
    for name, dots in panel.series.items():
        colour, dash = _axes.style(names.index(name))
        points = sorted(place.of(dot) for dot in dots)
        if drawing.kind == "lines":
            canvas.path(points, colour, dash=dash)
        for x, y in points:
            small = drawing.kind == "lines"
            canvas.dot(x, y, colour, 2.8 if small else 4, hollow=bool(dash))


def _named_dots(
    canvas: _frame.Canvas, drawing: Drawing, panel: Panel, place: _Place
) -> None:
    """Dots with their names; those on the front stand out."""
    _front(canvas, drawing, panel, place)
    spots: dict[tuple[int, int], tuple[float, float, list[str], bool]] = {}
    for name, [dot] in panel.series.items():
        x, y = place.of(dot)
        spot = spots.setdefault((round(x / 3), round(y / 3)), (x, y, [], dot.front))
        spot[2].append(name)
    ordered = sorted(spots.values(), key=lambda spot: (not spot[3], spot[1], spot[0]))
    dots = [(x, y, ", ".join(names)) for x, y, names, _ in ordered]
    panel_box = _labels.Box(place.x.start - 6, place.y.end - 2, place.x.end + 8, place.y.start + 1)
    labels = _labels.place(dots, panel_box, _steps(drawing, panel, place))
    front = {", ".join(names) for *_, names, best in ordered if best or not drawing.front}
    for label in labels:
        if label.leader:
            canvas.line(*label.leader, "neutral")
    for label in labels:
        strong = label.text in front
        canvas.text(label.x, label.box.bottom - 2, label.text, anchor=label.anchor,
                    fill="ink" if strong else "muted",
                    weight=600 if strong and drawing.front else 400, halo=True)
    for x, y, names, best in ordered:
        canvas.dot(x, y, "c1" if best or not drawing.front else "neutral", 4)


def _front(canvas: _frame.Canvas, drawing: Drawing, panel: Panel, place: _Place) -> None:
    if steps := _steps(drawing, panel, place):
        canvas.path(steps, "c1", 1.2)


def _steps(drawing: Drawing, panel: Panel, place: _Place) -> list[tuple[float, float]]:
    """Along the points that none beats: what is best for at most so much across."""
    points = sorted(place.of(dot) for dot in panel.dots if dot.front)
    if not drawing.front or not points:
        return []
    steps = [points[0]]
    for x, y in points[1:]:
        steps += [(x, steps[-1][1]), (x, y)]
    return [*steps, (place.x.end, steps[-1][1])]
