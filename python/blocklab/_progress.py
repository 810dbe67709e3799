"""How far a study is, on stderr: on a terminal and in a notebook."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Shorter studies show nothing.
_QUIET_S = 1.0

#: Told the share that is done and the runs that are finished.
Tell = Callable[[float, int], None]


@contextmanager
def shown(
    progress: bool | Callable[[float, int, int], None] | None, runs: int
) -> Iterator[Tell | None]:
    """What is to be told how far a study of that many runs is; None when nobody wants to know."""
    if progress is not None and not isinstance(progress, bool):
        told = progress
        yield lambda share, finished: told(share, finished, runs)
        return
    if progress is None:
        progress = sys.stderr.isatty() or "ipykernel" in sys.modules
    if not progress:
        yield None
        return
    line = _Line(runs)
    try:
        yield line.tell
    finally:
        line.clear()


class _Line:
    """A line that is written over."""

    def __init__(self, runs: int) -> None:
        self.runs = runs
        self.began = time.monotonic()
        self.width = 0

    def tell(self, share: float, finished: int) -> None:
        took = time.monotonic() - self.began
        if took < _QUIET_S:
            return
        text = f"{100 * share:3.0f} %  {finished}/{self.runs} runs"
        if share > 0.01:
            text += f", {took * (1 / share - 1):.0f} s left"
        self._write(text)

    def clear(self) -> None:
        if self.width:
            self._write("")
            sys.stderr.write("\r")

    def _write(self, text: str) -> None:
        sys.stderr.write(f"\r{text:{self.width}}")
        sys.stderr.flush()
        self.width = len(text)
