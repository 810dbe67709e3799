"""scripts/iocost-profiles.py makes parts of a table, and mixes up none."""

import runpy
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PARTS = runpy.run_path(str(ROOT / "scripts/iocost-profiles.py"))["parts"]
NUMBERS = ["size_bytes", "rbps", "rseqiops", "rrandiops", "wbps", "wseqiops", "wrandiops"]


def row(model: str, runs: int = 1) -> dict[str, str]:
    return {"model": model, "runs": str(runs)} | dict.fromkeys(NUMBERS, "7")


def test_two_models_of_one_file_name_are_refused() -> None:
    with pytest.raises(SystemExit, match="'WD_Blue' and 'WD-blue' would both be wd-blue.toml"):
        PARTS([row("WD_Blue"), row("Other"), row("WD-blue")])


def test_a_model_may_have_quotation_marks() -> None:
    made = PARTS([row('SSD 2.5" \\ 7')])
    part = tomllib.loads(made["ssd-2-5-7"])["part"]
    assert part["title"] == 'SSD 2.5" \\ 7: six sustained rates, and nothing else'


def test_the_error_says_what_is_not_known_of_several_runs() -> None:
    made = PARTS([row("A", 3), row("B")])
    error = {name: tomllib.loads(text)["part"]["error"] for name, text in made.items()}
    assert "medians of 3 runs" in error["a"]
    assert "runs" not in error["b"]
