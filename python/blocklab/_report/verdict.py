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
    "discard_latency_us_p99": "99 % of discards finish within",
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

    #: True; False also where a run came to nothing; None when the study expects nothing.
    ok: bool | None
    headline: str
    sentences: list[str]
    expectations: list[Expectation]


@dataclass(frozen=True)
class Claim:
    """One claim of somebody else, judged."""

    text: str
    source: str
    #: The metric, and what it is divided by; empty when the run wrote no study document.
    metric: str
    #: `holds`, `holds in part` or `does not hold`.
    standing: str
    #: Smallest and largest measured value.
    measured: str
    #: The band where it holds.
    wanted: str
    #: The wider band where it holds in part; empty when there is none.
    in_part: str

    @property
    def state(self) -> str:
        """`pass`, `part` or `fail`."""
        return {"holds": "pass", "holds in part": "part"}.get(self.standing, "fail")


@dataclass(frozen=True)
class Claims:
    """What others say, and how much of it holds."""

    headline: str
    claims: list[Claim]


def judge_claims(data: RunDirectory) -> Claims | None:
    """The claims of the study; None where it has none."""
    documents = data.study.get("claim") or []
    claims = []
    for index, entry in enumerate(data.result.get("claims") or []):
        document = documents[index] if index < len(documents) else {}
        name = _unit_of(document)
        wanted = _wanted(name, document.get("holds") or {}) or str(entry.get("expected") or "")
        in_part = _wanted(name, document.get("in_part") or {})
        low, high = (numbers.measured(name, value) for value in entry.get("range") or (None, None))
        claims.append(Claim(
            str(entry.get("text", "")), str(entry.get("source", "")), _metric_of(document),
            str(entry.get("standing", "")), low if low == high else f"{low} to {high}",
            wanted, in_part))
    if not claims:
        return None
    # A source reads "the paper, figure 9": what is before the last comma is whose claim it is.
    sources = list(dict.fromkeys(claim.source.rpartition(",")[0] or claim.source
                                 for claim in claims))
    whose = " and ".join(sources) if len(sources) <= 2 else "others"
    states = [claim.state for claim in claims]
    counts = [(states.count("pass"), "holds", "hold"), (states.count("part"), "in part", "in part"),
              (states.count("fail"), "does not", "do not")]
    words = ", ".join(f"{n} {one if n == 1 else more}" for n, one, more in counts if n)
    return Claims(f"Claims of {whose}: {words}", claims)


def _unit_of(document: dict[str, Any]) -> str:
    """The metric a statement is about; nothing for a ratio, which has no unit."""
    is_ratio = document.get("relative_to") or document.get("per")
    return "" if is_ratio else str(document.get("metric", ""))


def judge(data: RunDirectory) -> Verdict:
    """The verdict of `data`: expectations if the study has any, and the answer either way."""
    documents = data.study.get("expect") or []
    expectations = []
    for index, entry in enumerate(data.result.get("expectations") or []):
        document = documents[index] if index < len(documents) else {}
        name = _unit_of(document)
        value = str(entry.get("measured") or numbers.measured(name, entry.get("value")))
        text, ok = str(entry.get("text", "")), bool(entry.get("ok"))
        wanted = _wanted(name, document) or str(entry.get("expected") or "")
        expectations.append(Expectation(text, ok, value, wanted))
    held = sum(expectation.ok for expectation in expectations)
    total = len(expectations)
    sentences = _sentences(data)
    failed = [run for run in data.runs if run.failed]
    if not total and not failed:
        return Verdict(None, sentences[0] if sentences else "No answer", sentences[1:], [])
    headlines = []
    if total:
        what = "expectation" if total == 1 else "expectations"
        headlines.append(f"{held} of {total} {what} held")
    if failed:
        count = len(data.runs)
        headlines.append(f"{len(failed)} of {count} {'run' if count == 1 else 'runs'} "
                         "came to nothing")
    why = [f"{run.label} came to nothing: {run.failed}" for run in failed[:MOST_SENTENCES]]
    ok = held == total and not failed
    return Verdict(ok, ", ".join(headlines), [*why, *sentences], expectations)


def _metric_of(document: dict[str, Any]) -> str:
    base = [_layout.value_text(value) for value in (document.get("relative_to") or {}).values()]
    name = str(document.get("metric", ""))
    if document.get("per"):
        name += f" per {document['per']}"
    return f"{name} / that of {', '.join(base)}" if base else name


def _wanted(name: str, document: dict[str, Any]) -> str:
    """The bounds of one expectation in words, as exact as the study has them."""
    bounds = {key: document[key] for key in ("min", "max", "equal") if key in document}
    text = {key: numbers.bound(name, float(value))
            for key, value in bounds.items() if isinstance(value, int | float)}
    if "equal" in text:
        tolerance = document.get("tolerance_percent")
        return text["equal"] + (f" ± {tolerance:g} %" if tolerance is not None else "")
    if "min" in text and "max" in text:
        return f"{text['min']} to {text['max']}"
    if "min" in text:
        return f"at least {text['min']}"
    return f"at most {text['max']}" if "max" in text else ""


def _sentences(data: RunDirectory) -> list[str]:
    """The study's answer, and what else is worth a sentence."""
    answer = data.result.get("answer") or {}
    asked = [str(entry.get("metric", "")) for entry in data.study.get("expect") or []]
    order = [name for name in dict.fromkeys(asked) if name in _HEADLINES]
    names = [*order, *(name for name in _HEADLINES if name not in order)]
    sentences: list[str] = [str(answer["text"])] if answer.get("text") else []
    for name in names:
        if name == answer.get("metric") or not _layout.is_told(data.runs, name):
            continue
        if name == "latency_us_p99" and any("99 %" in sentence for sentence in sentences):
            continue
        sentence = _sentence(data, name)
        if sentence:
            sentences.append(sentence)
    return sentences[:MOST_SENTENCES]


def _sentence(data: RunDirectory, name: str) -> str | None:
    """One sentence on the metric `name`, repeats averaged; None where no point defines it."""
    pairs = _layout.means(data.runs, name)
    if not any(value for _, value in pairs):  # a study without time has no latencies
        return None
    opening = _HEADLINES[name]
    axes = list(data.axes)
    if len(pairs) == 1:
        return f"{opening} {numbers.spoken(name, pairs[0][1])}."
    if "device" in axes:
        return _per_device(data, name, pairs)
    low, high = (chosen(pairs, key=lambda pair: pair[1]) for chosen in (min, max))
    if numbers.spoken(name, low[1]) == numbers.spoken(name, high[1]):
        return f"{opening} {numbers.spoken(name, low[1])} {_layout.everywhere(data.runs)}."
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
