"""The figures of a report: one file each, one line here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ..rundir import RunDirectory


@dataclass(frozen=True)
class Figure:
    """One figure, ready for the page."""

    #: What the figure shows, as a finding with its number.
    title: str
    #: The quantity and its unit.
    subtitle: str
    #: The drawing: an `<svg>` element that uses the page's CSS variables.
    svg: str
    #: How to read it, for the fold.
    how: str
    #: What a person who cannot see it should know.
    alt: str
    #: The data's file name in the run directory.
    data: str
    #: What is not drawn, said aloud; empty when everything is.
    note: str = ""


#: A plot: a figure from what a run wrote, or None when there is nothing to draw.
Plot = Callable[[RunDirectory], Figure | None]

#: More plots than this and nobody reads any. Figures of the study's own come on top: their number
#: is the study's choice, at most eight.
MAX_FIGURES = 5


def registry() -> dict[str, Plot]:
    """The plots by name, in the order of a report."""
    from . import latency_heatmap, mapping, percentiles, throughput, utilisation, waf

    return {
        "percentiles": percentiles.draw,
        "throughput": throughput.draw,
        "latency-heatmap": latency_heatmap.draw,
        "utilisation": utilisation.draw,
        "waf": waf.draw,
        "map": mapping.draw,
    }


def own(data: RunDirectory) -> dict[str, Plot]:
    """The study's own figures by name, in its order."""
    from . import _own

    return {name: partial(_own.draw, name=name) for name in data.drawings}
