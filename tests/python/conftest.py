"""Shared fixtures: one synthetic run directory and its page, made once per session."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from needs import required
from synthetic import write_run_directory

from blocklab._report import page


def pytest_configure() -> None:
    """A misspelt need would require nothing."""
    required(os.environ.get("BLOCKLAB_REQUIRE", ""))


@pytest.fixture(scope="session")
def run_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two devices, three workloads."""
    return write_run_directory(tmp_path_factory.mktemp("out") / "first-look")


@pytest.fixture(scope="session")
def html(run_directory: Path) -> str:
    """The page of `run_directory`."""
    return page.write(run_directory).read_text(encoding="utf-8")
