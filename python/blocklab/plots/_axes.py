"""Axes of the figures that are drawn by hand: scales, ticks, legends."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .. import _numbers as numbers
from . import _frame

#: Width of a letter at the figures' font size, in px; text is a little narrower in common fonts.
LETTER = 5.9
#: Colours of series. From the seventh series on they come again, dashed or hollow.
COLOURS = [f"c{number}" for number in range(1, 7)]
DASHES = ["", "5 3"]
#: More series than this cannot be told apart.
MAX_SERIES = len(COLOURS) * len(DASHES)


def style(index: int) -> tuple[str, str]:
    """(colour, dashes) of the series at `index`."""
    return COLOURS[index % len(COLOURS)], DASHES[index // len(COLOURS) % len(DASHES)]


@dataclass(frozen=True)
class Scale:
    """From values to px, linear or logarithmic."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """Where `value` lies, in px."""
        low, high, value = (
            (math.log10(v) for v in (self.low, self.high, value)) if self.log
            else (self.low, self.high, value))
        return self.start + (self.end - self.start) * (value - low) / (high - low)

    def moved(self, start: float, end: float) -> Scale:
        """The same scale in another place."""
        return Scale(self.low, self.high, start, end, self.log)

    def ticks(self, about: int) -> list[float]:
        """Round values, about this many."""
        if not self.log:
            return _round_steps(self.low, self.high, about)
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for factors in ((1,), (1, 3), (1, 2, 5)):
            ticks = [factor * 10.0**power for power in range(first, last + 1) for factor in factors]
            ticks = [tick for tick in ticks if self.low * 0.999 <= tick <= self.high * 1.001]
            if len(ticks) >= 3:
                return ticks[:: -(-len(ticks) // (2 * about))]
        return _round_steps(self.low, self.high, about)


def _round_steps(low: float, high: float, about: int) -> list[float]:
    ticks = _frame.ticks(high - low, round(1.4 * about))  # of which it makes that many or fewer
    step = ticks[1] if len(ticks) > 1 else high - low
    first = math.ceil(low / step - 1e-9)
    return [round(step * i, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def domain(values: list[float], *, log: bool = False, zero: bool = False) -> tuple[float, float]:
    """The ends of an axis for `values`: from zero unless they are all far from it."""
    low, high = min(values), max(values)
    if log:
        room = max((high / low) ** 0.06, 1.15)
        return low / room, high * room
    if zero or 0 <= low < 0.6 * high or low == high:
        return min(0.0, low), high * 1.06 if high > 0 else 1.0
    room = 0.08 * (high - low)
    return low - room, high + room


def tick_text(metric: str, value: float) -> str:
    """A value of `metric` as an axis says it; without a metric it is a ratio or a plain number."""
    if numbers.unit(metric) == "us":
        return numbers.tick(value) if value else "0"
    if numbers.unit(metric) == "share":
        return f"{100 * value:g}{numbers.SPACE}%"
    if abs(value) >= 1e6:
        return f"{value / 1e6:g}{numbers.SPACE}M"
    return f"{value:,.10g}".replace(",", numbers.THIN)


def value_text(metric: str, value: float) -> str:
    """A value of `metric` beside its bar."""
    if numbers.unit(metric) == "share":
        return f"{100 * value:.1f}{numbers.SPACE}%"
    return f"{value:.3f}" if not metric else numbers.metric(metric, value)


def width_of(text: str) -> float:
    """About how wide `text` is, in px."""
    return LETTER * len(text)


def legend(canvas: _frame.Canvas, y: float, names: list[str], *, lines: bool) -> float:
    """Names beside their colours, in as many rows as they need; returns the height taken."""
    x, top = 0.0, y
    for index, name in enumerate(names):
        width = 22 + width_of(name) + 16
        if x and x + width > canvas.width:
            x, y = 0.0, y + 16
        colour, dash = style(index)
        if lines:
            canvas.path([(x, y - 4), (x + 17, y - 4)], colour, 2.2, dash)
        else:
            canvas.dot(x + 9, y - 4, colour, 4, hollow=bool(dash))
        canvas.text(x + 22, y, name, fill="ink")
        x += width
    return y - top + 20 if names else 0.0
