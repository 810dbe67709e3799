"""What the panels of a study's own figure show."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..rundir import Dot, Drawing, RunDirectory
from . import _axes, _layout


@dataclass
class Panel:
    """What one panel shows: the points by series, in the figure's order."""

    title: str
    series: dict[str, list[Dot]] = field(default_factory=dict)

    @property
    def dots(self) -> list[Dot]:
        """All points."""
        return [dot for dots in self.series.values() for dot in dots]


def arrange(
    data: RunDirectory, drawing: Drawing, dots: list[Dot]
) -> tuple[list[Panel], list[str]]:
    """The panels in the order of the grid, and what does not fit into the figure."""
    panels: dict[str, Panel] = {}
    for dot in dots:
        axis = drawing.panels
        title = _named(data, axis, dot) if axis else ""
        panel = panels.setdefault(title, Panel(title))
        panel.series.setdefault(_series_of(data, drawing, dot), []).append(dot)
    notes = _add_measured(drawing, panels)
    shown = list(panels.values())
    if len(shown) > _layout.MAX_PANELS:
        notes.append(f"{_layout.MAX_PANELS} of {len(shown)} panels are drawn.")
        shown = shown[: _layout.MAX_PANELS]
    names = names_of(shown)
    if len(names) > _axes.MAX_SERIES and not named_at_dots(drawing, shown):
        kept = names[: _axes.MAX_SERIES]
        notes.append(f"{len(kept)} of {len(names)} series are drawn.")
        for panel in shown:
            panel.series = {name: panel.series[name] for name in kept if name in panel.series}
    return shown, notes


def has_place(drawing: Drawing, dot: Dot) -> bool:
    """Undefined values have none, and on a logarithmic axis what is not above zero has none."""
    if dot.y is None or dot.x is None:
        return False
    return not (drawing.y_log and dot.y <= 0 or drawing.x_log and float(dot.x) <= 0)


def _add_measured(drawing: Drawing, panels: dict[str, Panel]) -> list[str]:
    """What was measured elsewhere, as a series of its own beside the model's; says what of it has
    no place."""
    measured = [Dot({}, x, y, False) for x, y in drawing.measured]
    dots = [dot for dot in measured if has_place(drawing, dot)]
    for panel in panels.values() if dots else []:
        if list(panel.series) == [""]:
            panel.series = {"model": panel.series[""]}
        panel.series["measured"] = dots
    lost = len(measured) - len(dots)
    return [f"{lost} of {len(measured)} measured points are not above zero, where a logarithmic "
            "axis has no place for them."] if lost else []


def label_of(data: RunDirectory, axis: str, value: Any) -> str:
    """A value of an axis, in as few words as tell it from the others."""
    text = data.names.get(axis, {}).get(value) if isinstance(value, str) else None
    return text or _layout.value_text(value)


def _named(data: RunDirectory, axis: str, dot: Dot) -> str:
    """The value on an axis; one that does not explain itself has the axis's name before it."""
    text = label_of(data, axis, dot.params[axis])
    return f"{axis.rsplit('.', 1)[-1]} {text}" if text[:1].isdigit() else text


def _series_of(data: RunDirectory, drawing: Drawing, dot: Dot) -> str:
    return " · ".join(_named(data, axis, dot) for axis in drawing.series)


def names_of(panels: list[Panel]) -> list[str]:
    """The series of all panels."""
    return list(dict.fromkeys(name for panel in panels for name in panel.series))


def named_at_dots(drawing: Drawing, panels: list[Panel]) -> bool:
    """True when each dot is a series of its own, so that its name stands beside it."""
    return (drawing.kind == "points" and bool(drawing.series)
            and all(len(dots) == 1 for panel in panels for dots in panel.series.values()))


def shared(drawing: Drawing, panels: list[Panel]) -> bool:
    """Panels share their vertical scale when none would be flat in it."""
    tops = [max(dot.y or 0.0 for dot in panel.dots) for panel in panels]
    return drawing.relative or drawing.y_log or max(tops) <= 3 * min(tops)
