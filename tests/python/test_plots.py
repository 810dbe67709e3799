"""Do the drawings say what the data says?"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from synthetic import write_run_directory

from blocklab._report import verdict
from blocklab.plots import (
    _frame,
    _style,
    mapping,
    percentiles,
    registry,
    throughput,
    utilisation,
    waf,
)
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


def test_bins_far_from_each_other_keep_their_width() -> None:
    assert throughput._width([0.0, 2.0, 5.0]) == 1.0, "no two of them are neighbours"
    assert throughput._width([0.6 * index for index in (0, 3, 7)]) == pytest.approx(0.6)
    assert throughput._width([0.0, 0.5, 1.0000001]) == 0.5, "no multiples of one width"


def strips(
    monkeypatch: pytest.MonkeyPatch, directory: Path, series: list[tuple[str, float, int]]
) -> dict[str, list[tuple[float, float]]]:
    """(time, MB/s) by operation, as they are drawn of bins (operation, start, bytes)."""
    pl.DataFrame(series, schema=["op", "t_s", "bytes"], orient="row").with_columns(
        run=pl.lit(0, pl.UInt32), requests=pl.lit(1)).write_parquet(directory / "series.parquet")
    found: dict[str, list[tuple[float, float]]] = {}
    strip = throughput._strip

    def seen(table: pl.DataFrame, op: str, *rest: Any, **more: Any) -> Any:
        found[op] = [*table.select("t_s", "mb_s").iter_rows()]
        return strip(table, op, *rest, **more)

    monkeypatch.setattr(throughput, "_strip", seen)
    assert throughput.draw(RunDirectory(directory)) is not None
    return found


def test_idle_time_is_drawn_as_idle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = write_run_directory(
        tmp_path / "one", devices=("slc",), workloads=("fio",), requests=400)
    mb = 1_000_000
    found = strips(monkeypatch, directory, [
        ("read", 0.0, 500 * mb), ("read", 9.0, 400 * mb), ("write", 0.0, 3 * mb),
        ("write", 1.0, 3 * mb), ("flush", 4.0, 0)])
    assert found["read"] == [(0.0, 500.0), (1.0, 0.0), (9.0, 400.0), (10.0, 0.0)]
    assert found["write"] == [(0.0, 3.0), (1.0, 3.0), (2.0, 0.0)]


def test_one_bin_is_as_wide_as_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = write_run_directory(
        tmp_path / "one", devices=("slc",), workloads=("fio",), requests=400)
    found = strips(monkeypatch, directory, [("read", 0.0, 240_000_000)])
    assert found == {"read": [(0.0, 2.0), (120.0, 0.0)]}


def test_a_long_run_of_few_bins_stays_small() -> None:
    table = pl.DataFrame({"run": [0] * 3, "t_s": [0.0, 1e-6, 1e6], "op": ["read"] * 3,
                          "requests": [1] * 3, "bytes": [1] * 3})
    assert throughput._with_idle(throughput._rates(table)).height == 5


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
