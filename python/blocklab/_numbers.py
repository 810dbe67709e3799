"""Numbers as people read them: three significant digits, SI rates, binary sizes."""

from __future__ import annotations

import functools
import math
from decimal import Decimal

THIN = "\u202f"  # narrow no-break space, between thousands
SPACE = "\u00a0"  # no-break space, before a unit
NONE = "–"


def significant(value: float, digits: int = 3) -> str:
    """`value` to `digits` significant digits, thousands apart, never in exponent form."""
    if value == 0:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{places}f}".replace(",", THIN)
    return text.rstrip("0").rstrip(".") if "." in text and places > digits else text


def count(value: float) -> str:
    """A whole number, thousands apart."""
    return f"{round(value):,}".replace(",", THIN)


def seconds(value: float) -> str:
    """A time in seconds, in the unit that keeps it short."""
    return micros(value * 1e6)


def micros(value: float, digits: int = 3) -> str:
    """A time in microseconds, in the unit that keeps it short."""
    for limit, unit, scale in ((1.0, "ns", 1e3), (1e3, "µs", 1.0), (1e6, "ms", 1e-3)):
        if abs(value) < limit:
            return f"{significant(_cut(value * scale, digits), digits)}{SPACE}{unit}"
    if abs(value) < 180e6:
        return f"{significant(value * 1e-6, digits)}{SPACE}s"
    if abs(value) < 7200e6:
        return f"{significant(value / 60e6, digits)}{SPACE}min"
    return f"{significant(value / 3600e6, digits)}{SPACE}h"


def tick(value: float) -> str:
    """A time in microseconds as an axis says it: a power of ten has no decimals."""
    number, unit = micros(value).split(SPACE)
    return f"{float(number):g}{SPACE}{unit}"


def _cut(value: float, digits: int) -> float:
    return float(f"{value:.{digits}g}")


def percent(share: float, digits: int = 2) -> str:
    """A share as per cent."""
    return f"{significant(100 * share, digits)}{SPACE}%"


def exact(value: float) -> str:
    """`value` with every digit that was written, thousands apart, never in exponent form."""
    if not math.isfinite(value):
        return f"{value:g}"
    text = f"{Decimal(f'{value:.12g}'):,f}".replace(",", THIN)
    return text.rstrip("0").rstrip(".") if "." in text else text


@functools.cache
def _units() -> dict[str, str]:
    from . import _core

    return {name: unit for name, unit, _ in _core.metrics()}


def unit(name: str) -> str:
    """What the metric `name` is in: as its model declares it, of a part of a device, too; empty for
    what is no metric."""
    units = _units()
    return units.get(name, units.get(name.rsplit(".", 1)[-1], ""))


def spoken(name: str, value: float) -> str:
    """The value of the metric `name` as a sentence says it."""
    return f"{value:.2f}" if unit(name) == "1" else metric(name, value)


def bound(name: str, value: float) -> str:
    """A value of the metric `name` that somebody wrote: a rounded bound would be another one."""
    kind = unit(name)
    to_micros = {"us": 1.0, "ms": 1e3, "s": 1e6}.get(kind)
    if to_micros is not None:
        micros = value * to_micros
        limits = ((1.0, "ns", 1e3), (1e3, "µs", 1.0), (1e6, "ms", 1e-3))
        name, scale = next(
            ((short, scale) for limit, short, scale in limits if abs(micros) < limit), ("s", 1e-6))
        return f"{exact(micros * scale)}{SPACE}{name}"
    match kind:
        case "share":
            return f"{exact(100 * value)}{SPACE}%"
        case "1/s":
            return f"{exact(value)}{SPACE}/s"
        case "MB/s" | "MiB/s" | "MB" | "MiB" | "KiB" as known:
            return f"{exact(value)}{SPACE}{known}"
    return exact(value)


def measured(name: str, value: float | None) -> str:
    """The value of the metric `name` beside a bound: a share has the digits of one."""
    if value is not None and math.isfinite(value) and unit(name) == "share":
        return percent(value, 3)
    return metric(name, value)


def metric(name: str, value: float | None) -> str:
    """The value of the metric `name` in its own unit."""
    if value is None or not math.isfinite(value):
        return NONE
    match unit(name):
        case "us":
            return micros(value)
        case "ms":
            return micros(1e3 * value)
        case "s":
            return seconds(value)
        case "share":
            return percent(value)
        case "1":
            return f"{value:.3f}"
        case "1/s":
            number = significant(value) if value < 1000 else count(value)
            return f"{number}{SPACE}/s"
        case "MB/s" | "MiB/s" | "MB" | "MiB" | "KiB" as known:
            return f"{significant(value)}{SPACE}{known}"
    return count(value) if float(value).is_integer() else significant(value)
