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

import blocklab
from blocklab._report import verdict
from blocklab.plots import (
    _frame,
    _layout,
    _parts,
    _style,
    latency_heatmap,
    mapping,
    percentiles,
    registry,
    throughput,
    utilisation,
    waf,
)
from blocklab.rundir import Run, RunDirectory


def test_the_curve_reaches_one_request_at_the_slowest() -> None:
    counts = pl.DataFrame({"latency_ns": [1000, 5000, 90_000], "count": [900, 99, 1]})
    curve = percentiles._curve(counts)
    assert curve[-1] == (pytest.approx(math.log10(1000)), 90.0)
    assert (pytest.approx(1.0), 1.0) in curve, "90 % finish within the first bucket"
    assert (pytest.approx(3.0), 5.0) in curve, "99.9 % finish within the second"
    assert curve == sorted(curve)


def read_at(curve: list[tuple[float, float]], share: float) -> float:
    """What the straight lines of a curve say at a percentile."""
    nines = -math.log10(1 - share)
    for (x, y), (to_x, to_y) in zip(curve, curve[1:], strict=False):
        if x <= nines <= to_x and to_x > x:
            return 10 ** (math.log10(y) + (math.log10(to_y / y)) * (nines - x) / (to_x - x))
    raise AssertionError(f"{share} is not on the curve")


def test_the_curve_says_what_the_percentiles_say() -> None:
    counts = pl.DataFrame({"latency_ns": [1000, 5_000_000], "count": [60_000, 40_000]})
    curve = percentiles._curve(counts)
    for share, micros in ((0.5, 1.0), (0.59, 1.0), (0.61, 5000.0), (0.9, 5000.0), (0.99, 5000.0)):
        assert read_at(curve, share) == pytest.approx(micros), share
    # What is too narrow to be seen is within the next step.
    thin = pl.DataFrame({"latency_ns": [1000, 2000, 5_000_000], "count": [90_000, 20, 9980]})
    assert read_at(percentiles._curve(thin), 0.95) == pytest.approx(5000.0)
    assert read_at(percentiles._curve(thin), 0.8) == pytest.approx(1.0)


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


def test_discards_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = repeated(tmp_path / "one", {
        "read_latency_us_p99": [None], "write_latency_us_p99": [None], "latency_us_p99": [None],
        "discard_latency_us_p99": [12.6], "discard_latency_us_p50": [12.0],
        "throughput_mb_s": [0.0], "discard_mb_s": [325.0], "discard_iops": [79_365.0]})
    trims = pl.DataFrame({"run": [0], "op": ["discard"], "latency_ns": [12_600], "count": [10**5]})
    trims.cast({"run": pl.UInt32}).write_parquet(data.path / "latency.parquet")
    curve = percentiles.draw(data)
    assert curve is not None and ">discard</text>" in curve.svg
    assert "p99 of discards 12.6" in curve.title
    found = strips(monkeypatch, data.path, [("discard", 0.0, 240_000_000)])
    assert found == {"discard": [(0.0, 2.0), (120.0, 0.0)]}
    rates = throughput.draw(RunDirectory(data.path))
    assert rates is not None and "Mean throughput of discards 325" in rates.title
    assert "discard 325</text>" in rates.svg
    assert any("99 % of discards finish within 12.6" in sentence
               for sentence in verdict._sentences(data))
    mixed = [("write", 0.0, 1000), ("discard", 0.0, 5000)]
    assert set(strips(monkeypatch, data.path, mixed)) == {"write", "discard"}


def test_pictures_say_what_is_across_and_upwards(tmp_path: Path) -> None:
    data = RunDirectory(write_run_directory(tmp_path / "one", requests=400))
    curves, rates, busy = (draw(data) for draw in (
        percentiles.draw, throughput.draw, utilisation.draw))
    assert curves is not None and rates is not None and busy is not None
    assert curves.svg.count(">percentile, in %</text>") == 3, "one below each panel"
    assert curves.svg.count(">latency (log scale)</text>") == 1
    assert ">MB/s</text>" in rates.svg and ">time</text>" in rates.svg
    assert ("busy share of each unit over time; the top row of a channel is its bus, those below "
            "are its dies</text>") in busy.svg
    disk = RunDirectory(write_run_directory(
        tmp_path / "disk", devices=("disk",), workloads=("fio",), requests=400))
    arm = utilisation.draw(disk)
    assert arm is not None and ">busy share of each unit over time</text>" in arm.svg


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


def test_the_time_axis_of_one_bin_ends_with_the_run(tmp_path: Path) -> None:
    data = repeated(tmp_path / "one", {"simulated_s": [0.0144]})
    for name in ("heatmap", "units"):
        file = data.path / f"{name}.parquet"
        pl.read_parquet(file).filter(pl.col("t_s") == 0).write_parquet(file)
    for draw in (latency_heatmap.draw, utilisation.draw):
        figure = draw(RunDirectory(data.path))
        assert figure is not None
        texts = re.findall(r">([^<]*)</text>", figure.svg)
        assert "10 ms" in texts and not [text for text in texts if text.endswith(" s")], texts


def test_a_percentile_of_few_requests_is_no_headline(tmp_path: Path) -> None:
    few = {"read_iops": [500 / 120], "write_iops": [1000.0]}
    title = percentiles.draw(repeated(tmp_path / "one", few)).title  # type: ignore[union-attr]
    assert title.startswith("Median of reads ") and "p99" not in title, title
    two = {name: values * 2 for name, values in few.items()} | {
        "read_latency_us_p50": [100.0, 300.0]}
    both = percentiles.draw(repeated(tmp_path / "two", two, devices=("slc", "mlc")))
    assert both is not None and both.title == "Median of reads: mlc takes 3.0 times as long as slc"
    fewer = repeated(tmp_path / "three", {"read_iops": [10 / 120]})
    assert percentiles._finding(fewer) == "Latency by percentile"


def test_a_run_that_lacks_a_metric_is_no_run_of_few_requests(tmp_path: Path) -> None:
    data = repeated(tmp_path / "one", {
        "read_latency_us_p99": [20.0, None], "read_iops": [1000.0, 0.0],
        "latency_us_p99": [None, None]}, axes={"rw": ["randread", "randwrite"]})
    assert any("99 % of reads finish within" in sentence for sentence in verdict._sentences(data))


@pytest.mark.parametrize(("study", "busy", "words"), [
    ("[workload.fio]\n", 0.97, "Mean throughput: the devices are within 3 % of each other"),
    ("[workload.fio]\n", 0.2, "Mean throughput: the devices are within 3 % of each other"),
    ("[workload.trace]\nfile = 'a'\nreplay = 'back-to-back'\n", 0.2,
     "Mean throughput: the devices are within 3 % of each other"),
    ("[workload.trace]\nfile = 'a'\n", 0.95,
     "Mean throughput: the devices are within 3 % of each other"),
    ("[workload.trace]\nfile = 'a'\nreplay.timestamps.scale = 2\n", 0.4, "Every device keeps up"),
])
def test_a_device_keeps_up_with_what_does_not_wait_for_it(
    tmp_path: Path, study: str, busy: float, words: str
) -> None:
    data = repeated(tmp_path / "one", {
        "throughput_mb_s": [155.0, 154.0], "utilisation_max": [busy, 0.3]},
        devices=("greedy", "fifo"))
    (data.path / "study.toml").write_text(study)
    assert throughput._finding(RunDirectory(data.path)).startswith(words)


def test_a_workload_of_one_device_compares_none(tmp_path: Path) -> None:
    data = repeated(tmp_path / "one", {"throughput_mb_s": [155.0, None]}, devices=("a", "b"))
    assert throughput._finding(data) == "Mean throughput 155\u00a0MB/s"
    four = write_run_directory(tmp_path / "two", devices=("a", "b"), workloads=("x", "y"))
    result = json.loads((four / "result.json").read_text())
    for run, value in zip(result["runs"], (100.0, None, 100.0, 300.0), strict=True):
        run["metrics"]["throughput_mb_s"] = value
    (four / "result.json").write_text(json.dumps(result))
    assert "the devices are within 3 %" in throughput._finding(RunDirectory(four))


def test_a_long_run_of_few_bins_stays_small() -> None:
    table = pl.DataFrame({"run": [0] * 3, "t_s": [0.0, 1e-6, 1e6], "op": ["read"] * 3,
                          "requests": [1] * 3, "bytes": [1] * 3})
    assert throughput._with_idle(throughput._rates(table)).height == 5


def repeated(root: Path, values: dict[str, list[float | None]], **changes: Any) -> RunDirectory:
    """A directory whose runs have these metrics, in the order of the grid."""
    directory = write_run_directory(
        root, workloads=("fio",), requests=2000, **{"devices": ("slc",), **changes})
    file = directory / "result.json"
    result = json.loads(file.read_text())
    for name, each in values.items():
        for run, value in zip(result["runs"], each, strict=True):
            run["metrics"][name] = value
    result["expectations"] = []
    file.write_text(json.dumps(result))
    (directory / "study.toml").unlink()
    return RunDirectory(directory)


def test_repeats_are_averaged_in_words(tmp_path: Path) -> None:
    data = repeated(tmp_path / "one", {
        "waf": [2.0, 4.0], "waf_gc": [1.0, 2.0], "throughput_mb_s": [100.0, 140.0],
        "read_latency_us_p99": [110.0, 190.0], "read_latency_us_p50": [60.0, 80.0],
        "map_ram_kib_mean": [100.0, 200.0],
    }, repeats=2)
    titles = {name: figure.title for name, draw in registry().items() if (figure := draw(data))}
    assert titles["waf"] == "Write amplification 3.00, of which collection 1.50"
    assert titles["throughput"] == "Mean throughput 120\u00a0MB/s"
    assert titles["percentiles"] == "Median 70.0\u00a0µs, p99 of reads 150\u00a0µs"
    assert titles["map"] == "The mapping takes 150\u00a0KiB of RAM"
    assert verdict.judge(data).headline == "99 % of reads finish within 150\u00a0µs."


def test_points_are_compared_by_the_means_of_their_repeats(tmp_path: Path) -> None:
    data = repeated(tmp_path / "one", {
        "waf": [2.0, 4.0, 1.0, 9.0, 0.5, None],
        "read_latency_us_p99": [110.0, 190.0, 100.0, 300.0, 120.0, 130.0],
    }, repeats=2, axes={"iodepth": [1, 2, 4]})
    figure = waf.draw(data)
    assert figure is not None
    assert figure.title == "Write amplification runs from 3.00 (iodepth 1) to 5.00 (iodepth 2)"
    assert "2 of 3 grid points have a value in every repeat" in figure.note
    assert verdict.judge(data).headline == (
        "99 % of reads finish within 125\u00a0µs with iodepth 4, 200\u00a0µs with iodepth 2.")


def test_two_devices_are_compared_by_the_means_of_their_repeats(tmp_path: Path) -> None:
    data = repeated(tmp_path / "one", {"read_latency_us_p99": [100.0, 200.0, 250.0, 350.0]},
                    repeats=2, devices=("slc", "disk"))
    figure = percentiles.draw(data)
    assert figure is not None
    assert figure.title == "P99 of reads: disk takes 2.0 times as long as slc"
    assert "within 150\u00a0µs on slc, 300\u00a0µs on disk." in verdict.judge(data).headline


def test_the_busiest_unit_is_so_on_average_over_repeats(tmp_path: Path) -> None:
    data = repeated(tmp_path / "one", {}, repeats=2)
    pl.DataFrame({
        "run": [0, 0, 1, 1], "unit": ["channel0.die0", "channel0.die1"] * 2, "t_s": [0.0] * 4,
        "what": ["read"] * 4, "busy": [0.9, 0.6, 0.1, 0.6]},
        schema_overrides={"run": pl.UInt32}).write_parquet(data.path / "units.parquet")
    figure = utilisation.draw(data)
    assert figure is not None
    assert figure.title == "Busiest on average: channel 0 die 1 (60\u00a0%)"


def test_a_short_last_bin_weighs_as_little_as_it_is_long(tmp_path: Path) -> None:
    data = repeated(tmp_path / "one", {"simulated_s": [2.5]})
    pl.DataFrame({
        "run": [0] * 6, "unit": ["arm"] * 6, "t_s": [0.0, 1.0, 2.0] * 2,
        "what": ["seek"] * 3 + ["rotate"] * 3, "busy": [0.3, 0.2, 1.0, 0.1, 0.4, 0.0]},
        schema_overrides={"run": pl.UInt32}).write_parquet(data.path / "units.parquet")
    figure = utilisation.draw(data)
    assert figure is not None
    assert figure.title == "Busiest on average: arm (60\u00a0%)", "1.5 of 2.5 s"


def test_a_run_that_took_no_time_has_a_utilisation(tmp_path: Path) -> None:
    data = repeated(tmp_path / "two", {"simulated_s": [0, 0.5]}, devices=("slc", "mlc"))
    pl.DataFrame({
        "run": [0, 1], "unit": ["arm"] * 2, "t_s": [0.0] * 2, "what": ["seek"] * 2,
        "busy": [1.0, 0.5]}, schema_overrides={"run": pl.UInt32},
    ).write_parquet(data.path / "units.parquet")
    assert utilisation.draw(data) is not None


def test_no_unit_of_a_disk_is_busy_for_more_than_the_time(tmp_path: Path) -> None:
    study = tmp_path / "disk.toml"
    study.write_text('[device.hdd]\npart = "wd-80g-5400"\n[workload.fio]\nrw = "randread"\n'
                     "iodepth = 4\n[run]\nrequests = 20\n")
    data = blocklab.run(study, out=tmp_path / "out")
    units = pl.read_parquet(tmp_path / "out" / "units.parquet")
    bins = units.group_by("t_s").agg(pl.col("busy").sum()).sort("t_s")
    assert bins["busy"].max() <= 1 + 1e-9
    [metrics] = json.loads((tmp_path / "out" / "result.json").read_text())["runs"]
    metrics = metrics["metrics"]
    ends = [*bins["t_s"].to_list()[1:], metrics["simulated_s"]]
    lengths = [end - start for start, end in zip(bins["t_s"], ends, strict=True)]
    busy = sum(share * length for share, length in zip(bins["busy"], lengths, strict=True))
    expected = metrics["utilisation_mean"] * metrics["simulated_s"]
    assert busy == pytest.approx(expected, abs=lengths[0])
    assert len(bins) > 20 and data is not None


def test_curves_whose_names_begin_alike_can_be_told_apart(tmp_path: Path) -> None:
    def at(index: int, params: dict[str, Any]) -> Run:
        return Run(index, "", params, {}, {}, "fio", [], None, None, None, {})

    points = [{"device": device, "device.ssd.over_provisioning": spare}
              for device in ("card", "mlc", "tlc") for spare in ("7%", "28%")]
    axes = list(points[0])
    groups = _layout.points([at(index, point) for index, point in enumerate(points)], axes)
    assert _layout.labels(groups, axes, 150) == [
        "card · 7%", "card · 28%", "mlc · 7%", "mlc · 28%", "tlc · 7%", "tlc · 28%"]
    assert _layout.labels(dict(list(groups.items())[:1]), axes, 150) == ["card · over_provisionin…"]
    long = {f"{'x' * 40}{end}": [at(0, {"device": f"{'x' * 40}{end}"})]
            for end in "ab"}
    assert _layout.labels(long, ["device"], 150) == [
        f"{'x' * 12}…{'x' * 10}{end}" for end in "ab"]


def test_dies_of_a_device_in_a_device_lie_under_their_channels() -> None:
    def rows(*units: str) -> list[tuple[str, str]]:
        table = pl.DataFrame({"run": [0] * len(units), "unit": units, "t_s": [0.0] * len(units),
                              "what": ["read"] * len(units), "busy": [0.5] * len(units)})
        return [(row.group, row.name) for row in utilisation._rows(table)]

    units = ["channel0", "channel0.die0", "channel0.die1"]
    alone = [("channel 0", "bus"), ("channel 0", "die 0"), ("channel 0", "die 1")]
    assert rows(*units) == alone
    assert rows(*(f"device.device.{unit}" for unit in units)) == alone
    assert rows("channel0.die0") == [("channel 0", "die 0")]
    assert rows("device.arm") == [("", "read")]
    assert rows("fast.arm", "slow.arm") == [("fast.arm", "read"), ("slow.arm", "read")]


def test_bars_are_the_means_of_repeats(tmp_path: Path) -> None:
    metrics: dict[str, list[float | None]] = dict.fromkeys(
        [f"waf_{cause}" for cause in waf.causes()], [0.0] * 16)
    metrics |= {"waf": [2.0, 4.0] * 8, "waf_host": [1.0] * 16, "waf_gc": [1.0, 3.0] * 8}
    axes = {"iodepth": [*range(8)]}
    figure = waf.draw(repeated(tmp_path / "one", metrics, repeats=2, axes=axes))
    assert figure is not None and figure.data == "runs.parquet"
    assert figure.title == "Write amplification 3.00 at every grid point"
    assert figure.svg.count(">3.00</text>") == 8 and figure.note == ""


def test_what_shows_one_repeat_says_so(tmp_path: Path) -> None:
    one, two = (RunDirectory(write_run_directory(
        tmp_path / str(repeats), devices=("slc",), workloads=("fio",), requests=2000,
        repeats=repeats)) for repeats in (1, 2))
    for name, draw in registry().items():
        alone, first = draw(one), draw(two)
        assert alone is not None and first is not None
        merged = name == "percentiles"
        assert alone.note == ""
        assert first.note == ("" if merged else "Repeat 0 of 2 is drawn."), name


def nested(directory: Path, *parts: str) -> RunDirectory:
    """The same counters, counted by these parts of the device."""
    file = directory / "counters.parquet"
    counters = pl.read_parquet(file)
    pl.concat([
        counters.with_columns(name=pl.concat_str([pl.lit(f"{part}."), pl.col("name")]))
        for part in parts]).write_parquet(file)
    return RunDirectory(directory)


def test_a_device_in_a_device_is_drawn(tmp_path: Path) -> None:
    plain = write_run_directory(
        tmp_path / "plain", devices=("slc",), workloads=("fio",), requests=400)
    bare = RunDirectory(plain).table("counters")
    for index, parts in enumerate([("device",), ("fast.device",), ("fast", "slow"),
                                   ("fast", "fast.first", "fast.second")]):
        data = nested(write_run_directory(
            tmp_path / str(index), devices=("slc",), workloads=("fio",), requests=400), *parts)
        shares = waf._shares(data.table("counters"))
        assert shares == waf._shares(bare) and shares[1], parts
        figure = waf.draw(data)
        assert figure is not None and figure.data.startswith("counters.parquet")
        line, whole = (mapping._line(table, data.runs[0])
                       for table in (data.table("counters"), bare))
        assert line is not None and whole is not None and line.hits == whole.hits
        times = 2 if parts == ("fast", "slow") else 1
        assert line.kib == [times * kib for kib in whole.kib], parts
        assert mapping.draw(data) is not None


def test_the_device_s_own_counters_are_before_those_of_its_parts() -> None:
    counters = pl.DataFrame({
        "t_s": [0.0, 1.0] * 3, "value": [1, 2, 10, 20, 100, 200],
        "name": ["map_hits"] * 2 + ["fast.map_hits"] * 2 + ["fast.map_lookups"] * 2})
    names = ["map_hits", "map_lookups"]
    assert _parts.wide(counters, names).to_dict(as_series=False) == {
        "t_s": [0.0, 1.0], "map_hits": [1, 2]}
    assert _parts.wide(counters.clear(), names).is_empty()


def test_without_counters_of_writes_there_are_bars(tmp_path: Path) -> None:
    directory = write_run_directory(
        tmp_path / "one", devices=("slc",), workloads=("fio",), requests=400)
    file = directory / "counters.parquet"
    pl.read_parquet(file).filter(pl.col("name") == "map_hits").write_parquet(file)
    figure = waf.draw(RunDirectory(directory))
    assert figure is not None and figure.data == "runs.parquet"
    assert ">1.35</text>" in figure.svg


def test_what_is_still_in_the_write_buffer_is_no_amplification(tmp_path: Path) -> None:
    data = repeated(tmp_path / "one", {
        name: [0.0] for name in ("waf", *(f"waf_{cause}" for cause in waf.causes()))})
    file = data.path / "counters.parquet"
    counters = pl.read_parquet(file)
    counters.filter(pl.col("name") == "host_bytes_written").write_parquet(file)
    figure = waf.draw(data)
    assert figure is not None and figure.data.startswith("counters.parquet")
    file.unlink()
    figure = waf.draw(data)
    assert figure is not None and figure.data == "runs.parquet"
    assert ">0.00</text>" in figure.svg and "NaN" not in figure.svg


def test_panels_that_are_left_out_are_said(tmp_path: Path) -> None:
    names = tuple(f"w{index}" for index in range(13))
    data = RunDirectory(write_run_directory(
        tmp_path / "one", devices=("slc",), workloads=names, requests=200))
    figure = percentiles.draw(data)
    assert figure is not None
    assert figure.note == "12 of 13 panels are drawn; the tables have all."


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
