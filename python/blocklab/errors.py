"""The one error people see."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike, fsencode, fspath
from typing import Any


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

    def to_json(self) -> dict[str, Any]:
        """The same object, `{"error": ...}`, that `--json` prints of a failure."""
        said = str(self).splitlines() or [""]
        return {"error": {
            "kind": self.kind,
            "exit_code": self.exit_code,
            "message": said[0].removeprefix("error: "),
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "byte": self._byte(said),
            "expected": _behind("  = expected: ", said),
            "help": _behind("  = help: ", said),
        }}

    @staticmethod
    def _byte(said: list[str]) -> int | None:
        """The byte of the file at fault, which only the message has."""
        place = _behind("  --> ", said) or ""
        number = place.rpartition(", byte ")[2]
        return int(number) if ", byte " in place and number.isdecimal() else None


def _behind(mark: str, lines: list[str]) -> str | None:
    """What the line with this mark says."""
    return next((line.removeprefix(mark) for line in lines if line.startswith(mark)), None)


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
