"""Is Python the same laboratory as the command line?"""

from __future__ import annotations

import html
import json
import os
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from needs import skip

import blocklab

STUDY = """
[study]
title = "Queue depth"
question = "What does depth buy on a device without contention?"
repeats = 2
[device.null]
latency = "20us"
[workload.fio]
rw = "randread"
[run]
requests = 20000
[sweep]
"workload.fio.iodepth" = [1, 4]
[[expect]]
text = "one request at a time"
metric = "iops"
where = { "workload.fio.iodepth" = 1 }
min = 49000
max = 50000
[[claim]]
text = "four at a time are four times as fast"
source = "arithmetic"
metric = "iops"
where = { "workload.fio.iodepth" = 4 }
relative_to = { "workload.fio.iodepth" = 1 }
holds = { min = 3.99, max = 4.01 }
[report]
plots = ["throughput"]
[[report.figure]]
name = "depth"
title = "Depth buys rate"
x = "workload.fio.iodepth"
y = "iops"
"""

#: Another statement, behind that of the study.
DEEPER = """
[[expect]]
text = "the deeper"
metric = "iops"
where = { "workload.fio.iodepth" = 4 }
min = 190000
"""

#: Reads of what was never written, which is told, and writes.
NOTED = """
[device.ssd]
[workload.fio]
[run]
requests = 200
[sweep]
"workload.fio.rw" = ["randread", "randwrite"]
"""

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of four short runs."""
    file = tmp_path_factory.mktemp("study") / "depth.toml"
    file.write_text(STUDY)
    return file


@pytest.fixture(scope="module")
def result(study: Path) -> blocklab.Result:
    """What it answers."""
    return blocklab.run(study, out=study.parent / "out")


def test_a_study_answers(result: blocklab.Result) -> None:
    assert result.study == "depth"
    assert result.ok and [e.value for e in result.expectations] == [pytest.approx(50_000, rel=0.01)]
    assert result.runs.height == len(result.metrics) == 4
    assert result.runs["workload.fio.iodepth"].to_list() == [1, 1, 4, 4]
    assert result.runs["iops"].to_list() == [run["iops"] for run in result.metrics]
    counts = result.table("latency").collect()["count"].sum()
    assert counts == sum(run["host_requests"] or 0 for run in result.metrics)
    assert "4 runs, 1 of 1 expectations held" in repr(result)


def test_what_is_counted_is_a_whole_number(result: blocklab.Result) -> None:
    schema = result.runs.schema
    whole = {name for name, kind in schema.items() if kind.is_integer()}
    assert whole >= {
        "run", "repeat", "workload.fio.iodepth", "host_requests", "host_pages_written",
        "flash_reads", "flash_programs", "flash_erases", "gc_pages_moved", "merges_full",
        "mirror_freezes", "elevator_bios",
    }
    assert not whole & {"iops", "waf", "map_ram_kib_max", "elevator_idled_ms", "simulated_s"}
    assert schema["iops"].is_float() and schema["latency_us_p99"].is_float()
    assert result.runs["host_requests"].to_list() == [20000] * 4


def test_the_report_tells_what_a_run_said(tmp_path: Path) -> None:
    file = tmp_path / "notes.toml"
    file.write_text(NOTED)
    result = blocklab.run(file, out=tmp_path / "out")
    read, written = (run["notes"] for run in result.document["runs"])
    assert len(read) == 2
    [fresh] = written
    assert "blocks of flash were begun to be written" in fresh
    text = html.unescape(result.report().read_text(encoding="utf-8"))
    notes = text.split('<ul class="notes">')[1].split("</ul>")[0]
    label = result.document["runs"][0]["label"]
    assert "pages read were never written" in read[0]
    for note in read:
        assert f"<li>{label}: {note}</li>" in notes


def test_claims_are_judged(result: blocklab.Result) -> None:
    [claim] = result.claims
    assert isinstance(claim, blocklab.Claim)
    assert claim.holds and claim.standing == "holds" and claim.source == "arithmetic"
    assert claim.range == (pytest.approx(4.0, rel=1e-3), pytest.approx(4.0, rel=1e-3))


def test_jobs_never_change_a_result(study: Path, result: blocklab.Result, tmp_path: Path) -> None:
    alone = blocklab.run(study, jobs=1, out=tmp_path / "alone")
    assert (alone.digest, alone.result_digest) == (result.digest, result.result_digest)


def test_another_configuration_is_another_digest(
    study: Path, result: blocklab.Result, tmp_path: Path
) -> None:
    other = blocklab.run(
        study, set={"device.null.latency": "21us", "study.seed": 7}, out=tmp_path / "other")
    assert other.digest != result.digest
    assert other.result_digest != result.result_digest
    assert not other.ok


def answers_of_binaries(study: Path, out: Path) -> list[dict[str, Any]]:
    """What every built `blocklab` binary answers, release and debug."""
    asked = subprocess.run(
        [ROOT / "scripts" / "target.sh"], capture_output=True, text=True, check=True)
    target = Path(asked.stdout.strip())
    answers = []
    for binary in sorted(filter(Path.is_file, target.glob("*/blocklab"))):
        done = subprocess.run(
            [binary, "run", study, "--json", "--out", out / binary.parent.name],
            capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        answers.append(json.loads(done.stdout))
    return answers


def test_the_rust_binary_gives_the_same_digests(
    study: Path, result: blocklab.Result, tmp_path: Path
) -> None:
    code = result.document["code_version"]
    answers = [a for a in answers_of_binaries(study, tmp_path) if a["code_version"] == code]
    if not answers:
        skip("same-code", "no binary of this code is built")
    for answer in answers:
        assert answer["digest"] == result.digest
        assert answer["result_digest"] == result.result_digest
        digests = [(run["digest"], run["result_digest"]) for run in answer["runs"]]
        assert digests == [(r["digest"], r["result_digest"]) for r in result.document["runs"]]


def test_the_console_script_is_the_command_line(
    study: Path, result: blocklab.Result, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "blocklab", "run", str(study), "--json", "--out",
         str(tmp_path / "out")],
        capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result_digest"] == result.result_digest
    wrong = subprocess.run(
        [sys.executable, "-m", "blocklab", "run", "no-such-study"],
        capture_output=True, text=True, check=False)
    assert wrong.returncode == 2
    assert "error:" in wrong.stderr and "Traceback" not in wrong.stderr


def travel(python: Path, tmp_path: Path) -> str:
    """What `blocklab travel` says in Python, with a kernel that only shows its command line."""
    kernel = tmp_path / "kernel"
    kernel.write_text('#!/bin/sh\necho "$@"\n')
    kernel.chmod(0o755)
    (tmp_path / "part.toml").write_text('[null]\ncapacity = "16MiB"\n')
    done = subprocess.run(
        [sys.executable, "-m", "blocklab", "travel", "part.toml", f"--kernel={kernel}",
         "--", "true"],
        capture_output=True, text=True, check=False, cwd=tmp_path, stdin=subprocess.DEVNULL,
        env={**os.environ, "BLOCKLAB_PYTHON": str(python)})
    assert done.returncode == 3 and done.stderr.count("error:") == 1, done.stderr
    return done.stderr


def test_travel_starts_the_binary_and_never_python(tmp_path: Path) -> None:
    beside = tmp_path / "blocklab"
    for script in (False, True):
        if script:
            beside.write_text(f"#!{sys.executable}\n")
        said = travel(tmp_path / "python", tmp_path)
        assert "expected: the binary `blocklab`" in said and "make setup" in said
        assert "init=" not in said, "no kernel was started"
    beside.write_bytes(b"\x7fELF and so on")
    assert f"init={beside} " in travel(tmp_path / "python", tmp_path)


def test_an_error_has_a_place(study: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.toml"
    wrong.write_text(STUDY.replace("[workload.fio]", "[workload.fio]\niodept = 3"))
    with pytest.raises(blocklab.StudyError) as caught:
        blocklab.run(wrong, out=tmp_path / "out")
    error = caught.value
    assert (error.kind, error.file, error.line, error.column) == ("input", str(wrong), 9, 1)
    assert "iodepth" in str(error), "the nearest valid name"
    assert not (tmp_path / "out").exists()


DOCUMENT: dict[str, Any] = {
    "device": {"null": {"latency": "20us"}},
    "workload": {"fio": {"rw": "randread"}},
    "run": {"requests": 2000},
}


def test_a_study_may_be_a_document(tmp_path: Path) -> None:
    study = blocklab.Study(DOCUMENT)
    assert len(study) == 1
    depths = study.sweep({"workload.fio.iodepth": range(1, 4)})
    assert depths.labels == ["iodepth=1", "iodepth=2", "iodepth=3"] and len(study) == 1
    both = depths.sweep({"device.null.latency": ["20us", "40us"]})
    result = both.run(out=tmp_path / "out")
    assert result.runs["workload.fio.iodepth"].to_list() == [1, 1, 2, 2, 3, 3]
    rates = [50e3, 25e3, 100e3, 50e3, 150e3, 75e3]
    assert result.runs["iops"].to_list() == pytest.approx(rates, rel=1e-3)
    # An axis that is set is gone; what is set and then swept is an axis.
    assert len(both.set({"workload.fio.iodepth": 2})) == 2
    assert len(both.set({"workload.fio": {"rw": "randread", "iodepth": 2}})) == 2
    assert len(study.set({"workload.fio.iodepth": 2}).sweep({"workload.fio.iodepth": [1, 2]})) == 2
    # What it wrote runs by itself.
    again = blocklab.run(result.path / "study.toml", out=tmp_path / "again")
    assert sorted(again.runs["iops"]) == sorted(result.runs["iops"])


def test_the_report_shows_the_bounds_of_its_own_statements(tmp_path: Path) -> None:
    """A setting drops the first of two statements, and the bounds are those of the second."""
    file = tmp_path / "two.toml"
    file.write_text(STUDY + DEEPER)
    result = blocklab.run(file, set={"workload.fio.iodepth": [4, 8]}, out=tmp_path / "out")
    assert [expectation.text for expectation in result.expectations] == ["the deeper"]
    page = html.unescape(result.report().read_text(encoding="utf-8"))
    assert "<td>the deeper</td><td>at least 190" in page
    again = blocklab.run(result.path / "study.toml", out=tmp_path / "again")
    assert again.digest == result.digest and again.ok


def test_a_sweep_is_one_call(study: Path, tmp_path: Path) -> None:
    result = blocklab.sweep(
        study, {"device.null.latency": ["20us", "21us"]}, set={"study.repeats": 1},
        out=tmp_path / "out")
    assert result.runs.height == 4
    assert blocklab.sweep(DOCUMENT, {"study.seed": [1, 2]}, out=tmp_path / "b").runs.height == 2


def test_an_error_of_a_document_shows_its_line() -> None:
    wrong = {**DOCUMENT, "workload": {"fio": {"iodept": 3}}}
    with pytest.raises(blocklab.StudyError, match="iodepth") as caught:
        len(blocklab.Study(wrong))
    assert "workload.fio.iodept = 3" in str(caught.value)


def test_an_argument_that_cannot_be_meant_is_named(tmp_path: Path) -> None:
    study: Any = blocklab.Study(DOCUMENT)
    loose: Any = blocklab
    depth = "workload.fio.iodepth"
    endless: dict[str, Any] = {}
    endless["again"] = endless
    for call, words in {
        lambda: len(blocklab.Study({**DOCUMENT, "run": {"requests": {1}}})):
            r"run.requests: \{1\} \(set\)",
        lambda: loose.Study(None): "the study is None",
        lambda: loose.run(b"d.toml"): "the study is b'd.toml'",
        lambda: len(study.set({depth: None})): f"{depth}: None",
        lambda: len(study.set({"workload.fio": {"rw": b"read"}})): "workload.fio.rw: b'read'",
        lambda: study.set("a=4"): "set is 'a=4'",
        lambda: study.sweep(None): "the axes are None",
        lambda: study.sweep({depth: 4}): f"the axis {depth} is 4",
        lambda: study.sweep({"workload.fio.rw": "read"}): "the axis workload.fio.rw is 'read'",
        lambda: study.run(jobs=-1): "jobs is -1",
        lambda: study.run(jobs=True): "jobs is True",
        lambda: study.run(jobs=10**30): "jobs is 1000",
        lambda: study.run(out=b"out"): "out is b'out'",
        lambda: loose.open(None): "the directory is None",
        lambda: loose.Study("\ud800"): r"the study is '\\ud800'",
        lambda: len(study.set({"study.title": "\ud800"})): r"study.title is '\\ud800'",
        lambda: len(study.set({"\ud800": 1})): r"a key is '\\ud800'",
        lambda: loose.Study({1: 2}): "a key of the study is 1",
        lambda: loose.Study({"run": {1: 2}}): "a key of run is 1",
        lambda: len(study.set({5: 1})): "a key is 5",
        lambda: len(study.set({"workload.fio": {5: 1}})): "a key of workload.fio is 5",
        lambda: study.run(records="yes"): "records is 'yes'",
        lambda: study.run(perfetto=None): "perfetto is None",
        lambda: loose.explain(5): "the name is 5",
        lambda: loose.report(5): "the directory is 5",
        lambda: loose.Study(endless): "the study has no end",
        lambda: len(study.set({"study": endless})): "what is laid over it has no end",
        lambda: study.run(progress="yes"): "progress is 'yes'",
        lambda: study.run(on=True): "on is True",
        lambda: study.run(on="ray", records=True): "what single requests did",
        lambda: study.run(cache=tmp_path): "with on",
    }.items():
        with pytest.raises(blocklab.StudyError, match=words) as caught:
            call()
        assert "= expected: " in str(caught.value) and caught.value.kind == "input"


def test_a_path_is_a_value(tmp_path: Path) -> None:
    trace = tmp_path / "two.csv"
    trace.write_text("128166372003061629,h,1,Read,4096,512,100\n")
    replay = {**DOCUMENT, "workload": {"trace": {"file": trace, "format": "msr"}}}
    del replay["run"]
    result = blocklab.run(replay, out=tmp_path / "out")
    assert result.table("latency").collect()["count"].to_list() == [1]


def test_progress_is_told(tmp_path: Path) -> None:
    told: list[tuple[float, int, int]] = []
    blocklab.sweep(
        DOCUMENT, {"study.seed": [1, 2]}, set={"run.requests": 2_000_000, "workload.fio.loops": 99},
        out=tmp_path / "out", progress=lambda *now: told.append(now))
    assert told and all(0 <= share <= 1 and runs == 2 for share, _, runs in told)
    assert told == sorted(told) and told[-1] == (1.0, 2, 2)

    def interrupts(*_: float) -> None:
        raise KeyError("enough")

    endless = {"run.requests": 10**12, "workload.fio.loops": 10**6}
    with pytest.raises(KeyError, match="enough"):
        blocklab.run(DOCUMENT, endless, out=tmp_path / "endless", progress=interrupts)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_result_is_opened_again(result: blocklab.Result, tmp_path: Path) -> None:
    again = blocklab.open(result.path)
    assert again.digest == result.digest and again.runs.equals(result.runs)
    with pytest.raises(blocklab.StudyError, match="not a run directory"):
        blocklab.open(tmp_path / "nothing")
    with pytest.raises(blocklab.StudyError, match="expected: the folder of a run"):
        blocklab.open(result.path / "result.json")
    with pytest.raises(blocklab.StudyError, match="expected: .*latency.*\n.*records=True"):
        result.table("requests")
    (tmp_path / "result.json").write_text('{"study": "x"}')
    with pytest.raises(blocklab.StudyError, match="no digest"):
        blocklab.open(tmp_path)


def test_a_notebook_shows_a_result(result: blocklab.Result) -> None:
    page = result._repr_html_()
    assert "<b>Queue depth</b>" in page and page.count("<tr>") == 5
    assert "<th>iops</th>" in page and "50\u202f000" in page
    drawn = result.figure("percentiles")
    assert drawn.startswith("<svg") and drawn._repr_svg_() == drawn
    with pytest.raises(blocklab.StudyError, match="expected: depth, percentiles"):
        result.figure("percentile")


def test_a_trace_is_a_frame(tmp_path: Path) -> None:
    frame = blocklab.trace(ROOT / "traces" / "postmark-ss-ext3.blkparse.zst")
    assert frame.height == 12043 and frame["time_ns"][0] == 0
    assert set(frame["op"].unique()) <= {"read", "write", "flush", "discard"}
    assert frame["fua"].dtype == pl.Boolean and frame["sectors"].sum() > 0
    file = tmp_path / "two.csv"
    file.write_text("128166372003061629,h,1,Read,4096,512,100\n")
    row = blocklab.trace(file, "msr").row(0, named=True)
    assert (row["op"], row["sector"], row["sectors"], row["response_ns"]) == ("read", 8, 1, 10_000)
    file.write_text("128166372003061629,h,1,Reed,4096,512,100\n")
    with pytest.raises(blocklab.StudyError, match="Reed") as caught:
        blocklab.trace(file, "msr")
    assert (caught.value.file, caught.value.line) == (str(file), 1)


def test_what_a_trace_lacks_is_told(tmp_path: Path) -> None:
    file = tmp_path / "year.csv"
    file.write_text("1.5,,,3,4096,512\n2.5,0.1,R,3,4096,512\n")
    with pytest.warns(UserWarning, match="left out 1 requests without an answer") as told:
        frame = blocklab.trace(file, "systor")
    assert (frame.height, len(told), told[0].filename) == (1, 1, __file__)
    file.write_text("2.5,0.1,R,3,4096,512\n")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert blocklab.trace(file, "systor").height == 1


def test_a_bad_setting_names_itself(study: Path) -> None:
    with pytest.raises(blocklab.StudyError, match="device.nul") as caught:
        blocklab.run(study, set={"device.nul.latency": "1us"})
    assert (caught.value.file, caught.value.line) == ("--set", 1)


def test_ctrl_c_stops_a_study_and_leaves_nothing(study: Path, tmp_path: Path) -> None:
    # What a shell starts in the background ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    endless = {"run.requests": 10**12, "workload.fio.loops": 10**6}
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            blocklab.run(study, set=endless, out=tmp_path / "out")
    finally:
        timer.cancel()  # had the run failed at once, the signal would hit the other tests
        timer.join()
        signal.signal(signal.SIGINT, before)
    assert list(tmp_path.iterdir()) == []


def test_a_real_run_becomes_a_report(result: blocklab.Result, tmp_path: Path) -> None:
    path = blocklab.report(result.path, tmp_path / "page.html")
    text = path.read_text(encoding="utf-8")
    assert "1 of 1 expectation held" in text
    assert result.digest in text and result.result_digest in text
    assert "Claims of arithmetic: 1 holds" in text and "Depth buys rate" in text
    assert result.report() == result.path / "report.html"


def test_report_stays_callable_after_its_module_is_imported(result: blocklab.Result) -> None:
    import blocklab.report as module

    assert module.main is not None
    assert blocklab.report(result.path).name == "report.html"


def test_what_there_is_explains_itself() -> None:
    kinds = blocklab.list()
    assert "null" in kinds["device"] and "waf" in kinds["metrics"]
    for name, line in kinds["device"].items():
        assert blocklab.explain(f"device.{name}").startswith(line)
    with pytest.raises(blocklab.StudyError, match="did you mean `null`") as caught:
        blocklab.explain("nulll")
    assert caught.value.exit_code == 2


def test_the_schema_describes_a_study() -> None:
    assert {"study", "run", "sweep"} <= set(blocklab.schema()["properties"])


def test_the_package_is_typed() -> None:
    assert (Path(blocklab.__file__).parent / "py.typed").exists()
    assert blocklab.__version__.count(".") == 2


def test_the_documents_example_runs(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    example = text.split("```python\n")[1].split("```")[0]
    done = subprocess.run(
        [sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "True" in done.stdout and "report.html" in done.stdout


def test_an_error_is_the_same_object_as_the_command_lines(tmp_path: Path) -> None:
    study = tmp_path / "wrong.toml"
    study.write_text("[device.null]\nlatency = 3\n[workload.fio]\n")
    command = [sys.executable, "-m", "blocklab", "run", str(study), "--json"]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    with pytest.raises(blocklab.StudyError) as error:
        blocklab.run(study, out=tmp_path / "out")
    own = error.value.to_json()
    assert own == json.loads(told.stdout) and own["error"]["line"] == 2, own
    damaged = blocklab.StudyError("error: cut short\n  --> a.bin, byte 17", file="a.bin")
    assert damaged.to_json()["error"]["byte"] == 17


def test_a_result_does_not_show_what_a_later_run_put_in_its_place(tmp_path: Path) -> None:
    def at(depth: int) -> blocklab.Result:
        study = {"device": {"null": {"latency": "20us"}}, "run": {"requests": 1000},
                 "workload": {"fio": {"rw": "randread", "iodepth": depth}}}
        return blocklab.run(study, out=tmp_path / "out")

    first = at(1)
    assert first.table("series").collect().height and "<table>" in first._repr_html_()
    iops = at(1).runs["iops"].item()
    assert first.runs["iops"].item() == iops, "the same results are the same"
    first, second = at(1), at(4)
    for shows in (lambda: first.runs, lambda: first.table("series"), first.report,
                  lambda: first.figure("throughput"), first._repr_html_):
        with pytest.raises(blocklab.StudyError, match="a later run"):
            shows()
    assert first.metrics[0]["iops"] == iops != second.runs["iops"].item()
