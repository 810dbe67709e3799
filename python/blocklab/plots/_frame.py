"""Frames for dense maps: axes and words as SVG, the cells as one small PNG per theme."""

from __future__ import annotations

import base64
import html
import io
import math

from PIL import Image

from . import _style

_LEVELS = 255


class Canvas:
    """An SVG under construction; coordinates in px, colours by token name."""

    def __init__(self, width: float) -> None:
        self.width = width
        self._parts: list[str] = []

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        anchor: str = "start",
        fill: str = "muted",
        weight: int = 400,
        halo: bool = False,
    ) -> None:
        """One line of text with its baseline at `y`; a halo keeps it apart from lines below."""
        paint = ' paint-order="stroke" stroke="var(--page)" stroke-width="3"' if halo else ""
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="var(--{fill})" '
            f'font-size="11px" font-weight="{weight}"{paint}>{html.escape(text)}</text>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, stroke: str = "grid") -> None:
        """A hairline."""
        self._parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
            f'stroke="var(--{stroke})"/>'
        )

    def rect(self, x: float, y: float, width: float, height: float, fill: str) -> None:
        """A filled rectangle."""
        self._parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
            f'fill="var(--{fill})"/>'
        )

    def path(
        self, points: list[tuple[float, float]], stroke: str, width: float = 1.8, dash: str = ""
    ) -> None:
        """A line through `points`."""
        steps = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self._parts.append(
            f'<polyline points="{steps}" fill="none" stroke="var(--{stroke})" '
            f'stroke-width="{width}" stroke-linejoin="round"{dashes}/>'
        )

    def dot(self, x: float, y: float, fill: str, radius: float = 3.5, *, hollow: bool = False
            ) -> None:
        """A dot, full or as a ring."""
        inside, ring = ("page", fill) if hollow else (fill, "page")
        self._parts.append(
            f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="var(--{inside})" '
            f'stroke="var(--{ring})" stroke-width="{1.6 if hollow else 0.8}"/>'
        )

    def cells(
        self, x: float, y: float, width: float, height: float, rows: list[list[float]]
    ) -> None:
        """A map of shares 0..1, first row on top; 0 is left empty."""
        for theme, ramp in (("on-light", LIGHT), ("on-dark", DARK)):
            self._parts.append(
                f'<image class="{theme}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
                f'height="{height:.1f}" preserveAspectRatio="none" '
                f'href="data:image/png;base64,{_png(rows, ramp)}"/>'
            )

    def svg(self, height: float) -> str:
        """The finished drawing."""
        return (
            f'<svg class="figure" style="max-width:{self.width:.0f}px" aria-hidden="true" '
            f'viewBox="0 0 {self.width:.0f} {height:.0f}">{"".join(self._parts)}</svg>'
        )


def _png(rows: list[list[float]], ramp: list[tuple[int, int, int]]) -> str:
    height, width = len(rows), len(rows[0])
    image = Image.new("P", (width, height))
    image.putpalette([channel for colour in ((0, 0, 0), *ramp) for channel in colour])
    image.putdata([  # 0 is the transparent entry, so the faintest cell is 1
        0 if share <= 0 else 1 + round(min(share, 1.0) * (_LEVELS - 1))
        for row in rows for share in row
    ])
    out = io.BytesIO()
    image.save(out, "PNG", optimize=True, transparency=0)
    return base64.b64encode(out.getvalue()).decode("ascii")


def _oklch(lightness: float, chroma: float, hue: float) -> tuple[int, int, int]:
    """OKLCH to sRGB; B. Ottosson, "A perceptual color space for image processing" (2020)."""
    a = chroma * math.cos(math.radians(hue))
    b = chroma * math.sin(math.radians(hue))
    long = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3
    medium = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3
    short = (lightness - 0.0894841775 * a - 1.2914855480 * b) ** 3
    linear = (
        4.0767416621 * long - 3.3077115913 * medium + 0.2309699292 * short,
        -1.2684380046 * long + 2.6097574011 * medium - 0.3413193965 * short,
        -0.0041960863 * long - 0.7034186147 * medium + 1.7076147010 * short,
    )

    def encode(value: float) -> int:
        value = min(max(value, 0.0), 1.0)
        curve = 12.92 * value if value <= 0.0031308 else 1.055 * value ** (1 / 2.4) - 0.055
        return round(255 * curve)

    red, green, blue = (encode(value) for value in linear)
    return red, green, blue


def _ramp(start: float, end: float, hues: tuple[float, float]) -> list[tuple[int, int, int]]:
    """Even steps of lightness from `start` to `end`, hue turning along."""
    return [
        _oklch(
            start + (end - start) * share,
            0.13 * math.sin(math.pi * (0.08 + 0.8 * share)),
            hues[0] + (hues[1] - hues[0]) * share,
        )
        for share in (level / (_LEVELS - 1) for level in range(_LEVELS))
    ]


#: Faint to strong, on paper: pale green to deep violet.
LIGHT = _ramp(0.92, 0.28, (165.0, 300.0))
#: Faint to strong, on a dark page: deep violet to pale green-yellow.
DARK = _ramp(0.36, 0.96, (300.0, 130.0))


def scale_key(canvas: Canvas, x: float, y: float, low: str, high: str) -> None:
    """A thin ramp from `low` to `high`, ending at `x`, centred on `y`."""
    width = 90.0
    after = 6.8 * len(high) + 6  # text is narrower than that in every common font
    canvas.text(x, y + 4, high, anchor="end")
    canvas.cells(x - after - width, y - 4, width, 8, [[(i + 1) / 90 for i in range(90)]])
    canvas.text(x - after - width - 6, y + 4, low, anchor="end")


def time_axis(canvas: Canvas, x: float, y: float, width: float, end_s: float) -> None:
    """Ticks with labels under a panel that runs from 0 to `end_s`."""
    unit, scale = _style.time_unit(end_s)
    for tick in ticks(end_s / scale, 4):
        at = x + width * tick * scale / end_s
        last = at > x + width - 14
        canvas.line(at, y, at, y + 4)
        anchor = "start" if tick == 0 else ("end" if last else "middle")
        canvas.text(at, y + 15, f"{tick:g} {unit}", anchor=anchor)


def ticks(end: float, about: int) -> list[float]:
    """Round steps of 1, 2 or 5 from 0 to `end`, about this many."""
    if end <= 0:
        return [0.0]
    raw = end / about
    base = 10.0 ** math.floor(math.log10(raw))
    step = next(base * m for m in (1, 2, 5, 10) if base * m >= raw * 0.999)
    return [round(step * i, 12) for i in range(math.floor(end / step + 1e-9) + 1)]
