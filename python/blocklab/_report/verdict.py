"""The answer in sentences, computed from what the runs measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..plots import _layout
from ..rundir import Run, RunDirectory
from .. import _numbers as numbers

#: The metrics worth a sentence, best first, with their name in a sentence.
_HEADLINES = {
    "read_latency_us_p99": "99 % of reads finish within",
    "write_latency_us_p99": "99 % of writes finish within",
    "latency_us_p99": "99 % of requests finish within",
    "waf": "Write amplification is",
    "throughput_mb_s": "Mean throughput is",
}
MOST_SENTENCES = 3


@dataclass(frozen=True)
class Expectation:
    """One expectation of the study, judged."""

    text: str
    ok: bool
    value: str
    #: The bounds, from the study; empty when the run wrote no study document.
    wanted: str


@dataclass(frozen=True)
class Verdict:
    """What the page says first."""

    #: True, False, or None when the study expects nothing.
    ok: bool | None
    headline: str
    sentences: list[str]
    expectations: list[Expectation]


def judge(data: RunDirectory) -> Verdict:
    """The verdict of `data`: expectations if the study has any, and the answer either way."""
    documents = data.study.get("expect") or []
    expectations = []
    for index, entry in enumerate(data.result.get("expectations") or []):
        document = documents[index] if index < len(documents) else {}
        name = str(document.get("metric", ""))
        value = numbers.metric(name, entry.get("value"))
        text, ok = str(entry.get("text", "")), bool(entry.get("ok"))
        wanted = _wanted(name, document) or str(entry.get("expected") or "")
        expectations.append(Expectation(text, ok, value, wanted))
    held = sum(expectation.ok for expectation in expectations)
    total = len(expectations)
    if not total:
        return Verdict(None, "No expectations stated", _sentences(data), [])
    what = "expectation" if total == 1 else "expectations"
    ok = held == total
    headline = f"{held} of {total} {what} held"
    return Verdict(ok, headline, _sentences(data), expectations)


def _wanted(name: str, document: dict[str, Any]) -> str:
    """The bounds of one expectation in words."""
    bounds = {key: document[key] for key in ("min", "max", "equal") if key in document}
    text = {key: numbers.metric(name, float(value)) for key, value in bounds.items()
            if isinstance(value, int | float)}
    if "equal" in text:
        tolerance = document.get("tolerance_percent")
        return text["equal"] + (f" ± {tolerance:g} %" if tolerance is not None else "")
    if "min" in text and "max" in text:
        return f"{text['min']} to {text['max']}"
    if "min" in text:
        return f"at least {text['min']}"
    return f"at most {text['max']}" if "max" in text else ""


def _sentences(data: RunDirectory) -> list[str]:
    asked = [str(entry.get("metric", "")) for entry in data.study.get("expect") or []]
    order = [name for name in dict.fromkeys(asked) if name in _HEADLINES]
    names = [*order, *(name for name in _HEADLINES if name not in order)]
    sentences: list[str] = []
    for name in names:
        if name == "latency_us_p99" and any("99 %" in sentence for sentence in sentences):
            continue
        sentence = _sentence(data, name)
        if sentence:
            sentences.append(sentence)
    return sentences[:MOST_SENTENCES]


def _sentence(data: RunDirectory, name: str) -> str | None:
    """One sentence on the metric `name`; None where no run defines it."""
    pairs = [(run, value) for run in data.runs if (value := run.metric(name)) is not None]
    if not any(value for _, value in pairs):  # a study without time has no latencies
        return None
    opening = _HEADLINES[name]
    axes = list(data.axes)
    if len({run.label for run, _ in pairs}) == 1 or not axes:
        return f"{opening} {numbers.spoken(name, pairs[0][1])}."
    if "device" in axes:
        return _per_device(data, name, pairs)
    low, high = (chosen(pairs, key=lambda pair: pair[1]) for chosen in (min, max))
    if numbers.spoken(name, low[1]) == numbers.spoken(name, high[1]):
        return f"{opening} {numbers.spoken(name, low[1])} in every run."
    return (f"{opening} {numbers.spoken(name, low[1])} with {_layout.name_of(low[0], axes)}, "
            f"{numbers.spoken(name, high[1])} with {_layout.name_of(high[0], axes)}.")


def _per_device(data: RunDirectory, name: str, pairs: list[tuple[Run, float]]) -> str:
    parts = []
    for device in data.axes["device"]:
        mine = [value for run, value in pairs if run.params.get("device") == device]
        if mine:
            low, high = numbers.spoken(name, min(mine)), numbers.spoken(name, max(mine))
            span = low if low == high else f"{low} to {high}"
            parts.append(f"{span} on {_layout.value_text(device)}")
    over = " over the workloads" if "workload" in data.axes else ""
    return f"{_HEADLINES[name]} {', '.join(parts)}{over}."
