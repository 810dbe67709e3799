"""Run studies from Python. The numbers are those of the command line: the same Rust code runs."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from . import _core
from ._progress import shown
from .errors import StudyError, text_of, path_of, wrong_argument
from .result import Result

#: What a key of a study may be set to: what TOML knows, and the path of a file.
Value = bool | int | float | str | PathLike[str] | Sequence[Any] | Mapping[str, Any]

#: Runs at a time; more than any machine has cores.
JOBS_MAX = 65_535

#: Told how far a study is: the share that is done, runs that are finished, runs there are.
Tell = Callable[[float, int, int], None]


class Study:
    """A question: devices, workloads, axes. It never changes; `set` and `sweep` give new ones.

    >>> depth = blocklab.Study("read-latency-vs-depth")         # doctest: +SKIP
    >>> depth.sweep({"workload.fio.iodepth": [1, 2, 4]}).run()  # doctest: +SKIP
    """

    def __init__(self, study: str | PathLike[str] | Mapping[str, Value]) -> None:
        """`study` is a file (with a `/` or ending in `.toml`), the name of a shipped study, or the
        document itself, as `tomllib.load` would read it from a file. Files that a document names
        are looked for in the current directory.
        """
        self._text: str | None
        if isinstance(study, Mapping):
            self._name, self._text = "study", _text(study)
        elif isinstance(study, str | PathLike):
            self._name, self._text = text_of(path_of(study, "the study"), "the study"), None
        else:
            raise wrong_argument(
                f"the study is {study!r}",
                "a file, the name of a shipped study, or a document (a dict)")
        #: What is laid over it, the last on top.
        self._laid: dict[str, Value] = {}

    def set(self, values: Mapping[str, Value]) -> Study:
        """The same with values laid over keys: `{"device.ssd.gc": "greedy"}`. An axis that is set
        to one value is gone."""
        if not isinstance(values, Mapping):
            raise wrong_argument(f"set is {values!r}", 'keys and values: {"study.seed": 2}')
        other = self._copy()
        for key, value in values.items():
            other._without(key)[key] = value
        return other

    def sweep(self, axes: Mapping[str, Sequence[Value]]) -> Study:
        """The same with these axes, besides those it has: `{"workload.fio.iodepth": [1, 4]}`."""
        if not isinstance(axes, Mapping):
            raise wrong_argument(f"the axes are {axes!r}", 'keys and lists: {"study.seed": [1, 2]}')
        for key, values in axes.items():
            if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
                raise wrong_argument(f"the axis {key} is {values!r}", "a list of values")
        other = self._copy()
        for key, values in axes.items():
            other._without(key)[_axis(key)] = [*values]
        return other

    def __len__(self) -> int:
        """The number of runs.

        Raises StudyError with the place of whatever is wrong with the study, as `labels` and `run`.
        """
        return len(self.labels)

    @property
    def labels(self) -> list[str]:
        """The label of each run, in the order of the grid."""
        return [label for label, _, _ in self._plan().runs]

    def run(
        self,
        jobs: int | None = None,
        out: str | PathLike[str] | None = None,
        *,
        records: bool = False,
        perfetto: bool = False,
        progress: bool | Tell | None = None,
        on: str | None = None,
        cache: str | PathLike[str] | None = None,
    ) -> Result:
        """Run it and return what it answered; see `blocklab.run`."""
        if jobs is not None and (type(jobs) is not int or not 1 <= jobs <= JOBS_MAX):
            raise wrong_argument(f"jobs is {jobs!r}", f"a whole number from 1 to {JOBS_MAX}")
        if progress is not None and not isinstance(progress, bool) and not callable(progress):
            raise wrong_argument(f"progress is {progress!r}", "True, False, or a function to call")
        for name, wanted in (("records", records), ("perfetto", perfetto)):
            if not isinstance(wanted, bool):
                raise wrong_argument(f"{name} is {wanted!r}", "True or False")
        if on is not None and not isinstance(on, str):
            raise wrong_argument(f"on is {on!r}", "`ray`, or `ray://HOST:PORT` of a cluster")
        if on is not None and (records or perfetto):
            raise wrong_argument(
                "on a cluster, what single requests did stays on the machine that ran them",
                "records and perfetto without on")
        if on is None and cache is not None:
            raise wrong_argument(
                f"cache is {cache!r}", "it with on, as the folder that a cluster's machines share")
        plan = self._plan()
        directory = Path("out") / plan.name if out is None else Path(path_of(out, "out"))
        with shown(progress, len(plan.runs)) as tell:
            if on is not None:
                from . import cluster

                cluster.fill(plan, self._words(), directory, on, cache, tell)
            place, text = plan.run(
                jobs or 0, fspath(directory), records, perfetto, self._replay(), tell)
        return Result(Path(place), json.loads(text))

    def _copy(self) -> Study:
        other = Study.__new__(Study)
        other._name, other._text = self._name, self._text
        other._laid = dict(self._laid)
        return other

    def _without(self, key: str) -> dict[str, Value]:
        """What is laid over it, but for a value or an axis of this key."""
        self._laid.pop(key, None)
        self._laid.pop(_axis(key), None)
        return self._laid

    def _plan(self) -> _core.Plan:
        sets = self._words()
        if self._text is None:
            return _core.Plan.read(self._name, sets)
        return _core.Plan.parse("", self._name, self._text, sets)

    def _words(self) -> list[str]:
        """What is laid over it, in the words of `--set`."""
        try:
            return [f"{text_of(key, 'a key')}={_toml(it, key)}" for key, it in self._laid.items()]
        except RecursionError:
            raise _endless("what is laid over it") from None

    def _replay(self) -> str:
        """The command line that does the same; a document is kept as `study.toml`."""
        name = self._name if self._text is None else "study.toml"
        sets = (word for words in self._words() for word in ("--set", words))
        return shlex.join(["blocklab", "run", name, *sets])


def run(
    study: str | PathLike[str] | Mapping[str, Value],
    set: Mapping[str, Value] | None = None,  # noqa: A002: the command line's own word
    jobs: int | None = None,
    out: str | PathLike[str] | None = None,
    *,
    records: bool = False,
    perfetto: bool = False,
    progress: bool | Tell | None = None,
    on: str | None = None,
    cache: str | PathLike[str] | None = None,
) -> Result:
    """Run a study and return what it answered.

    `study` is a file (with a `/` or ending in `.toml`), the name of a shipped study, or a document.
    `set` lays values over keys of the study: `{"device.ssd.gc": "greedy"}`. `jobs` is the number of
    runs at a time, one per core by default; it never changes a result. `out` is the run directory,
    `out/STUDY` by default. `records` keeps every request in `requests.parquet`; `perfetto` writes
    `trace.pftrace` for ui.perfetto.dev.

    `progress` is whether to show how far it is (by default: on a terminal and in a notebook, when
    it takes more than a second), or what to call with (share done, runs finished, runs there are).

    `on` is where the runs are done: `"ray"`, or `"ray://ADDRESS"`, is a Ray cluster (with the
    package `ray[client]`). `cache` is a folder for preconditioned drives that its machines share.

    Raises StudyError with the place of whatever is wrong. Ctrl-C stops the study; runs that took
    more than 0.2 s are kept, and the same call goes on there.
    """
    return Study(study).set(set or {}).run(
        jobs, out, records=records, perfetto=perfetto, progress=progress, on=on, cache=cache)


def sweep(
    study: str | PathLike[str] | Mapping[str, Value],
    axes: Mapping[str, Sequence[Value]],
    **how: Any,
) -> Result:
    """Run a study with these axes, besides those it has; `how` is as for `run`.

    >>> blocklab.sweep("steady-state", {"study.seed": range(10)}, on="ray")  # doctest: +SKIP
    """
    values = how.pop("set", None) or {}
    return Study(study).set(values).sweep(axes).run(**how)


def _axis(key: str) -> str:
    """The key of the study that has the values of an axis."""
    return f"sweep.{json.dumps(key)}"


def _toml(value: Value, key: str) -> str:
    """`value`, of `key`, as TOML text: JSON, except for tables and numbers without a value."""
    match value:
        case Mapping():
            items = ((text_of(own, f"a key of {key}"), it) for own, it in value.items())
            lines = (f"{json.dumps(own)} = {_toml(it, f'{key}.{own}')}" for own, it in items)
            return "{" + ", ".join(lines) + "}"
        case float() if not math.isfinite(value):
            return str(value)
        case str():
            return json.dumps(text_of(value, key), ensure_ascii=False)
        case bool() | int() | float():
            return json.dumps(value)
        case PathLike():
            return _toml(fspath(value), key)
        case Sequence() if not isinstance(value, bytes | bytearray):
            return "[" + ", ".join(_toml(item, key) for item in value) + "]"
    if hasattr(value, "item"):  # a number of numpy or polars
        return _toml(value.item(), key)
    raise wrong_argument(
        f"{key}: {value!r} ({type(value).__name__}) is nothing that a study knows",
        "a number, True or False, text, a path, a list or a dict of these")


def _text(document: Mapping[str, Value]) -> str:
    """A document as TOML."""
    try:
        return "".join(_lines(document))
    except RecursionError:
        raise _endless("the study") from None


def _endless(what: str) -> StudyError:
    return wrong_argument(f"{what} has no end: it contains itself", "a document as TOML has it")


def _lines(document: Mapping[str, Value], path: str = "") -> list[str]:
    """A document as TOML with a line for each value, so that an error shows the one it means."""
    lines = []
    for key, value in document.items():
        key = text_of(key, f"a key of {path[:-1] or 'the study'}")
        name = path + (key if key.replace("_", "").replace("-", "").isalnum() else json.dumps(key))
        if isinstance(value, Mapping) and value:
            lines += _lines(value, f"{name}.")
        else:
            lines.append(f"{name} = {_toml(value, name)}\n")
    return lines
