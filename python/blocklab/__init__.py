"""blocklab: a laboratory for Linux storage on flash.

>>> import blocklab
>>> result = blocklab.run("first-look")            # doctest: +SKIP
>>> result = blocklab.open("out/first-look")       # doctest: +SKIP
>>> result.runs.select("label", "read_latency_us_p99")   # doctest: +SKIP
>>> result.report()                                # doctest: +SKIP
"""

from __future__ import annotations

import json
from os import PathLike
from pathlib import Path
from typing import Any

from . import _core
from ._core import __version__
from ._traces import trace
from .errors import StudyError, text_of
from .result import Claim, Expectation, Figure, Result, open
from .study import Study, run, sweep

__all__ = [
    "Claim", "Expectation", "Figure", "Result", "Study", "StudyError", "__version__",
    "explain", "list", "open", "report", "run", "schema", "sweep", "trace",
]  # fmt: skip


def list() -> dict[str, dict[str, str]]:  # noqa: A001: the command line's own word
    """What there is to choose from: kind (studies, parts, metrics, slots of models) -> name ->
    one line."""
    return {kind: dict(entries) for kind, entries in _core.kinds()}


def explain(name: str) -> str:
    """The documentation of a model, a part, a study or a metric, such as `gc.greedy` or `waf`.

    Raises StudyError with the nearest name if there is none of that name.
    """
    return _core.explain(text_of(name, "the name"))


def schema() -> dict[str, Any]:
    """The JSON Schema of a study."""
    return dict(json.loads(_core.schema()))


def report(directory: str | PathLike[str], out: str | PathLike[str] | None = None) -> Path:
    """Write the HTML report of a run directory and return its path.

    `out` is `report.html` in the directory by default. Raises StudyError if the directory holds no
    complete run.
    """
    from ._report.page import write

    return write(directory, out)
