"""Names beside dots, so that none covers another, a dot, or leaves its panel."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from . import _axes

#: Height of a line of text at the figures' font size, in px.
LINE = 12.0
_RADII = (8.0, 11.0, 15.0, 20.0, 26.0, 34.0, 44.0, 56.0, 70.0, 86.0)
_ANGLES = [math.radians(angle) for angle in (
    0, 180, 50, -130, -90, 90, -50, 130, 25, -155, -25, 155)]


@dataclass(frozen=True)
class Box:
    """A rectangle in px."""

    left: float
    top: float
    right: float
    bottom: float

    def overlap(self, other: Box) -> float:
        """The area that both cover."""
        width = min(self.right, other.right) - max(self.left, other.left)
        height = min(self.bottom, other.bottom) - max(self.top, other.top)
        return width * height if width > 0 and height > 0 else 0.0

    def inside(self, other: Box) -> bool:
        """True when nothing of it lies outside `other`."""
        return (self.left >= other.left and self.right <= other.right
                and self.top >= other.top and self.bottom <= other.bottom)


@dataclass(frozen=True)
class Label:
    """A name and where it stands."""

    text: str
    box: Box
    #: The end that stays where it is when the letters turn out wider than thought.
    anchor: str
    #: From the dot to the name, where they are too far apart to belong together by themselves.
    leader: tuple[float, float, float, float] | None

    @property
    def x(self) -> float:
        """Where the anchor is."""
        middle = (self.box.left + self.box.right) / 2
        return {"start": self.box.left, "end": self.box.right}.get(self.anchor, middle)

    @property
    def covered(self) -> list[Box]:
        """What the name and its leader cover."""
        if self.leader is None:
            return [self.box]
        x1, y1, x2, y2 = self.leader
        way = [(x1 + (x2 - x1) * step / 8, y1 + (y2 - y1) * step / 8) for step in range(2, 8)]
        return [self.box, *(Box(x - 1, y - 1, x + 1, y + 1) for x, y in way)]


def place(
    dots: list[tuple[float, float, str]], panel: Box, line: Sequence[tuple[float, float]] = ()
) -> list[Label]:
    """A place for the name of every dot (x, y, name), the first ones served first; none lies on
    the line, whose pieces are horizontal and vertical.
    """
    taken = [Box(x - 4.5, y - 4.5, x + 4.5, y + 4.5) for x, y, _ in dots]
    for (x1, y1), (x2, y2) in zip(line, line[1:], strict=False):
        taken.append(Box(min(x1, x2) - 1, min(y1, y2) - 1, max(x1, x2) + 1, max(y1, y2) + 1))
    labels: list[Label] = []
    for x, y, text in dots:
        best: tuple[float, Label] | None = None
        for radius in _RADII:
            for angle in _ANGLES:
                label = _candidate(x, y, text, radius, angle)
                if not label.box.inside(panel):
                    continue
                cost = sum(mine.overlap(other) for mine in label.covered for other in taken)
                if best is None or cost < best[0]:
                    best = (cost, label)
                if cost == 0:
                    break
            if best is not None and best[0] == 0:
                break
        if best is not None:
            labels.append(best[1])
            taken.extend(best[1].covered)
    return labels


def _candidate(x: float, y: float, text: str, radius: float, angle: float) -> Label:
    """The name with its nearest edge `radius` away from the dot, in the direction `angle`."""
    width = 1.07 * _axes.width_of(text)  # it may be bold
    dx, dy = math.cos(angle), math.sin(angle)
    side, anchor = (
        (0.0, "start") if dx > 0.1 else (1.0, "end") if dx < -0.1 else (0.5, "middle"))
    left = x + radius * dx - side * width
    middle = y + max(radius, 11.0 if side == 0.5 else 0.0) * dy
    box = Box(left, middle - LINE / 2, left + width, middle + LINE / 2)
    end = x + (radius - 2) * dx, y + (radius - 2) * dy
    far = radius > 16
    return Label(text, box, anchor, (x + 5 * dx, y + 5 * dy, *end) if far else None)
