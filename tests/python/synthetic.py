"""Run directories in the agreed format, without running anything: made-up numbers, honest shapes.

The report must be right about any directory in this format, so the tests build directories
whose every number is known, instead of depending on what the models happen to answer.
"""

from __future__ import annotations

import json
import math
import random
from itertools import product
from pathlib import Path
from typing import Any

import polars as pl

CAUSES = ("host", "gc", "wear", "map", "merge")
SPAN_S = 120.0

TITLE = "A recorded workload on an SSD and on a disk"
QUESTION = "How much sooner does an SLC SSD answer what a 5400 rpm disk was asked?"


def write_run_directory(
    root: Path,
    *,
    devices: tuple[str, ...] = ("slc", "disk"),
    workloads: tuple[str, ...] = ("web-server", "kernel-build", "mail"),
    axes: dict[str, list[Any]] | None = None,
    repeats: int = 1,
    requests: int = 20_000,
    title: str = TITLE,
    failing: bool = False,
    failed: str | None = None,
) -> Path:
    """Write one run directory and return it. Single devices or workloads make no axis.
    `failed` is why the first run came to nothing.
    """
    root.mkdir(parents=True, exist_ok=True)
    tables: dict[str, list[dict[str, Any]]] = {
        name: [] for name in ("latency", "series", "heatmap", "units", "wear", "counters")
    }
    runs = []
    grid = [
        dict(zip((axes or {}).keys(), values, strict=True))
        for values in product(*(axes or {}).values())
    ]
    for device, workload, point, repeat in product(devices, workloads, grid, range(repeats)):
        params: dict[str, Any] = {}
        if len(devices) > 1:
            params["device"] = device
        if len(workloads) > 1:
            params["workload"] = workload
        params |= point
        runs.append(
            _run(tables, len(runs), device, workload, {**params, "repeat": repeat}, requests)
        )
    if failed:
        # As of a guest that did not come up: no metric is defined.
        runs[0] |= {"failed": failed, "metrics": dict.fromkeys(runs[0]["metrics"])}
    _write_tables(root, runs, tables)
    _write_result(root, runs, title, failing)
    return root


def _run(
    tables: dict[str, list[dict[str, Any]]],
    run: int,
    device: str,
    workload: str,
    params: dict[str, Any],
    requests: int,
) -> dict[str, Any]:
    rng = random.Random(f"{params}")
    flash = device != "disk"
    samples = {op: _latencies(rng, flash, op, requests) for op in ("read", "write")}
    _latency_tables(tables, run, samples)
    _time_tables(tables, run, rng, samples)
    _unit_tables(tables, run, rng, flash)
    if flash:
        _flash_tables(tables, run, rng)
    return {
        "label": " · ".join(str(value) for key, value in params.items() if key != "repeat"),
        "params": params,
        "digest": f"{rng.getrandbits(128):032x}",
        "result_digest": f"{rng.getrandbits(128):032x}",
        "seed": 1 + params["repeat"],
        "device": {
            "model": "ssd" if flash else "hdd",
            "part": "slc2010-paper" if flash else "wd800bevs",
            "status": "datasheet" if flash else "calibrated",
            "capacity_bytes": 80_000_000_000,
        },
        "workload": f"trace {workload}.blkparse.zst, by timestamps",
        "notes": ["LBA 161061273 wrapped to fit the device"] if not flash else [],
        "gate": {"steady": True, "rounds": 9} if flash else None,
        "metrics": _metrics(samples, flash, requests),
    }


def _latencies(rng: random.Random, flash: bool, op: str, count: int) -> list[float]:
    if flash:
        base, tail, chance = (70.0, 900.0, 0.02) if op == "read" else (260.0, 3500.0, 0.01)
        spread = 0.12
    else:
        base, tail, chance = (9000.0, 60000.0, 0.01) if op == "read" else (800.0, 30000.0, 0.2)
        spread = 0.5
    return [
        (tail if rng.random() < chance else base) * math.exp(rng.gauss(0.0, spread))
        for _ in range(count)
    ]


def _bucket(value: float) -> float:
    """The lowest value of an HDR-like bucket: 64 buckets per octave."""
    octave = 2.0 ** math.floor(math.log2(value))
    return octave * (1 + math.floor((value / octave - 1) * 64) / 64)


def _counts(values: list[float]) -> dict[float, int]:
    counts: dict[float, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return dict(sorted(counts.items()))


def _latency_tables(
    tables: dict[str, list[dict[str, Any]]], run: int, samples: dict[str, list[float]]
) -> None:
    for op, values in samples.items():
        for latency, count in _counts([_bucket(v) * 1000 for v in values]).items():
            tables["latency"].append(
                {"run": run, "op": op, "latency_ns": int(latency), "count": count}
            )


def _time_tables(
    tables: dict[str, list[dict[str, Any]]],
    run: int,
    rng: random.Random,
    samples: dict[str, list[float]],
) -> None:
    bins = 200
    each = len(samples["read"]) // bins
    width = SPAN_S / bins
    for op, values in samples.items():
        for index in range(bins):
            busy = math.sin(index / 13 + run) + rng.random()
            requests = max(0, int(len(values) / bins * busy))
            chunk = sorted(values[index * each : (index + 1) * each])
            tables["series"].append(
                {
                    "run": run,
                    "t_s": index * width,
                    "op": op,
                    "requests": requests,
                    "bytes": requests * (4096 if op == "read" else 16384),
                    "p50_us": chunk[len(chunk) // 2],
                    "p99_us": chunk[-1],
                    "max_us": chunk[-1],
                }
            )
    edge = [
        (index * width, 2.0 ** (math.floor(math.log2(value) * 4) / 4))
        for values in samples.values()
        for index in range(bins)
        for value in values[index * each : (index + 1) * each]
    ]
    counts: dict[tuple[float, float], int] = {}
    for cell in edge:
        counts[cell] = counts.get(cell, 0) + 1
    tables["heatmap"].extend(
        {"run": run, "t_s": t, "latency_us": latency, "count": count}
        for (t, latency), count in sorted(counts.items())
    )


def _unit_tables(
    tables: dict[str, list[dict[str, Any]]], run: int, rng: random.Random, flash: bool
) -> None:
    if flash:
        units = {
            f"channel{c}.die{d}": ("read", "program", "erase") for c in range(4) for d in range(4)
        } | {f"channel{c}": ("transfer",) for c in range(4)}
    else:
        units = {"arm": ("seek", "rotate", "transfer")}
    for unit, kinds in units.items():
        for index in range(100):
            level = 0.5 * (1 + math.sin(index / 9 + run)) * (0.35 if flash else 1.0)
            for what, share in zip(kinds, (0.5, 0.4, 0.1), strict=False):
                busy = min(1.0, level * share * (0.6 + 0.8 * rng.random()))
                tables["units"].append(
                    {"run": run, "unit": unit, "t_s": index * 1.2, "what": what, "busy": busy}
                )


def _flash_tables(
    tables: dict[str, list[dict[str, Any]]], run: int, rng: random.Random
) -> None:
    written = dict.fromkeys(CAUSES, 0)
    for index in range(100):
        host = 400 + int(100 * rng.random())
        written["host"] += host
        written["gc"] += int(host * max(0.0, min(0.6, (index - 30) / 60)))
        written["map"] += host // 25
        # Writes of 4 KiB to pages of 16 KiB, four of which fill a page in the write buffer.
        sample: dict[str, int] = {"host_writes": 4 * written["host"],
                                  "host_bytes_written": 16384 * written["host"],
                                  "gc_pages_moved": written["gc"]}
        for cause, pages in written.items():
            sample |= {f"flash_programs.{cause}": pages,
                       f"flash_bytes_programmed.{cause}": 16384 * pages}
        sample |= {"map_ram_bytes": 65_536 * (1 + index % 10), "map_lookups": 100 * index,
                   "map_hits": 75 * index}
        tables["counters"].extend(
            {"run": run, "t_s": index * 1.2, "name": name, "value": value}
            for name, value in sample.items()
        )
    for plane in range(8):
        for erases in range(12):
            blocks = int(256 * math.exp(-((erases - 5 - plane % 2) ** 2) / 4))
            if blocks:
                tables["wear"].append(
                    {
                        "run": run,
                        "unit": f"channel{plane // 2}.die0.plane{plane % 2}",
                        "erases": erases,
                        "blocks": blocks,
                    }
                )


def _metrics(
    samples: dict[str, list[float]], flash: bool, requests: int
) -> dict[str, float | None]:
    metrics: dict[str, float | None] = {}
    both = samples["read"] + samples["write"]
    for prefix, values in (("", both), ("read_", samples["read"]), ("write_", samples["write"])):
        ordered = sorted(values)
        metrics[f"{prefix}latency_us_mean"] = sum(values) / len(values)
        shares = ((0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99_9"), (0.9999, "p99_99"))
        for share, name in shares:
            metrics[f"{prefix}latency_us_{name}"] = ordered[int(share * (len(ordered) - 1))]
        metrics[f"{prefix}latency_us_max"] = ordered[-1]
    waf = {"waf_host": 1.0, "waf_gc": 0.31, "waf_wear": 0.0, "waf_map": 0.04, "waf_merge": 0.0}
    metrics |= {name: value if flash else None for name, value in waf.items()}
    metrics["waf"] = sum(waf.values()) if flash else None
    metrics |= {
        "iops": 2 * requests / SPAN_S,
        "read_iops": requests / SPAN_S,
        "write_iops": requests / SPAN_S,
        "throughput_mb_s": requests * 20480 / SPAN_S / 1e6,
        "read_mb_s": requests * 4096 / SPAN_S / 1e6,
        "write_mb_s": requests * 16384 / SPAN_S / 1e6,
        "host_requests": 2 * requests,
        "host_pages_written": 45_000 if flash else None,
        "flash_reads": 61_000 if flash else None,
        "flash_programs": 60_750 if flash else None,
        "flash_erases": 950 if flash else None,
        "gc_pages_moved": 13_950 if flash else None,
        "map_hit_ratio": 1.0 if flash else None,
        "map_ram_kib_mean": 352.0 if flash else None,
        "simulated_s": SPAN_S,
        "wall_s": 0.42,
        "simulated_requests_per_wall_s": 2 * requests / 0.42,
        "peak_rss_mb": 61.0,
        "little_error": 1.2e-4,
        "utilisation_mean": 0.11 if flash else 0.5,
        "utilisation_max": 0.34 if flash else 0.97,
    }
    return metrics


def _write_tables(
    root: Path, runs: list[dict[str, Any]], tables: dict[str, list[dict[str, Any]]]
) -> None:
    rows = [
        {"run": index, "label": run["label"]}
        | {axis: value if isinstance(value, int | float) else str(value)
           for axis, value in run["params"].items()}
        | run["metrics"]
        for index, run in enumerate(runs)
    ]
    pl.DataFrame(rows, infer_schema_length=None).write_parquet(root / "runs.parquet")
    for name, table in tables.items():
        if table:
            frame = pl.DataFrame(table).with_columns(pl.col("run").cast(pl.UInt32))
            frame.write_parquet(root / f"{name}.parquet")


def _write_result(
    root: Path, runs: list[dict[str, Any]], title: str, failing: bool
) -> None:
    name = root.name
    result = {
        "study": name,
        "title": title,
        "question": QUESTION,
        "digest": "4f2c91d07b6a4e55a1c3f2e8d9b00712",
        "result_digest": "b81e02c6f5d94a7795f0e1d2c3b4a596",
        "version": "0.1.0",
        "code_version": "340fe6e",
        "runs": runs,
        "expectations": [
            {"text": "reads on the SSD finish below 1 ms at p99", "ok": True, "value": 930.0},
            {"text": "collection stays under half a page per write", "ok": not failing,
             "value": 0.31},
        ],
        "plots": ["percentiles", "throughput", "latency-heatmap", "utilisation", "waf"],
        "limits": ["The host is a queue: no page cache, no file system.",
                   "Read retries and retention are not modelled."],
        "files": {"runs": "runs.parquet"},
        "replay": f"blocklab run {name} --set study.seed=1",
    }
    (root / "result.json").write_text(json.dumps(result))
    (root / "study.toml").write_text(
        f"[study]\ntitle = {json.dumps(title)}\n"
        "[[expect]]\ntext = 'p99'\nmetric = 'read_latency_us_p99'\nmax = 1000\n"
        "[[expect]]\ntext = 'gc'\nmetric = 'waf_gc'\nmin = 0\nmax = 0.5\n"
    )
