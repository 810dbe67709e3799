"""What a study answered. The numbers are those of the command line: the same Rust code ran."""

from __future__ import annotations

import html
from dataclasses import dataclass
from functools import cached_property
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import polars as pl

from . import _numbers as numbers
from .errors import StudyError, path_of
from .rundir import read_result

#: Rows and columns of metrics of a table in a notebook.
_ROWS_MAX = 20
_COLUMNS_MAX = 6
#: The metrics that a table shows behind those that the study asks for.
_MAIN_METRICS = (
    "iops", "throughput_mb_s", "read_latency_us_p99", "write_latency_us_p99", "waf",
)


@dataclass(frozen=True)
class Expectation:
    """One expectation of the study, judged."""

    #: The claim.
    text: str
    #: Whether it holds.
    ok: bool
    #: The measured value, None where the metric is undefined.
    value: float | None


@dataclass(frozen=True)
class Claim:
    """One claim of somebody else, judged by the study."""

    #: The claim.
    text: str
    #: Who says so, and where.
    source: str
    #: `"holds"`, `"holds in part"` or `"does not hold"`.
    standing: str
    #: Smallest and largest measured value, None where the metric is undefined everywhere.
    range: tuple[float, float] | None
    #: What would make it hold.
    expected: str

    @property
    def holds(self) -> bool:
        """True when it holds at every point it is about."""
        return self.standing == "holds"


class Result:
    """What a study answered. Everything is also in the files under `path`."""

    def __init__(self, path: Path, document: dict[str, Any]) -> None:
        #: The run directory.
        self.path = path
        #: `result.json` as it is.
        self.document = document

    @property
    def study(self) -> str:
        """The study's name."""
        return str(self.document["study"])

    @property
    def digest(self) -> str:
        """Digest of everything the result depends on."""
        return str(self.document["digest"])

    @property
    def result_digest(self) -> str:
        """Digest of everything that was simulated: equal digests, equal results."""
        return str(self.document["result_digest"])

    @property
    def expectations(self) -> list[Expectation]:
        """The study's expectations and whether they hold."""
        return [
            Expectation(entry["text"], entry["ok"], entry["value"])
            for entry in self.document["expectations"]
        ]

    @property
    def claims(self) -> list[Claim]:
        """What others say about the study's results, and how much of it holds."""
        return [
            Claim(
                entry["text"], entry["source"], entry["standing"],
                tuple(entry["range"]) if entry["range"] else None, entry["expected"])
            for entry in self.document["claims"]
        ]

    @property
    def ok(self) -> bool:
        """True when every expectation holds, and no run came to nothing."""
        held = all(expectation.ok for expectation in self.expectations)
        return held and not any(run.get("failed") for run in self.document["runs"])

    @property
    def metrics(self) -> list[dict[str, float | None]]:
        """The metrics of every run, in the order of the grid."""
        return [dict(run["metrics"]) for run in self.document["runs"]]

    @cached_property
    def runs(self) -> pl.DataFrame:
        """One row per run: label, axes and metrics. Read from `runs.parquet` on first use."""
        return pl.read_parquet(self._place() / "runs.parquet")

    def table(self, name: str) -> pl.LazyFrame:
        """A data file of the run directory, such as `latency` or `series`, read when collected.

        Raises StudyError with the names there are.
        """
        place = self._place()
        file = place / f"{name}.parquet"
        if not file.is_file():
            there = ", ".join(sorted(path.stem for path in place.glob("*.parquet")))
            more = "\n  = help: records=True keeps every request" if name == "requests" else ""
            raise StudyError(
                f"error: {self.path} has no table `{name}`\n  = expected: {there or 'none'}{more}",
                file=str(file))
        return pl.scan_parquet(file)

    def report(self, out: str | PathLike[str] | None = None) -> Path:
        """Write the HTML report and return its path: `report.html` in the run directory."""
        from ._report.page import write

        return write(self._place(), out)

    def figure(self, name: str) -> Figure:
        """One figure of the report as SVG, which a notebook shows: `percentiles`, `throughput`,
        `latency-heatmap`, `utilisation`, `waf`, `map`, or one of the study's own.

        Raises StudyError with the names there are, or when the runs hold no data for it.
        """
        from ._report.page import figure

        return Figure(figure(self._place(), name))

    def _place(self) -> Path:
        """The run directory, as long as it holds this result: a later run to the same place
        replaces it, and its numbers are not this one's."""
        now = read_result(self.path)
        if any(now.get(key) != self.document[key] for key in ("digest", "result_digest")):
            raise StudyError(
                f"error: {self.path} holds the results of a later run\n"
                f"  = expected: those of {self.study} with the digest {self.digest}\n"
                "  = help: give each run a place of its own (out=...), or read `runs` and tables "
                "before the next run",
                file=str(self.path))
        return self.path

    def __repr__(self) -> str:
        held = sum(expectation.ok for expectation in self.expectations)
        return (f"Result({self.study!r}, {len(self.document['runs'])} runs, "
                f"{held} of {len(self.expectations)} expectations held, {str(self.path)!r})")

    def _repr_html_(self) -> str:
        """The verdict and the table of runs, for a notebook."""
        from ._report import verdict
        from .rundir import RunDirectory

        data = RunDirectory(self._place())
        judged = verdict.judge(data)
        lines = [judged.headline, *judged.sentences]
        axes = [*data.axes] or ["label"]
        asked = dict.fromkeys(entry.get("metric", "") for entry in data.study.get("expect") or [])
        metrics = [name for name in [*asked, *_MAIN_METRICS] if name in self.runs.columns]
        metrics = list(dict.fromkeys(metrics))[:_COLUMNS_MAX]
        rows = [
            [*(str(run.params.get(axis, run.label)) for axis in axes),
             *(numbers.metric(name, run.metrics.get(name)) for name in metrics)]
            for run in data.runs[:_ROWS_MAX]
        ]
        more = len(data.runs) - len(rows)
        table = "".join(_row("td", row) for row in rows)
        return (
            f"<div><b>{html.escape(self.document['title'] or self.study)}</b>"
            + "".join(f"<p>{html.escape(line)}</p>" for line in lines)
            + f"<table><thead>{_row('th', [*axes, *metrics])}</thead>{table}</table>"
            + (f"<p>and {more} more runs</p>" if more else "")
            + f"<p><code>{html.escape(fspath(self.path))}</code></p></div>"
        )


def _row(tag: str, cells: list[str]) -> str:
    """A row of a table."""
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"


class Figure(str):
    """An SVG text that a notebook shows as what it draws."""

    def _repr_svg_(self) -> str:
        return str(self)


def open(directory: str | PathLike[str]) -> Result:  # noqa: A001: what it does
    """The result that a run has left in `directory`.

    Raises StudyError when no run has finished there.
    """
    path = Path(path_of(directory, "the directory"))
    return Result(path, read_result(path))
