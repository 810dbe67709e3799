"""Counters of devices that are made of devices, as one device's."""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl


def wide(counters: pl.DataFrame, names: Iterable[str]) -> pl.DataFrame:
    """One run's counters of these names: a row per time, a column per name that is counted.

    They are the device's own, or else the sum over its outermost parts that count any of them, as
    in its metrics: `host_bytes_written` of an SSD behind an elevator is
    `device.host_bytes_written`.
    """
    wanted = list(names)
    parts = {
        counted: (part, name)
        for counted in counters["name"].unique()
        for name in wanted if (part := _part(counted, name)) is not None
    }
    counting = {part for part, _ in parts.values()}
    # A part of a part is in what that one says.
    outermost = {part for part in counting if not any(_within(part, other) for other in counting)}
    own = {counted: name for counted, (part, name) in parts.items() if part in outermost}
    return (
        counters.filter(pl.col("name").is_in(list(own)))
        .with_columns(pl.col("name").replace(own))
        .group_by("t_s", "name").agg(pl.col("value").sum())
        .pivot(on="name", index="t_s", values="value")
        .sort("t_s").fill_null(0)
    )


def _part(counted: str, name: str) -> str | None:
    """The part that counts under this name, such as `fast.device`; `""` is the device itself."""
    if counted == name:
        return ""
    return counted.removesuffix(f".{name}") if counted.endswith(f".{name}") else None


def _within(part: str, outer: str) -> bool:
    return part != outer and (not outer or part.startswith(f"{outer}."))
