"""What `tests/skip.rs` does, for tests in Python."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NoReturn

import pytest

LINES = (Path(__file__).parents[1] / "needs.txt").read_text(encoding="utf-8").splitlines()
# What a test may need, and how to get it.
NEEDS = dict(line.split(": ", 1) for line in LINES)


def required(listed: str) -> list[str]:
    """The names in a list with commas, all of them known."""
    names = [name.strip() for name in listed.split(",") if name.strip()]
    for name in names:
        if name not in NEEDS:
            known = ", ".join(NEEDS)
            raise pytest.UsageError(
                f"BLOCKLAB_REQUIRE: no test needs `{name}`; expected some of {known}")
    return names


def skip(need: str, why: str) -> NoReturn:
    """Skip the test; let it fail where BLOCKLAB_REQUIRE has the need."""
    how = NEEDS[need]
    if need in required(os.environ.get("BLOCKLAB_REQUIRE", "")):
        pytest.fail(
            f"BLOCKLAB_REQUIRE has `{need}`, which this machine lacks; get it: {how}\n{why}")
    if (listed := os.environ.get("BLOCKLAB_SKIPPED")) is not None:
        test = os.environ["PYTEST_CURRENT_TEST"].split(" (")[0]
        with Path(listed).open("a", encoding="utf-8") as file:
            file.write(f"{need} ({how}): {test}: {why}\n")
    pytest.skip(f"for want of {need}: {why}; get it: {how}")
