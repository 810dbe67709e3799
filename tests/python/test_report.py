"""Is the report one honest, offline, readable page, whatever the run directory holds?"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import polars as pl
import pytest
from synthetic import write_run_directory

import blocklab
from blocklab import StudyError
from blocklab._report import page, verdict
from blocklab.plots import MAX_FIGURES
from blocklab.report import write_figure
from blocklab.rundir import RunDirectory


class Page(HTMLParser):
    """Elements, attributes and text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag not in {"meta", "br", "link", "img"}:
            self.open.append(tag)
        self.attributes.extend((tag, name, value or "") for name, value in attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.extend((tag, name, value or "") for name, value in attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


def ids(page: Page) -> list[str]:
    return [value for _, name, value in page.attributes if name == "id"]


def test_the_page_is_small_and_well_formed(html: str) -> None:
    assert len(html.encode()) < page.MAX_BYTES
    parsed = Page(html)
    assert parsed.open == []
    assert len(set(ids(parsed))) == len(ids(parsed)), "ids of two figures collide"


def test_nothing_is_loaded_from_outside(html: str) -> None:
    parsed = Page(html)
    assert not {"script", "link", "iframe", "object", "embed", "base", "form"} & set(parsed.tags)
    for tag, name, value in parsed.attributes:
        if name in {"src", "href", "xlink:href", "srcset", "data", "action", "poster"}:
            assert value.startswith(("data:image/png;base64,", "#")), (tag, name, value[:60])
    assert "://" not in html
    assert "@import" not in html
    assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", html))


def test_every_reference_inside_the_page_resolves(html: str) -> None:
    defined = set(ids(Page(html)))
    assert set(re.findall(r"url\(#([^)]*)\)", html)) <= defined
    css = html.split("<style>")[1].split("</style>")[0]
    used = set(re.findall(r"var\(--([a-z0-9]+)\)", html))
    assert used <= set(re.findall(r"--([a-z0-9]+):", css)), "a colour without a value"
    assert not re.search(r"#fe[0-9a-f]{2}a5", html), "a sentinel colour was left"


def test_the_verdict_comes_first(html: str) -> None:
    text = Page(html).text
    order = [
        "A recorded workload on an SSD and on a disk",
        "How much sooner does an SLC SSD answer",
        "2 of 2 expectations held",
        "99 % of reads finish within",
        "configuration digest",
        "went through the SNIA gate",
        "How to read",
        "All numbers",
        "What the models leave out",
        "Replay",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert "4f2c91d07b6a4e55a1c3f2e8d9b00712" in text
    assert "b81e02c6f5d94a7795f0e1d2c3b4a596" in text
    assert "LBA 161061273 wrapped to fit the device" in text
    assert "slc2010-paper (ssd, datasheet)" in text


def test_a_failed_expectation_fails_the_page(tmp_path: Path) -> None:
    directory = write_run_directory(
        tmp_path / "one", devices=("slc",), workloads=("fio",), requests=2000, failing=True)
    html = page.render(RunDirectory(directory))
    assert '<section class="verdict fail">' in html
    text = Page(html).text
    assert "1 of 2 expectations held" in text
    assert re.search(r"FAIL collection stays under half a page per write", text)


def test_a_run_that_came_to_nothing_fails_the_page(tmp_path: Path) -> None:
    why = "the guest did not come up"
    directory = write_run_directory(tmp_path / "one", requests=2000, failed=why)
    html = page.render(RunDirectory(directory))
    assert '<section class="verdict fail">' in html
    text = Page(html).text
    assert "2 of 2 expectations held, 1 of 6 runs came to nothing" in text
    assert f"slc · web-server came to nothing: {why}" in text
    assert not blocklab.open(directory).ok
    # Nothing is expected, and it is no answer all the same.
    result = json.loads((directory / "result.json").read_text())
    result["expectations"] = []
    (directory / "result.json").write_text(json.dumps(result))
    html = page.render(RunDirectory(directory))
    assert '<section class="verdict fail">' in html
    assert "1 of 6 runs came to nothing" in Page(html).text
    # Without it, all is well.
    well = write_run_directory(tmp_path / "well", requests=2000)
    assert '<section class="verdict pass">' in page.render(RunDirectory(well))


def test_all_figures_are_drawn_and_explained(html: str) -> None:
    parsed = Page(html)
    assert parsed.tags.count("figure") == 5
    alts = [value for tag, name, value in parsed.attributes if (tag, name) == ("div", "aria-label")]
    assert len(alts) == 5 and all(len(alt) > 40 for alt in alts)
    for name in ("latency", "series", "heatmap", "units", "counters"):
        assert f"{name}.parquet" in html


def test_the_sentences_hold_the_measured_numbers(run_directory: Path, html: str) -> None:
    data = RunDirectory(run_directory)
    p99 = [run.metric("read_latency_us_p99") for run in data.runs if run.params["device"] == "slc"]
    low = min(value for value in p99 if value is not None)
    assert f"99 % of reads finish within {low:.0f} µs to" in Page(html).text


def test_at_most_five_figures(tmp_path: Path) -> None:
    directory = write_run_directory(
        tmp_path / "one", devices=("slc",), workloads=("fio",), requests=2000)
    result = json.loads((directory / "result.json").read_text())
    result["plots"] = [*result["plots"], "waf", "no-such-plot"]
    (directory / "result.json").write_text(json.dumps(result))
    parsed = Page(page.render(RunDirectory(directory)))
    assert parsed.tags.count("figure") <= MAX_FIGURES
    assert "no-such-plot: no such plot; there are percentiles, throughput" in parsed.text


def with_claims(directory: Path) -> Path:
    """Two claims of one paper, judged, and what the study says of them."""
    claims = [
        {"text": "the window keeps the throughput", "source": "the paper, figure 9",
         "standing": "holds in part", "range": [0.86, 0.91], "expected": "0.89 <= x <= 0.97"},
        {"text": "reads are <fast>", "source": "the paper, section 5",
         "standing": "does not hold", "range": None, "expected": "x <= 100"},
    ]
    result = json.loads((directory / "result.json").read_text()) | {"claims": claims}
    (directory / "result.json").write_text(json.dumps(result))
    with (directory / "study.toml").open("a") as study:
        study.write(
            "[[claim]]\nmetric = 'throughput_mb_s'\nrelative_to = { device = 'disk' }\n"
            "holds = { min = 0.89, max = 0.97 }\nin_part = { min = 0.8 }\n"
            "[[claim]]\nmetric = 'read_latency_us_p99'\nholds = { max = 100 }\n")
    return directory


def test_claims_stand_beside_what_was_measured(tmp_path: Path) -> None:
    directory = with_claims(write_run_directory(tmp_path / "run", requests=2000))
    parsed = Page(page.render(RunDirectory(directory)))
    assert parsed.open == []
    assert "Claims of the paper: 1 in part, 1 does not" in parsed.text
    assert ("IN PART the window keeps the throughput "
            "the paper, figure 9 · throughput_mb_s / that of disk "
            "0.89 to 0.97 in part: at least 0.8 0.860 to 0.910") in parsed.text
    assert ("DOES NOT HOLD reads are <fast> the paper, section 5 · read_latency_us_p99 "
            "at most 100") in parsed.text


@pytest.mark.parametrize(("source", "headline"), [
    ("Ha, Cho, Eom 2010, figure 9", "Claims of Ha, Cho, Eom 2010 and the paper: "),
    ("the paper, table 4", "Claims of the paper: "),
])
def test_claims_have_the_names_of_their_sources(
    tmp_path: Path, source: str, headline: str
) -> None:
    directory = with_claims(write_run_directory(tmp_path / "run", requests=2000))
    file = directory / "result.json"
    file.write_text(file.read_text().replace("the paper, figure 9", source))
    assert headline in Page(page.render(RunDirectory(directory))).text


def test_without_claims_there_is_no_word_of_them(html: str) -> None:
    assert '<section class="claims">' not in html


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    hostile = '<script>alert(1)</script><img src=x onerror=alert(1)>"\'&]]>'
    directory = write_run_directory(
        tmp_path / "hostile", devices=(hostile, "disk"), workloads=(hostile, "b"),
        title=hostile, requests=2000)
    html = page.render(RunDirectory(directory))
    parsed = Page(html)
    assert parsed.open == []
    assert not {"script", "img"} & set(parsed.tags)
    assert not any(name.startswith("on") for _, name, _ in parsed.attributes)
    assert "<script>alert(1)</script>" in parsed.text, "the title is shown as it is"


def test_a_metric_that_is_no_number_is_named(tmp_path: Path) -> None:
    directory = write_run_directory(tmp_path / "edited", requests=2000)
    file = directory / "result.json"
    result = json.loads(file.read_text())
    result["runs"][0]["metrics"]["iops"] = "many"
    file.write_text(json.dumps(result))
    with pytest.raises(StudyError, match="a run is incomplete .iops is 'many'"):
        page.render(RunDirectory(directory))


def test_a_disk_alone_has_no_write_amplification(tmp_path: Path) -> None:
    directory = write_run_directory(
        tmp_path / "disk", devices=("disk",), workloads=("fio",), requests=2000)
    text = Page(page.render(RunDirectory(directory))).text
    assert "waf: the runs hold no data for it" in text
    assert "This study has no steady-state gate" in text


def test_a_large_sweep_stays_readable(tmp_path: Path) -> None:
    directory = write_run_directory(
        tmp_path / "sweep", devices=("slc",), workloads=("a", "b"), requests=400, repeats=2,
        axes={"device.ssd.op": [0.07, 0.14, 0.28],
              "device.ssd.gc": ["greedy", {"d-choices": {"d": 10}}, "fifo"]})
    html = page.render(RunDirectory(directory))
    assert len(html.encode()) < page.MAX_BYTES
    text = Page(html).text
    assert "12 of 18 grid points are drawn" in text
    assert "d-choices d=10" in text


def test_bounds_are_as_they_were_written(tmp_path: Path) -> None:
    directory = write_run_directory(tmp_path / "one", devices=("slc",), workloads=("fio",))
    study = directory / "study.toml"
    study.write_text(
        "[[expect]]\ntext = 'a'\nmetric = 'utilisation_mean'\nmin = 0.996\n"
        "[[expect]]\ntext = 'b'\nmetric = 'read_latency_us_p99'\nmax = 9.996\n")
    judged = verdict.judge(RunDirectory(directory))
    wanted = [expectation.wanted for expectation in judged.expectations]
    assert wanted == ["at least 99.6\u00a0%", "at most 9.996\u00a0µs"]


def test_a_report_of_many_runs_takes_seconds(tmp_path: Path) -> None:
    runs = 2000
    directory = write_run_directory(
        tmp_path / "many", devices=("slc",), workloads=("fio",), requests=400,
        axes={"study.seed": [*range(20)]})
    # Their tables are those of twenty runs again and again: made-up numbers take their time, too.
    file = directory / "result.json"
    result = json.loads(file.read_text())
    result["runs"] = [
        {**run, "label": f"seed={seed}", "params": {"study.seed": seed, "repeat": 0}}
        for seed in range(runs) for run in [result["runs"][seed % 20]]]
    file.write_text(json.dumps(result))
    for name in ("latency", "series", "heatmap", "units"):
        table = pl.read_parquet(directory / f"{name}.parquet")
        if "t_s" in table.columns:
            table = table.filter(pl.col("t_s") < 3)
        more = pl.DataFrame({"more": range(0, runs, 20)}, schema={"more": pl.UInt32})
        table.join(more, how="cross").with_columns(
            run=pl.col("run") + pl.col("more")).drop("more").write_parquet(
            directory / f"{name}.parquet")
    began = time.process_time()
    page.render(RunDirectory(directory))
    assert time.process_time() - began < 20


@pytest.mark.parametrize("lost", ["latency", "series", "heatmap", "units", "wear", "counters"])
def test_a_missing_table_costs_one_figure_at_most(
    run_directory: Path, tmp_path: Path, lost: str
) -> None:
    directory = Path(shutil.copytree(run_directory, tmp_path / "partial"))
    (directory / f"{lost}.parquet").unlink()
    parsed = Page(page.render(RunDirectory(directory)))
    assert parsed.tags.count("figure") >= 4


def _no_directory(directory: Path) -> None:
    shutil.rmtree(directory)


def _no_result(directory: Path) -> None:
    (directory / "result.json").unlink()


def _half_a_result(directory: Path) -> None:
    file = directory / "result.json"
    file.write_text(file.read_text()[:200])


def _no_runs(directory: Path) -> None:
    (directory / "result.json").write_text('{"study": "x", "digest": "y", "runs": []}')


def _run_without_metrics(directory: Path) -> None:
    (directory / "result.json").write_text('{"study": "x", "digest": "y", "runs": [{}]}')


def _half_a_table(directory: Path) -> None:
    file = directory / "latency.parquet"
    file.write_bytes(file.read_bytes()[:100])


def _other_columns(directory: Path) -> None:
    shutil.copy(directory / "wear.parquet", directory / "series.parquet")


@pytest.mark.parametrize(
    ("damage", "file"),
    [
        (_no_directory, "damaged"),
        (_no_result, "result.json"),
        (_half_a_result, "result.json:"),
        (_no_runs, "result.json"),
        (_run_without_metrics, "result.json"),
        (_half_a_table, "latency.parquet"),
        (_other_columns, "series.parquet"),
    ],
)
def test_a_damaged_directory_gives_one_clear_error(
    run_directory: Path, tmp_path: Path, damage: Callable[[Path], None], file: str
) -> None:
    directory = Path(shutil.copytree(run_directory, tmp_path / "damaged"))
    (directory / "report.html").unlink(missing_ok=True)
    damage(directory)
    with pytest.raises(StudyError) as caught:
        page.write(directory)
    message = str(caught.value)
    assert message.startswith("error: ") and "= help: " in message
    assert file in message
    assert caught.value.kind == "input"
    assert not (directory / "report.html").exists(), "half a report was left"


def test_an_unwritable_target_is_the_machines_fault(run_directory: Path, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="cannot write the report") as caught:
        page.write(run_directory, tmp_path / "no" / "such" / "folder.html")
    assert (caught.value.kind, caught.value.exit_code) == ("input", 2)


def test_the_command_writes_names_and_fails_like_the_house(
    run_directory: Path, tmp_path: Path
) -> None:
    def report(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "blocklab.report", *arguments],
            capture_output=True, text=True, check=False)

    target = tmp_path / "page.html"
    done = report(str(run_directory), "--out", str(target), "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout) == {"report": str(target)}
    assert target.stat().st_size > 100_000
    failed = report(str(tmp_path / "nothing"))
    assert failed.returncode == 2
    assert failed.stdout == "" and "Traceback" not in failed.stderr
    assert "is not a run directory" in failed.stderr
    failed = report(str(tmp_path / "nothing"), "--json")
    told = json.loads(failed.stdout)["error"]
    assert (failed.returncode, told["kind"], told["exit_code"]) == (2, "input", 2)
    assert "is not a run directory" in told["message"]
    failed = report(str(run_directory), "--figure", "nope", "--json")
    told = json.loads(failed.stdout)["error"]
    assert "nope" in told["message"] and (told["expected"] or told["help"]), told


def test_only_a_report_or_a_figure_is_written_over(tmp_path: Path) -> None:
    directory = write_run_directory(tmp_path / "run")
    notes = tmp_path / "notes.html"
    notes.write_text("<title>my own</title>", "utf-8")
    for write in (lambda: page.write(directory, notes),
                  lambda: write_figure(directory, "waf", notes)):
        with pytest.raises(StudyError, match=r"(?s)exists already.*delete the file") as refused:
            write()
        assert refused.value.exit_code == 2
        assert notes.read_text("utf-8") == "<title>my own</title>"
    notes.write_text("", "utf-8")
    for _ in range(2):
        assert page.write(directory, notes) == notes
        assert write_figure(directory, "waf") == directory / "waf.svg"


def test_what_is_in_the_way_of_a_report_stays(tmp_path: Path) -> None:
    directory = write_run_directory(tmp_path / "run")
    (tmp_path / "dear.html").write_text("dear", "utf-8")
    link, folder, pipe = (tmp_path / name for name in ("link.html", "folder", "pipe"))
    link.symlink_to("dear.html")
    folder.mkdir()
    for place in (link, folder, Path("/proc/none/place.html")):
        with pytest.raises(StudyError) as refused:
            page.write(directory, place)
        assert refused.value.exit_code == 2 and str(place) in str(refused.value)
    assert (tmp_path / "dear.html").read_text("utf-8") == "dear" and link.is_symlink()
    assert list(folder.iterdir()) == []
    # What is no file is written into, and stays what it is.
    os.mkfifo(pipe)
    read = tmp_path / "read"
    with read.open("wb") as to, subprocess.Popen(["cat", pipe], stdout=to) as reader:
        try:
            page.write(directory, pipe)
        finally:
            if not pipe.is_fifo():
                reader.kill()
    assert pipe.is_fifo() and "</html>" in read.read_text("utf-8")
    full = tmp_path / "full.html"
    full.symlink_to("/dev/full")
    with pytest.raises(StudyError) as refused:
        page.write(directory, full)
    assert refused.value.exit_code == 3 and Path("/dev/full").is_char_device()


def test_a_figure_stands_alone(tmp_path: Path) -> None:
    directory = write_run_directory(tmp_path / "run")
    path = write_figure(directory, "utilisation")
    drawing = ElementTree.fromstring(path.read_text("utf-8"))
    assert path == directory / "utilisation.svg"
    assert drawing.tag.endswith("svg") and int(drawing.attrib["width"]) > 900
    used = set(re.findall(r"var\(--([a-z0-9]+)\)", path.read_text("utf-8")))
    assert used <= set(re.findall(r"--([a-z0-9]+):", path.read_text("utf-8")))
    with pytest.raises(StudyError, match=r"(?s)no figure named `wfa`.*waf"):
        write_figure(directory, "wfa")
    with pytest.raises(StudyError, match=r"(?s)is SVG, and .*\.png.*waf\.svg"):
        write_figure(directory, "waf", tmp_path / "waf.png")
    assert not (tmp_path / "waf.png").exists()
