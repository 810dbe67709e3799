"""One look for every figure: the fixed colours, and SVG that follows the page's theme.

Vega draws each colour as a sentinel; `svg` then swaps sentinels for CSS variables, so that one
drawing serves light, dark and paper.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

import altair as alt
import vl_convert

#: Token -> sentinel colour. The page's CSS gives `--ink`, `--read`, ... their values per theme.
_TOKENS = {
    name: f"#fe{number:02x}a5"
    for number, name in enumerate(
        ("ink", "muted", "grid", "read", "write", "discard", "background", "neutral",
         "c1", "c2", "c3", "c4", "c5", "c6")
    )
}

INK, MUTED, GRID, NEUTRAL = (_TOKENS[name] for name in ("ink", "muted", "grid", "neutral"))
READ, WRITE, DISCARD = (_TOKENS[name] for name in ("read", "write", "discard"))
BACKGROUND = _TOKENS["background"]
OPS = {"read": READ, "write": WRITE, "discard": DISCARD, "flush": BACKGROUND}
#: For series that are not operations; none is near a colour with a fixed meaning.
CATEGORIES = [_TOKENS[f"c{number}"] for number in range(1, 7)]

FONT = "Inter, 'Helvetica Neue', Arial, sans-serif"

CONFIG: dict[str, Any] = {
    "background": None,
    "font": "Arial",
    "view": {"stroke": None},
    "axis": {
        "labelColor": MUTED, "titleColor": MUTED, "gridColor": GRID, "domainColor": GRID,
        "tickColor": GRID, "labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal",
        "tickSize": 4, "labelPadding": 3, "domain": False, "ticks": False,
    },
    "title": {
        "color": INK, "fontSize": 12, "fontWeight": 600, "anchor": "start", "offset": 8,
        "frame": "group",
        "subtitleColor": MUTED,
    },
    "text": {"fontSize": 11},
}

#: Any Altair chart. Altair's own types follow how a chart was put together, which no caller
#: here needs to know.
Drawing = Any

#: The encoding of rows that bring their own colour.
AS_IS = alt.Color("colour:N").scale(None)

#: Micros on a log axis, labelled at the powers of ten.
MICROS_EXPR = (
    "datum.value >= 1e6 ? format(datum.value / 1e6, '~g') + ' s' : "
    "datum.value >= 1e3 ? format(datum.value / 1e3, '~g') + ' ms' : "
    "datum.value >= 1 ? format(datum.value, '~g') + ' µs' : "
    "format(datum.value * 1e3, '~g') + ' ns'"
)


def svg(chart: Drawing, name: str) -> str:
    """`chart` as themed inline SVG; `name` keeps its ids apart from other figures'."""
    drawing = vl_convert.vegalite_to_svg(
        chart.to_dict(validate=False), vl_version="6.4", config=CONFIG, allowed_base_urls=[]
    )
    return themed(drawing, name)


_LONG_NUMBER = re.compile(r"(\d+\.\d{2})\d+")


def themed(drawing: str, name: str) -> str:
    """Sentinels to CSS variables, ids made unique, and what a page does not need left out."""
    for token, sentinel in _TOKENS.items():
        drawing = drawing.replace(sentinel, f"var(--{token})")
    drawing = re.sub(r' xmlns(:xlink)?="[^"]*"| version="1.1"| class="[^"]*"', "", drawing)
    drawing = re.sub(r' (aria-[a-z]+|role|pointer-events|font-family)="[^"]*"', "", drawing)
    drawing = re.sub(r'<path d="M0,0h0v0h0Z"/>|<g></g>', "", drawing)
    # Vega numbers clips over the life of the process: count anew, so equal data give equal text.
    for number, clip in enumerate(dict.fromkeys(re.findall(r'id="(clip\d+)"', drawing))):
        drawing = re.sub(rf'(id="|url\(#){clip}\b', rf"\g<1>{name}-{number}", drawing)
    drawing = re.sub(r"<[^>]*>", lambda tag: _LONG_NUMBER.sub(r"\1", tag[0]), drawing)
    width = float(drawing.split('width="', 1)[1].split('"', 1)[0])
    head = f'<svg class="figure" style="max-width:{math.ceil(width)}px" aria-hidden="true"'
    return re.sub(r'^<svg[^>]*?( viewBox="[^"]*")[^>]*>', rf"{head}\1>", drawing, count=1)


def decades(low: float, high: float) -> list[float]:
    """The powers of ten that cover `low` to `high`."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [10.0**power for power in range(first, max(last, first + 1) + 1)]


def spread(positions: list[float], gap: float, low: float, high: float) -> list[float]:
    """Label positions moved apart to at least `gap`, in order, kept within `low` and `high`."""
    order = sorted(range(len(positions)), key=positions.__getitem__)
    placed = [min(max(positions[index], low), high) for index in order]
    for _ in range(60):
        for left in range(len(placed) - 1):
            overlap = gap - (placed[left + 1] - placed[left])
            if overlap > 1e-6:
                placed[left] -= overlap / 2
                placed[left + 1] += overlap / 2
        placed = [min(max(value, low), high) for value in placed]
    result = [0.0] * len(positions)
    for index, value in zip(order, placed, strict=True):
        result[index] = value
    return result


def values(rows: list[dict[str, Any]]) -> alt.InlineData:
    """Rows as inline data: as JSON text, which Altair neither copies nor checks row by row."""
    text = json.dumps(rows, separators=(",", ":"))
    return alt.InlineData(values=text, format=alt.JsonDataFormat(type="json"))


def time_unit(end_s: float) -> tuple[str, float]:
    """The unit for a time axis that ends at `end_s`, and its length in seconds."""
    for limit, unit, scale in (
        (0.0005, "µs", 1e-6), (0.5, "ms", 1e-3), (300, "s", 1.0), (10800, "min", 60.0)
    ):
        if end_s < limit:
            return unit, scale
    return "h", 3600.0
