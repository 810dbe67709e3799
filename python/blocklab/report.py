"""`python -m blocklab.report DIR [--figure NAME] [--out FILE]`: one offline HTML page from a run
directory, or one of its figures as SVG.

Calling the module does the same, so that `blocklab.report(DIR)` works whether or not somebody has
imported this file, which would otherwise hide the function of that name.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from types import ModuleType


def write(directory: str | PathLike[str], out: str | PathLike[str] | None = None) -> Path:
    """Write the report of a run directory and return its path: DIR/report.html by default."""
    from ._report.page import write as write_page

    return write_page(directory, out)


def write_figure(
    directory: str | PathLike[str], name: str, out: str | PathLike[str] | None = None
) -> Path:
    """Write one figure of a run directory as SVG and return its path: DIR/NAME.svg by default."""
    from ._report.page import write_figure as write_one

    return write_one(directory, name, out)


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page, print its path; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="blocklab report", description="One offline HTML page from a run directory.")
    parser.add_argument("directory", metavar="DIR", help="a run directory, as `run --out` made it")
    parser.add_argument("--out", metavar="FILE", help="where to write (DIR/report.html)")
    parser.add_argument("--figure", metavar="NAME", help="only this figure, as SVG (DIR/NAME.svg)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    arguments = parser.parse_args(argv)

    from .errors import StudyError

    try:
        if arguments.figure:
            path = write_figure(arguments.directory, arguments.figure, arguments.out)
        else:
            path = write(arguments.directory, arguments.out)
    except StudyError as error:
        print(error, file=sys.stderr)
        if arguments.json:
            print(json.dumps(error.to_json()))
        return error.exit_code
    what = "figure" if arguments.figure else "report"
    print(json.dumps({what: str(path)}) if arguments.json else path)
    return 0


class _Callable(ModuleType):
    def __call__(
        self, directory: str | PathLike[str], out: str | PathLike[str] | None = None
    ) -> Path:
        return write(directory, out)


sys.modules[__name__].__class__ = _Callable

if __name__ == "__main__":
    sys.exit(main())
