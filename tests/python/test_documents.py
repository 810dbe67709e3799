"""What documents say of numbers and of settings is so."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import polars as pl
import pytest

ROOT = Path(__file__).parents[2]


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def run(*arguments: str, out: Path) -> subprocess.CompletedProcess[str]:
    """In the clone, but what is written goes to `out`."""
    command = ["blocklab", "run", *arguments, "--out", str(out), "--no-report"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


def test_the_readme_has_the_ratios_of_its_run(tmp_path: Path) -> None:
    done = run("first-look", out=tmp_path / "out")
    assert done.returncode == 0, done.stderr
    runs = pl.read_parquet(tmp_path / "out" / "runs.parquet")

    def p99(direction: str, workload: str, device: str) -> float:
        row = runs.filter((pl.col("workload") == workload) & (pl.col("device") == device))
        return float(row[f"{direction}_latency_us_p99"].item())

    def ratios(direction: str, over: str, under: str) -> list[float]:
        names = ("bonnie", "postmark")
        return [p99(direction, name, over) / p99(direction, name, under) for name in names]

    said = " ".join(text("README.md").split())
    reads = re.search(r"reads of bonnie and postmark are (\d+) and (\d+) times as fast", said)
    assert reads is not None
    assert [int(number) for number in reads.groups()] == [
        round(ratio) for ratio in ratios("read", "disk", "ssd")]
    writes = re.search(r"writes of bonnie and postmark, .*? take (\S+) and (\S+) times", said)
    assert writes is not None
    assert [float(number) for number in writes.groups()] == [
        round(ratio, 1) for ratio in ratios("write", "ssd", "disk")]


def blocks(name: str) -> list[str]:
    return re.findall(r"```toml\n(.*?)```", text(name), re.DOTALL)


@pytest.mark.parametrize("block", blocks("docs/traces.md") + blocks("docs/workloads.md"))
def test_a_workload_of_a_document_runs(block: str, tmp_path: Path) -> None:
    # Paths are those of the clone.
    study = re.sub(r'"((?:traces|studies)/)', rf'"{ROOT}/\1', f"[device.null]\n{block}")
    (tmp_path / "study.toml").write_text(study)
    done = run(str(tmp_path / "study.toml"), "--set", "run.requests=100", out=tmp_path / "out")
    assert done.returncode == 0, done.stderr


def settings(name: str) -> list[str]:
    """What is laid over a study there, but for the reader's own files."""
    found = re.findall(r"--set (devices\.[^`\s)]+)", text(name))
    return [setting for setting in found if "FILE" not in setting]


@pytest.mark.parametrize("setting", settings("docs/howto/which-drive-for-my-trace.md"))
def test_a_setting_of_the_how_to_can_be(setting: str, tmp_path: Path) -> None:
    done = run("which-drive", "--set", setting, "--set", "run.requests=100", out=tmp_path / "out")
    assert done.returncode == 0, done.stderr
