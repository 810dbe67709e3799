"""Assemble the page. It reads only what a run wrote, and loads nothing when opened."""

from __future__ import annotations

import errno
import html
import math
import os
import re
import tempfile
from dataclasses import dataclass
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from .. import _numbers as numbers
from ..errors import StudyError
from ..plots import MAX_FIGURES, Figure, _layout, own, registry
from ..rundir import Run, RunDirectory
from . import verdict

#: A report larger than this no longer opens anywhere and travels by mail.
MAX_BYTES = 2_000_000
#: Around a figure in a file of its own, in px.
_MARGIN = 12
#: What begins a page and a figure of ours. Only such a file is written over; `run` knows them, too.
_MARKS = ("blocklab</title>", "<!-- made by blocklab -->")
#: A mark stands within so many bytes.
_MARK_WITHIN = 4096
#: Endings that promise what a figure is not.
_OTHER_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf", ".eps", ".ps")
#: More runs than this are rows with the main metrics, not columns with all of them.
MAX_COLUMNS = 8

_MAIN_METRICS = (
    "iops", "throughput_mb_s", "read_latency_us_p50", "read_latency_us_p99",
    "write_latency_us_p50", "write_latency_us_p99", "latency_us_max", "discard_iops",
    "discard_latency_us_p99", "waf", "utilisation_max",
)


@dataclass(frozen=True)
class Table:
    """A table of text: header and rows."""

    header: list[str]
    rows: list[list[str]]


def write(directory: str | PathLike[str], out: str | PathLike[str] | None = None) -> Path:
    """Write the report of the run directory and return its path: DIR/report.html by default."""
    data = RunDirectory(directory)
    target = Path(out) if out is not None else data.path / "report.html"
    _save(target, render(data))
    return target


def write_figure(
    directory: str | PathLike[str], name: str, out: str | PathLike[str] | None = None
) -> Path:
    """Write one figure of the run directory, for a page of your own; DIR/NAME.svg by default.

    The drawing follows the reader's light or dark theme, as the report does.
    """
    target = Path(out) if out is not None else Path(directory) / f"{name}.svg"
    if target.suffix.lower() in _OTHER_IMAGES:
        raise StudyError(
            f"error: a figure is SVG, and {target} ends in {target.suffix}\n"
            f"  = expected: {target.with_suffix('.svg')}\n"
            "  = help: a browser or rsvg-convert makes other kinds of it",
            file=str(target))
    _save(target, figure(directory, name))
    return target


def figure(directory: str | PathLike[str], name: str) -> str:
    """One figure of the run directory as an SVG file."""
    data = RunDirectory(directory)
    plots = own(data) | registry()
    if name not in plots:
        raise StudyError(
            f"error: there is no figure named `{name}`\n  = expected: {', '.join(plots)}")
    drawn = plots[name](data)
    if drawn is None:
        raise StudyError(
            f"error: the runs hold no data for the figure `{name}`\n  --> {data.path}",
            file=str(data.path))
    return standalone(drawn)


def standalone(figure: Figure) -> str:
    """The figure as an SVG file that needs no page around it."""
    found = re.match(r'<svg[^>]* viewBox="0 0 ([\d.]+) ([\d.]+)">', figure.svg)
    assert found, "every figure starts with its view box"
    width, height = (math.ceil(float(size)) + 2 * _MARGIN for size in found.groups())
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="{-_MARGIN} {-_MARGIN} {width} {height}">'
        f"{_MARKS[1]}<title>{html.escape(figure.alt)}</title>"
        f"<style>\n{_resource('theme.css')}</style>"
        f'<rect x="{-_MARGIN}" y="{-_MARGIN}" width="{width}" height="{height}" '
        f'fill="var(--page)"/>{figure.svg[found.end():]}\n'
    )


def _resource(name: str) -> str:
    return (files(__package__) / name).read_text("utf-8")


def _save(target: Path, text: str) -> None:
    if _is_foreign(target):
        raise StudyError(
            f"error: {target} exists already, and no report wrote it\n"
            "  = expected: a name that is free\n"
            "  = help: choose another name, or delete the file first",
            file=str(target),
        )
    try:
        _replace(target, text)
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise StudyError(
            f"error: cannot write the report: {error.strerror}\n  --> {target}\n"
            "  = help: name another file: `--out FILE`",
            kind="machine" if full else "input", file=str(target),
        ) from error


def render(data: RunDirectory) -> str:
    """The page as text."""
    figures, missing = _figures(data)
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    template = environment.from_string(_resource("page.html.j2"))
    result = data.result
    return template.render(
        css=Markup(_resource("theme.css") + _resource("page.css")),
        study=result["study"],
        title=result.get("title") or result["study"],
        question=result.get("question") or "",
        verdict=verdict.judge(data),
        claims=verdict.judge_claims(data),
        strip=_strip(data),
        notes=_notes(data),
        gates=_gates(data),
        figures=[(figure, Markup(figure.svg)) for figure in figures],
        missing=missing,
        table=_table(data),
        limits=result.get("limits") or [],
        replay=result.get("replay") or f"blocklab run {result['study']}",
        files=[(file.name, _size(file.stat().st_size)) for file in data.files],
    )


def _figures(data: RunDirectory) -> tuple[list[Figure], list[str]]:
    """The study's own figures, then the plots it asks for, at most MAX_FIGURES of these; and what
    could not be drawn.
    """
    plots = registry()
    wanted = data.result.get("plots")
    names = list(plots)[:MAX_FIGURES] if wanted is None else [str(name) for name in wanted]
    missing = [f"{name}: no such plot; there are {', '.join(plots)}"
               for name in dict.fromkeys(names) if name not in plots]
    asked = {name: plots[name] for name in names if name in plots}
    figures: list[Figure] = []
    drawn = 0
    for name, draw in (own(data) | asked).items():
        if name in asked and drawn == MAX_FIGURES:
            missing.append(f"{name}: a report has at most {MAX_FIGURES} plots")
        elif (figure := draw(data)) is None:
            missing.append(f"{name}: the runs hold no data for it")
        else:
            figures.append(figure)
            drawn += name in asked
    return figures, missing


def _strip(data: RunDirectory) -> list[tuple[str, list[str]]]:
    """The configuration strip: what anybody needs to tell this result from another."""
    result = data.result
    runs = data.runs
    version = str(result.get("version") or "")
    if result.get("code_version"):
        version += f" (code {str(result['code_version'])[:12]})"
    simulated = [time for run in runs if (time := run.metric("simulated_s")) is not None]
    seeds = sorted({run.seed for run in runs if run.seed is not None})
    strip = [
        ("study", [str(result["study"])]),
        ("blocklab", [version]),
        ("runs", [f"{len(runs)}"]),
        ("seeds" if len(seeds) > 1 else "seed", [_span(seeds)]),
        ("simulated time", [numbers.seconds(sum(simulated))] if any(simulated) else []),
        ("configuration digest", [str(result["digest"])]),
        ("result digest", [str(result.get("result_digest") or "")]),
        ("device", list(dict.fromkeys(_device(run) for run in runs))),
        ("workload", list(dict.fromkeys(run.workload for run in runs))),
    ]
    shown = [(key, [line for line in lines if line]) for key, lines in strip]
    return [(key, _cut(lines)) for key, lines in shown if lines]


def _cut(lines: list[str]) -> list[str]:
    """At most six lines; what is left out is said."""
    return lines if len(lines) <= 6 else [*lines[:5], f"… and {len(lines) - 5} more"]


def _span(seeds: list[int]) -> str:
    shown = ", ".join(str(seed) for seed in seeds[:4])
    return shown if len(seeds) <= 4 else f"{shown}, … ({len(seeds)})"


def _device(run: Run) -> str:
    device = run.device
    part, model = device.get("part"), device.get("model")
    words = [str(part or model or "")]
    inside = [str(model)] if part and model else []
    if device.get("status"):
        inside.append(str(device["status"]))
    if device.get("error"):
        inside.append(str(device["error"]))
    return words[0] + (f" ({', '.join(inside)})" if inside and words[0] else "")


def _notes(data: RunDirectory) -> list[str]:
    """What the runs said aloud, with the runs that said it."""
    said: dict[str, list[Run]] = {
        str(note): data.runs for note in data.result.get("notes") or []}
    for run in data.runs:
        for note in run.notes:
            if said.get(note) is not data.runs:
                said.setdefault(note, []).append(run)
    return [
        note if len(runs) == len(data.runs)
        else f"{', '.join(run.label for run in runs[:3])}{' …' if len(runs) > 3 else ''}: {note}"
        for note, runs in said.items()
    ]


def _gates(data: RunDirectory) -> list[tuple[str, str]]:
    """(pass | fail | none, sentence) for the steady-state gate."""
    gates = [(run, run.gate) for run in data.runs if run.gate]
    if not gates:
        return [("none", "This study has no steady-state gate: the runs measure from their start "
                 "state, or after a fixed preconditioning.")]
    failed = [run for run, gate in gates if not gate.get("steady")]
    rounds = [int(gate["rounds"]) for _, gate in gates if gate.get("rounds") is not None]
    span = ""
    if rounds:
        low, high = min(rounds), max(rounds)
        span = f" after {low} rounds" if low == high else f" after {low} to {high} rounds"
    total = len(gates)
    if failed:
        names = ", ".join(run.label for run in failed[:4])
        return [("fail", f"{len(failed)} of {total} runs did not reach steady state{span}: "
                 f"{names}. Their numbers describe a transient.")]
    return [("pass", f"{total} of {len(data.runs)} runs went through the SNIA gate and reached "
             f"steady state{span}.")]


def _table(data: RunDirectory) -> Table:
    """All metrics by run; for many runs, the main metrics by row."""
    runs = data.runs
    axes = list(data.axes)

    def name(run: Run) -> str:
        text = _layout.name_of(run, axes) or str(data.result["study"])
        repeats = any(other.repeat for other in runs)
        return f"{text} · repeat {run.repeat}" if repeats else text

    defined = list(dict.fromkeys(
        key for run in runs for key, value in run.metrics.items() if value is not None))
    if len(runs) <= MAX_COLUMNS:
        return Table(
            ["metric", *(name(run) for run in runs)],
            [[key, *(numbers.metric(key, run.metric(key)) for run in runs)] for key in defined],
        )
    # A metric that is zero in every run, such as a latency where no time passes, says nothing.
    main = [key for key in _MAIN_METRICS if any(run.metric(key) for run in runs)]
    return Table(
        ["run", *main],
        [[name(run), *(numbers.metric(key, run.metric(key)) for key in main)] for run in runs],
    )


def _size(length: int) -> str:
    for unit in ("B", "KiB", "MiB"):
        if length < 1024 or unit == "MiB":
            break
        length_text = length / 1024
        length = round(length_text)
    return f"{numbers.count(length)}{numbers.SPACE}{unit}"


def _is_foreign(target: Path) -> bool:
    """Whether there is a file with content that no report wrote."""
    if not target.is_file():
        return False
    with target.open("rb") as file:
        begin = file.read(_MARK_WITHIN).decode("utf-8", "replace")
    return bool(begin) and not any(mark in begin for mark in _MARKS)


def _replace(target: Path, text: str) -> None:
    """Write beside the target and rename, so that a full disk leaves no half page.

    A link to a file stays one; what is no file, a device or a pipe, is written into.
    """
    if target.exists() and not target.is_file():
        target.write_text(text, encoding="utf-8")
        return
    target = target.resolve()
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise
