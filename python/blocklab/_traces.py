"""Recorded requests as frames."""

from __future__ import annotations

import json
import tempfile
import warnings
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import polars as pl

from . import _core
from .errors import path_of


def trace(
    file: str | PathLike[str], format: str | None = None, **parameters: Any  # noqa: A002
) -> pl.DataFrame:
    """A recorded trace as a frame: one row per request.

    `time_ns` counts from the first request (null where the trace has no times); `op` is `read`,
    `write`, `flush` or `discard`; `sector` and `sectors` are of 512 bytes; `fua` is true of a write
    that had to be durable; `device` is its name, `process` a number; `response_ns` is how long it
    took (null where the trace does not say).

    The format is recognised by content; `format` and its `parameters` say it otherwise, as in
    `trace("t.log", "msr")`. Plain, gzip and zstd files are read.

    Warns (`UserWarning`) of what was left out, and of what the format does not say.

    Raises StudyError with the line, or the byte, that is wrong.
    """
    words = [
        f"{key}={value if isinstance(value, str) else json.dumps(value)}"
        for key, value in parameters.items()
    ]
    with tempfile.TemporaryDirectory(prefix="blocklab-") as folder:
        table = Path(folder) / "trace.parquet"
        remarks = _core.trace(path_of(file, "the trace"), format, words, fspath(table))
        for remark in remarks:
            warnings.warn(remark, stacklevel=2)
        return pl.read_parquet(table, memory_map=False)
