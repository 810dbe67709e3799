"""Figures of a study's own: do they show the points they are given, and can they be read?"""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from synthetic import write_run_directory

from blocklab import StudyError
from blocklab._names import short
from blocklab._report import page
from blocklab.plots import Figure, _axes, _labels, mapping, own
from blocklab.report import write_figure
from blocklab.rundir import RunDirectory

MAPPINGS = [f"mapping{letter}" for letter in "abcdefghijklm"]
WORKLOADS = ["bonnie", "iozone", "ie", "pc"]


def drawing(**changes: Any) -> dict[str, Any]:
    """Throughput against RAM for 13 mappings and 4 workloads; the first mapping is the best."""
    points = [
        {"params": {"workload": workload, "mapping": mapping}, "x": 10.0 * 1.5**i + 3 * w,
         "y": 90.0 - 6 * i + w, "front": i == 0}
        for w, workload in enumerate(WORKLOADS) for i, mapping in enumerate(MAPPINGS)
    ]
    return {
        "name": "pareto", "title": "RAM buys throughput", "kind": "points",
        "x": "map_ram_kib_mean", "x_is_axis": False, "y": "throughput_mb_s", "relative": False,
        "series": ["mapping"], "panels": "workload", "x_label": "RAM, KiB", "y_label": "MB/s",
        "x_log": True, "y_log": False, "front": "high-left", "points": points, **changes,
    }


def bars(**changes: Any) -> dict[str, Any]:
    """The same as bars by mapping and workload."""
    points = [point | {"x": point["params"]["mapping"]} for point in drawing()["points"]]
    return drawing(kind="bars", x="mapping", x_is_axis=True, series=["workload"], panels=None,
                   x_log=False, front=None, points=points, **changes)


def directory_with(root: Path, *figures: dict[str, Any], plots: list[str] | None = None) -> Path:
    directory = write_run_directory(
        root / "run", devices=("slc",), workloads=("fio",), requests=400)
    result = json.loads((directory / "result.json").read_text())
    result |= {"figures": figures, "plots": plots or []}
    (directory / "result.json").write_text(json.dumps(result))
    return directory


def drawn(root: Path, figure: dict[str, Any]) -> Figure:
    result = own(RunDirectory(directory_with(root, figure)))[figure["name"]](
        RunDirectory(root / "run"))
    assert result is not None
    assert not re.search(r"\bnan\b|\binf\b", result.svg)
    return result


def words(svg: str) -> list[tuple[float, float, str, str]]:
    """(x, y, anchor, text) of every word in the drawing."""
    found = re.findall(
        r'<text x="([\d.-]+)" y="([\d.-]+)" text-anchor="(\w+)"[^>]*>([^<]*)</text>', svg)
    return [(float(x), float(y), anchor, text) for x, y, anchor, text in found]


def boxes(svg: str) -> list[tuple[str, _labels.Box]]:
    """Where each word stands, by a cautious guess at its width."""
    result = []
    for x, y, anchor, text in words(svg):
        width = 0.9 * _axes.width_of(text)
        left = x - width * {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor]
        result.append((text, _labels.Box(left, y - 8, left + width, y)))
    return result


def assert_legible(svg: str) -> None:
    for (one, a), (other, b) in combinations(boxes(svg), 2):
        assert a.overlap(b) == 0, f"{one!r} covers {other!r}"


@pytest.mark.parametrize("figure", [
    drawing(), drawing(panels=None, series=["mapping", "workload"]), bars(),
    drawing(kind="lines", series=["workload"], panels=None),
    drawing(y="read_latency_us_p99", y_log=True, front="low-left"),
    bars() | {"kind": "lines"}, bars() | {"panels": "workload", "series": []},
], ids=["points", "one-panel", "bars", "lines", "latency", "names-across", "bar-panels"])
def test_no_word_covers_another(tmp_path: Path, figure: dict[str, Any]) -> None:
    assert_legible(drawn(tmp_path, figure).svg)


def test_every_point_has_its_dot_and_its_name(tmp_path: Path) -> None:
    figure = drawn(tmp_path, drawing())
    assert figure.svg.count("<circle") == len(MAPPINGS) * len(WORKLOADS)
    texts = [text for *_, text in words(figure.svg)]
    assert all(texts.count(mapping) == len(WORKLOADS) for mapping in MAPPINGS)
    assert all(workload in texts for workload in WORKLOADS)
    assert figure.svg.count("<polyline") == len(WORKLOADS), "a front in each panel"
    assert figure.note == "On the front of every panel: mappinga."


def test_numbers_of_panels_and_series_have_the_name_of_their_axis(tmp_path: Path) -> None:
    points = [{"params": {"a.depth": depth, "b.size": size}, "x": 1, "y": 1.0, "front": False}
              for depth in (1, 2) for size in (4, 8)]
    figure = drawn(tmp_path, drawing(kind="lines", x="c", series=["b.size"], panels="a.depth",
                                     front=None, points=points))
    texts = [text for *_, text in words(figure.svg)]
    assert {"depth 1", "depth 2", "size 4", "size 8"} <= set(texts)


def test_dots_lie_where_their_values_are(tmp_path: Path) -> None:
    points = [{"params": {"w": str(i)}, "x": x, "y": y, "front": False}
              for i, (x, y) in enumerate([(1.0, 10.0), (10.0, 20.0), (100.0, 30.0)])]
    figure = drawn(tmp_path, drawing(kind="lines", series=[], panels=None, front=None,
                                     points=points))
    dots = [(float(x), float(y))
            for x, y in re.findall(r'<circle cx="([\d.]+)" cy="([\d.]+)"', figure.svg)]
    (x1, y1), (x2, y2), (x3, y3) = dots
    assert x2 - x1 == pytest.approx(x3 - x2, abs=0.2), "equal factors, equal distances"
    assert y1 - y2 == pytest.approx(y2 - y3, abs=0.2) and y1 > y3


def test_bars_are_as_long_as_their_values(tmp_path: Path) -> None:
    figure = drawn(tmp_path, bars(relative=True))
    lengths = [float(width) for width in re.findall(r'<rect [^>]* width="([\d.]+)"', figure.svg)]
    values = [90.0 - 6 * i + w for i in range(len(MAPPINGS)) for w in range(len(WORKLOADS))]
    assert len(lengths) == len(values)
    scale = lengths[0] / values[0]
    assert lengths == [pytest.approx(scale * value, abs=0.2) for value in values]


def test_what_has_no_value_is_said(tmp_path: Path) -> None:
    points = drawing()["points"]
    points[0]["y"], points[1]["x"] = None, 0.0
    figure = drawn(tmp_path, drawing(points=points))
    assert "2 of 52 points have no value and are not drawn." in figure.note
    assert figure.svg.count("<circle") == 50


def test_many_series_are_told_apart_or_left_out_aloud(tmp_path: Path) -> None:
    figure = drawn(tmp_path, drawing(kind="lines"))
    assert "12 of 13 series are drawn." in figure.note
    styles = set(re.findall(r'stroke="var\(--(c\d)\)" stroke-width="2.2"([^/]*)', figure.svg))
    assert len(styles) == 12


def test_the_page_shows_own_figures_before_the_plots(tmp_path: Path) -> None:
    figures = [bars(name=f"own{n}", title=f"Own {n}") for n in range(6)]
    directory = directory_with(tmp_path, *figures, plots=["waf", "map"])
    html = page.render(RunDirectory(directory))
    titles = re.findall(r'<h2 id="figure-\d+">([^<]*)</h2>', html)
    assert titles[:6] == [f"Own {n}" for n in range(6)]
    assert len(titles) == 8 and titles[6].startswith("Write amplification")
    assert "Not drawn" not in html


def test_a_figure_of_its_own_stands_alone(tmp_path: Path) -> None:
    directory = directory_with(tmp_path, drawing())
    path = write_figure(directory, "pareto")
    assert path == directory / "pareto.svg"
    assert "<title>RAM buys throughput. MB/s runs from 18.0" in path.read_text("utf-8")
    with pytest.raises(StudyError, match=r"(?s)no figure named `parto`.*pareto, percentiles"):
        write_figure(directory, "parto")


def test_a_figure_without_a_single_value_is_no_figure(tmp_path: Path) -> None:
    points = [point | {"y": None} for point in drawing()["points"]]
    html = page.render(RunDirectory(directory_with(tmp_path, drawing(points=points))))
    assert "pareto: the runs hold no data for it" in html


def test_half_a_figure_is_a_damaged_result(tmp_path: Path) -> None:
    half, other = drawing(), drawing()
    del half["points"][0]["front"]
    del other["points"][0]["params"]["workload"]
    for damaged in (half, other):
        with pytest.raises(StudyError, match="a figure is incomplete"):
            page.render(RunDirectory(directory_with(tmp_path, damaged)))


def test_names_keep_what_tells_them_apart() -> None:
    def names(*labels: str) -> list[str]:
        return list(short(list(labels)).values())

    assert names("page", "wadpm(gc=free,window(fixed=1))", "wadpm(gc=free,window(fixed=20))",
                 "wadpm(gc=free,window(mrc))") == [
        "page", "wadpm fixed=1", "wadpm fixed=20", "wadpm mrc"]
    assert names("a(x=1,y=2)", "a(x=1,y=3)", "a(x=2,y=3)") == [
        "a x=1 y=2", "a x=1 y=3", "a x=2 y=3"]
    assert names("greedy", "d-choices(d=10)") == ["greedy", "d-choices d=10"]
    assert names("wadpm(gc_map_update=free,window(fixed=2))", "page") == ["wadpm", "page"]
    assert names("a(mode=fast)", "a(mode=slow)", "a") == ["a fast", "a slow", "a"]
    assert names("a (odd", "b)") == ["a (odd", "b)"]


def test_the_map_is_drawn_with_ram_and_hits_per_interval(tmp_path: Path) -> None:
    directory = write_run_directory(
        tmp_path / "run", devices=("slc",), workloads=("a", "b"), requests=400)
    data = RunDirectory(directory)
    line = mapping._line(data.table("counters"), data.runs[0])
    assert line is not None
    assert line.kib[:3] == [64.0, 128.0, 192.0] and max(line.kib) == 640.0
    assert line.hits[0] is None and set(line.hits[1:]) == {0.75}
    assert line.movement > 10, "it goes up and down ten times"
    figure = mapping.draw(data)
    assert figure is not None
    assert figure.title == "The mapping takes 352\u00a0KiB of RAM"
    assert_legible(figure.svg)


def test_what_was_measured_elsewhere_stands_beside_the_model(tmp_path: Path) -> None:
    points = [{"params": {"workload": "bonnie"}, "x": x, "y": y, "front": False}
              for x, y in ((1.0, 10.0), (2.0, 30.0))]
    alone = drawing(kind="lines", series=[], panels=None, front=None, x_log=False, points=points)
    assert "measured" not in drawn(tmp_path / "alone", alone).svg
    beside = drawn(tmp_path / "beside", alone | {"measured": [[1.5, 12.0], [2.5, 400.0]]})
    assert {"model", "measured"} <= {text for *_, text in words(beside.svg)}
    assert "measured elsewhere" in beside.how
    assert any(text.startswith("400") for *_, text in words(beside.svg)), "the scale holds it"


def test_what_was_measured_at_zero_has_no_place_on_a_logarithmic_axis(tmp_path: Path) -> None:
    points = [{"params": {"workload": "bonnie"}, "x": x, "y": y, "front": False}
              for x, y in ((1.0, 10.0), (2.0, 30.0))]
    log = drawing(kind="lines", series=[], panels=None, front=None, x_log=True, y_log=True,
                  points=points)
    some = drawn(tmp_path / "some", log | {"measured": [[0.0, 12.0], [1.5, 0.0], [2.0, 20.0]]})
    assert some.note.startswith("2 of 3 measured points are not above zero")
    assert some.svg.count("<circle") == 2 + 1
    none = drawn(tmp_path / "none", log | {"measured": [[0.0, 12.0]]})
    assert "1 of 1 measured points" in none.note
    assert "measured" not in {text for *_, text in words(none.svg)}
    linear = log | {"x_log": False, "y_log": False, "measured": [[0.0, 0.0]]}
    assert drawn(tmp_path / "linear", linear).note == ""
