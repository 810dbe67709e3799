"""Do numbers read as people write them?"""

from __future__ import annotations

import math

import pytest

from blocklab import _numbers as numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1.005, "1.00"), (12.345, "12.3"), (999.6, "1\u202f000"), (0.00123, "0.00123"),
     (1234567, "1\u202f234\u202f567"), (-42.42, "-42.4")],
)
def test_three_significant_digits(value: float, text: str) -> None:
    assert numbers.significant(value) == text


@pytest.mark.parametrize(
    ("micros", "text"),
    [(0.5, "500 ns"), (85.2, "85.2 µs"), (999.0, "999 µs"), (1000.0, "1.00 ms"),
     (1.5e6, "1.50 s"), (600e6, "10.0 min"), (86400e6, "24.0 h")],
)
def test_a_time_takes_the_unit_that_fits(micros: float, text: str) -> None:
    assert numbers.micros(micros).replace(numbers.SPACE, " ") == text


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [("waf", 1.35, "1.350"), ("iops", 12345.6, "12\u202f346 /s"), ("waf", None, "–"),
     ("read_latency_us_p99", 912.0, "912 µs"), ("throughput_mb_s", 3.4133, "3.41 MB/s"),
     ("utilisation_max", 0.974, "97 %"), ("flash_erases", 950.0, "950"),
     ("wall_s", 0.42, "420 ms"), ("map_hit_ratio", 1.0, "100 %"), ("peak_rss_mb", 61.0, "61.0 MB"),
     ("fast.waf", 1.35, "1.350"), ("map_rebuild_ms", 2.5, "2.50 ms"), ("no_metric", 3.0, "3"),
     ("map_ram_kib_max", 34.0, "34.0 KiB"),
     ("simulated_requests_per_wall_s", 2.5e6, "2\u202f500\u202f000 /s")],
)
def test_a_metric_carries_its_unit(name: str, value: float | None, text: str) -> None:
    assert numbers.metric(name, value).replace(numbers.SPACE, " ") == text


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [("utilisation_mean", 0.996, "99.6 %"), ("utilisation_mean", 1.0, "100 %"),
     ("read_latency_us_p99", 9.996, "9.996 µs"), ("read_latency_us_p99", 1000, "1 ms"),
     ("simulated_s", 200.5, "200.5 s"), ("iops", 99999.6, "99\u202f999.6 /s"),
     ("waf", 1.88, "1.88"),
     ("", 12345678.25, "12\u202f345\u202f678.25"), ("waf", 1e-7, "0.0000001"),
     ("host_requests", math.inf, "inf")],
)
def test_a_bound_is_what_was_written(name: str, value: float, text: str) -> None:
    assert numbers.bound(name, value).replace(numbers.SPACE, " ") == text
