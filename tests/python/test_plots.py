"""Do the drawings say what the data says?"""

from __future__ import annotations

import math
import re
from pathlib import Path

import polars as pl
import pytest
from synthetic import write_run_directory

from blocklab.plots import _frame, _style, percentiles, registry, throughput
from blocklab.rundir import RunDirectory


def test_the_curve_reaches_one_request_at_the_slowest() -> None:
    counts = pl.DataFrame({"latency_ns": [1000, 5000, 90_000], "count": [900, 99, 1]})
    curve = percentiles._curve(counts)
    assert curve[-1] == (pytest.approx(math.log10(1000)), 90.0)
    assert (pytest.approx(1.0), 1.0) in curve, "90 % finish within the first bucket"
    assert (pytest.approx(3.0), 5.0) in curve, "99.9 % finish within the second"
    assert curve == sorted(curve)


def test_the_axis_names_every_nine(tmp_path: Path) -> None:
    directory = write_run_directory(
        tmp_path / "one", devices=("slc",), workloads=("fio",), requests=20_000)
    data = RunDirectory(directory)
    lines = pl.DataFrame(
        {"run": [0, 0], "op": ["read"] * 2, "latency_ns": [1000, 9000], "count": [10**6, 1]})
    lines.cast({"run": pl.UInt32}).write_parquet(directory / "latency.parquet")
    figure = percentiles.draw(data)
    assert figure is not None
    for label in ("50", "90", "99", "99.9", "99.99", "99.999", "99.9999"):
        assert f">{label}</text>" in figure.svg


def test_many_variants_keep_reads_and_writes_apart(tmp_path: Path) -> None:
    axes: dict[str, list[object]] = {"iodepth": [1, 2, 4, 8]}
    one = RunDirectory(write_run_directory(
        tmp_path / "one", devices=("slc",), workloads=("fio",), axes=axes))
    figure = percentiles.draw(one)
    assert figure is not None and figure.note == ""
    for words, times in (("reads", 1), ("writes", 1), ("iodepth 8", 2)):
        assert figure.svg.count(f">{words}</text>") == times
    two = RunDirectory(write_run_directory(tmp_path / "two", workloads=("fio",), axes=axes))
    figure = percentiles.draw(two)
    assert figure is not None and figure.note == "", "a panel per device has room for all"
    assert figure.svg.count(">disk · reads</text>") == 1


def test_rates_are_bytes_per_bin_width() -> None:
    table = pl.DataFrame(
        {"run": [0, 0, 0], "t_s": [0.0, 0.5, 1.5], "op": ["read"] * 3, "requests": [1, 1, 1],
         "bytes": [1_000_000, 500_000, 0]})
    assert throughput._rates(table)["mb_s"].to_list() == [2.0, 1.0, 0.0]


def test_labels_keep_their_distance_and_order() -> None:
    placed = _style.spread([5.0, 5.1, 4.9, 0.0], 1.0, 0.0, 10.0)
    ordered = sorted(placed)
    assert all(b - a > 0.99 for a, b in zip(ordered, ordered[1:], strict=False))
    assert placed[2] < placed[0] < placed[1] and placed[3] == min(placed)
    assert min(placed) >= 0.0


def test_colour_maps_change_lightness_evenly() -> None:
    for ramp, sign in ((_frame.LIGHT, -1), (_frame.DARK, 1)):
        light = [0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in ramp]
        steps = [sign * (after - before) for before, after in zip(light, light[16:], strict=False)]
        assert min(steps) > 0, "lightness must run one way only"


def test_ticks_are_round_and_reach_the_end() -> None:
    assert _frame.ticks(120.0, 4) == [0.0, 50.0, 100.0]
    assert _frame.ticks(1.0, 4) == [0.0, 0.5, 1.0]
    assert _frame.ticks(0.0, 4) == [0.0]


@pytest.mark.parametrize("name", list(registry()))
def test_the_same_data_give_the_same_drawing(tmp_path: Path, name: str) -> None:
    directory = write_run_directory(
        tmp_path / "one", devices=("slc",), workloads=("fio",), requests=2000)
    first, second = (registry()[name](RunDirectory(directory)) for _ in range(2))
    assert first is not None and first == second
    assert not re.search(r"\bNaN\b|Infinity|undefined", first.svg)
