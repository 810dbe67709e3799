"""scripts/iocost-profiles.py makes parts of a table, and mixes up none."""

import csv
import runpy
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PARTS = runpy.run_path(str(ROOT / "scripts/iocost-profiles.py"))["parts"]
RATES = ["rbps", "rseqiops", "rrandiops", "wbps", "wseqiops", "wrandiops"]
NUMBERS = ["size_bytes", *RATES, *(f"{rate}_{end}" for rate in RATES for end in ("min", "max"))]


def row(model: str, runs: int = 1, **numbers: str) -> dict[str, str]:
    return {"model": model, "runs": str(runs)} | dict.fromkeys(NUMBERS, "700") | numbers


def test_two_models_of_one_file_name_are_refused() -> None:
    with pytest.raises(SystemExit, match="'WD_Blue' and 'WD-blue' would both be wd-blue.toml"):
        PARTS([row("WD_Blue"), row("Other"), row("WD-blue")])


def test_a_model_may_have_quotation_marks() -> None:
    made = PARTS([row('SSD 2.5" \\ 7')])
    part = tomllib.loads(made["ssd-2-5-7"])["part"]
    assert part["title"] == 'SSD 2.5" \\ 7: six sustained rates, and nothing else'


def test_runs_that_are_apart_are_told_and_far_apart_make_a_sketch() -> None:
    rows = [
        row("Near", 3, wbps_min="630"),
        row("Far", 3, wbps_min="112"),
        row("High", 2, rseqiops_max="896"),
        row("One"),
    ]
    made = {name: tomllib.loads(text)["part"] for name, text in PARTS(rows).items()}
    status = {name: part["status"] for name, part in made.items()}
    calibrated = dict.fromkeys(["near", "one"], "calibrated")
    assert status == calibrated | dict.fromkeys(["far", "high"], "sketch")
    assert "3 runs: wbps of one is 10 % from its median" in made["near"]["error"]
    assert "3 runs: wbps of one is 84 % from its median" in made["far"]["error"]
    assert "2 runs: rseqiops of one is 28 % from its median" in made["high"]["error"]


def test_the_parts_are_those_of_the_table() -> None:
    with (ROOT / "scripts/iocost-drives.csv").open(encoding="utf-8") as table:
        made = PARTS(csv.DictReader(table))
    folder = ROOT / "devices/iocost"
    assert made == {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.toml")}
    # SK hynix Phoenix: 32, 196 and 213 MB/s.
    assert tomllib.loads(made["skhynix-phoenix"])["part"]["status"] == "sketch"


def test_the_error_says_what_is_not_known_of_several_runs() -> None:
    made = PARTS([row("A", 3), row("B")])
    error = {name: tomllib.loads(text)["part"]["error"] for name, text in made.items()}
    assert "medians of 3 runs" in error["a"]
    assert "runs" not in error["b"]
