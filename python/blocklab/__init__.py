"""blocklab: a laboratory for Linux storage on flash.

>>> import blocklab
>>> result = blocklab.run("first-look")            # doctest: +SKIP
>>> result.runs.select("label", "read_latency_us_p99")   # doctest: +SKIP
>>> result.report()                                # doctest: +SKIP
"""

from __future__ import annotations

from os import PathLike
from pathlib import Path

from ._core import __version__
from .errors import StudyError
from .study import Expectation, Result, run

__all__ = ["Expectation", "Result", "StudyError", "__version__", "report", "run"]


def report(directory: str | PathLike[str], out: str | PathLike[str] | None = None) -> Path:
    """Write the HTML report of a run directory and return its path.

    `out` is `report.html` in the directory by default. Raises StudyError if the directory holds no
    complete run.
    """
    from ._report.page import write

    return write(directory, out)
