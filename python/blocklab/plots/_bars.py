"""Grouped bars of a study's own figure: rows, so that every name has room."""

from __future__ import annotations

from ..rundir import Drawing, RunDirectory
from . import _axes, _frame, _layout
from ._panels import Panel, label_of, names_of

#: From bar to bar and from group to group, in px.
_PITCH, _GROUP = 13.0, 9.0
_WIDTH, _GAP, _TITLE, _BOTTOM = 936.0, 24.0, 26.0, 30.0
#: Room behind the longest bar for its number.
_NUMBER = 46.0


def draw(data: RunDirectory, drawing: Drawing, panels: list[Panel]) -> str:
    """A group per value of the axis, a bar per series; panels share their scale."""
    canvas = _frame.Canvas(_WIDTH)
    names = names_of(panels)
    groups = list(dict.fromkeys(dot.x for panel in panels for dot in panel.dots))
    titles = {group: label_of(data, drawing.x, group) for group in groups}
    unit = "" if drawing.relative else drawing.y
    columns = min(len(panels), 2 if len(panels) in (2, 4) else 3)
    left = 10 + min(260.0, max(_axes.width_of(title) for title in titles.values()))
    width = (_WIDTH - left - (columns - 1) * _GAP) / columns
    top = 12.0
    if len(names) > 1:
        top += _axes.legend(canvas, top, names, lines=False)
    most = max(dot.y or 0.0 for panel in panels for dot in panel.dots)
    _, high = _axes.domain([most, 1.0] if drawing.relative else [most], zero=True)
    group = max(1, len(names)) * _PITCH + _GROUP
    height = len(groups) * group
    for index, panel in enumerate(panels):
        x = left + index % columns * (width + _GAP)
        row = index // columns
        y = top + row * (height + _TITLE + _BOTTOM) + (_TITLE if drawing.panels else 6)
        if drawing.panels:
            canvas.text(x, y - 8, _layout.shorten(panel.title, width), fill="ink", weight=600)
        scale = _axes.Scale(0, high, x, x + width - _NUMBER)
        for tick in scale.ticks(4):
            canvas.line(scale.at(tick), y, scale.at(tick), y + height)
            text = _axes.tick_text(unit, tick)
            canvas.text(scale.at(tick), y + height + 14, text, anchor="middle")
        if drawing.relative:
            canvas.line(scale.at(1), y, scale.at(1), y + height, "muted")
        for number, value in enumerate(groups):
            at = y + number * group + _GROUP / 2
            if index % columns == 0:
                title = _layout.shorten(titles[value], 270)
                canvas.text(x - 8, at + (group - _GROUP) / 2 + 4, title, anchor="end", fill="ink")
            for place, name in enumerate(names):
                found = [dot for dot in panel.series.get(name, []) if dot.x == value]
                bar = at + place * _PITCH
                if not found or found[0].y is None:
                    canvas.text(x + 3, bar + _PITCH - 3, "–")
                    continue
                end = scale.at(found[0].y)
                colour, dash = _axes.style(place)
                canvas.rect(x, bar + 1, max(0.5, end - x), _PITCH - 2, colour)
                if dash:  # the seventh and later series are hollow, as in the legend
                    canvas.rect(x + 1.5, bar + 2.5, max(0.0, end - x - 3), _PITCH - 5, "page")
                text = _axes.value_text(unit, found[0].y)
                canvas.text(end + 4, bar + _PITCH - 3, text, fill="ink", halo=True)
    rows = -(-len(panels) // columns)
    bottom = top + rows * (height + _TITLE + _BOTTOM) - (0 if drawing.panels else _TITLE - 6)
    canvas.text(_WIDTH, bottom, f"{drawing.y_label} →", anchor="end")
    return canvas.svg(bottom + 6)
