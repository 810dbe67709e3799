"""Windows that change beside a fixed one of the same mean RAM, from the study wadpm/equal-ram.

    blocklab run wadpm/equal-ram && python scripts/equal_ram.py out/wadpm/equal-ram

For each workload and repeat the throughput of the fixed windows is interpolated at the mean RAM
that `hill-climb` and `mrc` took. Printed are the mean quotient over the repeats, and its least and
greatest.
"""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path
from statistics import mean

Point = tuple[float, float]


def at(line: list[Point], ram: float) -> float:
    """Throughput of a fixed window at so much RAM, by straight lines between those measured."""
    if ram <= line[0][0]:
        return line[0][1]
    for (low, before), (high, after) in pairwise(line):
        if ram <= high:
            return before + (after - before) * (ram - low) / (high - low)
    return line[-1][1]


def main() -> None:
    """Print a table row for each workload."""
    runs = json.loads((Path(sys.argv[1]) / "result.json").read_text())["runs"]
    points: dict[tuple[str, int], dict[str, Point]] = {}
    for run in runs:
        params, metrics = run["params"], run["metrics"]
        point = (metrics["map_ram_kib_mean"], metrics["throughput_mb_s"])
        key = (params["workload"], params.get("repeat", 0))
        points.setdefault(key, {})[json.dumps(params["device.ssd.mapping"])] = point
    for workload in dict.fromkeys(workload for workload, _ in points):
        cells = [workload]
        for name in ("hill-climb", "mrc"):
            quotients, shares = [], []
            for (_, _), schemes in (item for item in points.items() if item[0][0] == workload):
                fixed = sorted(point for label, point in schemes.items() if "fixed" in label)
                ram, throughput = next(p for label, p in schemes.items() if name in label)
                page_ram, _ = next(p for label, p in schemes.items() if "wadpm" not in label)
                quotients.append(throughput / at(fixed, ram))
                shares.append(ram / page_ram)
            cells.append(f"{mean(quotients):.3f} ({min(quotients):.3f} to {max(quotients):.3f})")
            cells.append(f"{100 * mean(shares):.1f} %")
        print("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
