"""The one error people see."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike, fsencode, fspath


class StudyError(Exception):
    """What is wrong with a study, a run directory or this machine, and where.

    ``str(error)`` is the whole message as the command line prints it.
    """

    #: ``"input"`` (bad input or usage), ``"machine"`` (this machine lacks something),
    #: ``"interrupted"`` or ``"bug"``.
    kind: str
    #: The file at fault, as it was named, or None.
    file: str | None
    #: Line from 1, or None.
    line: int | None
    #: Column from 1, or None.
    column: int | None

    def __init__(
        self,
        message: str,
        kind: str = "input",
        file: str | None = None,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.file = file
        self.line = line
        self.column = column

    @property
    def exit_code(self) -> int:
        """The exit code of a process that stops on this error: 2, 3, 130 or 101."""
        return {"input": 2, "machine": 3, "interrupted": 130}.get(self.kind, 101)


def wrong_argument(what: str, expected: str) -> StudyError:
    """An argument that cannot be meant."""
    return StudyError(f"error: {what}\n  = expected: {expected}")


def path_of(value: str | PathLike[str], what: str) -> str:
    """`value` as the name of a file or folder, for `what`."""
    if not isinstance(value, str | PathLike):
        raise wrong_argument(f"{what} is {value!r}", "a path")
    return _encoded(fspath(value), what, fsencode)


def text_of(value: str, what: str) -> str:
    """`value` of `what`, which a file can hold."""
    if not isinstance(value, str):
        raise wrong_argument(f"{what} is {value!r}", "text")
    return value if value.isascii() else _encoded(value, what, str.encode)


def _encoded(value: str, what: str, encode: Callable[[str], bytes]) -> str:
    try:
        encode(value)
    except UnicodeEncodeError:
        raise wrong_argument(f"{what} is {value!r}", "text without lone surrogates") from None
    return value
