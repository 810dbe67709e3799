"""Figures of a study's own, drawn from the numbers in `result.json`."""

from __future__ import annotations

from ..rundir import Dot, Drawing, RunDirectory
from . import Figure, _axes, _bars, _curves
from ._panels import Panel, arrange, has_place, label_of, names_of, shared


def draw(data: RunDirectory, name: str) -> Figure | None:
    """The figure `name` of the study; None where no point has a value."""
    drawing = data.drawings[name]
    drawn = [dot for dot in drawing.points if has_place(drawing, dot)]
    if not drawn:
        return None
    panels, notes = arrange(data, drawing, drawn)
    lost = len(drawing.points) - len(drawn)
    if lost:
        notes.append(f"{lost} of {len(drawing.points)} points have no value and are not drawn.")
    own = drawing.kind != "bars" and not shared(drawing, panels)
    draw_it = _bars.draw if drawing.kind == "bars" else _curves.draw
    words = [f"{drawing.y_label} against {drawing.x_label}" if drawing.kind != "bars"
             else f"{drawing.y_label} by {drawing.x_label}"]
    if own:
        words.append("each panel has its own scale")
    finding = _finding(data, drawing, drawn)
    return Figure(
        title=drawing.title,
        subtitle="; ".join(words),
        svg=draw_it(data, drawing, panels),
        how=_how(drawing),
        alt=f"{drawing.title}. {finding}",
        data="result.json",
        note=" ".join([*_front_note(drawing, panels), *notes]),
    )


def _front_note(drawing: Drawing, panels: list[Panel]) -> list[str]:
    if not drawing.front or not drawing.series:
        return []
    fronts = [{name for name, dots in panel.series.items() if any(dot.front for dot in dots)}
              for panel in panels]
    always = [name for name in names_of(panels) if all(name in front for front in fronts)]
    where = "On the front of every panel" if len(panels) > 1 else "On the front"
    return [f"{where}: {', '.join(always) or 'none'}."]


def _how(drawing: Drawing) -> str:
    text = "Each point is one point of the grid, its repeats averaged."
    if drawing.kind == "bars":
        text = "Each bar is one point of the grid, its repeats averaged; bars start at zero."
    if drawing.relative:
        text += " At 1 it equals the point it is divided by."
    if drawing.measured:
        text += " What was measured elsewhere is a series of its own."
    if drawing.front:
        most = "most" if drawing.front == "high-left" else "least"
        text += (f" The stepped line is the Pareto front, the {most} that can be had for at most "
                 "so much across; the points on it stand out.")
    return text


def _finding(data: RunDirectory, drawing: Drawing, dots: list[Dot]) -> str:
    """The range in a sentence, for whoever cannot see it."""
    unit = "" if drawing.relative else drawing.y
    low, high = (chosen(dots, key=lambda dot: dot.y or 0.0) for chosen in (min, max))

    def words(dot: Dot) -> str:
        axes = [axis for axis in dot.params if axis in data.axes]
        where = ", ".join(label_of(data, axis, dot.params[axis]) for axis in axes)
        return f"{_axes.value_text(unit, dot.y or 0.0)}" + (f" ({where})" if where else "")

    return f"{drawing.y_label} runs from {words(low)} to {words(high)}."
