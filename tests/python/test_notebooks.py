"""Do the notebooks of `examples/` run, cell by cell?"""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


def cells(notebook: Path) -> list[str]:
    """The code of each cell."""
    document = json.loads(notebook.read_text(encoding="utf-8"))
    code = [cell for cell in document["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] for cell in code), "outputs are made, not committed"
    return ["".join(cell["source"]) for cell in code]


def shown(cell: str, names: dict[str, Any]) -> Any:
    """Run a cell as a notebook does, and give what its last line shows."""
    tree = ast.parse(cell)
    end = tree.body.pop()
    last = end if isinstance(end, ast.Expr) else None
    tree.body += [] if last else [end]
    exec(compile(tree, "cell", "exec"), names)
    if last is None:
        return None
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    for form in ("_repr_html_", "_repr_svg_"):
        if hasattr(value, form):
            assert getattr(value, form)()
    return value


def test_there_are_three() -> None:
    assert len(NOTEBOOKS) == 3


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(
    notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "examples"
    folder.mkdir()
    (tmp_path / "traces").symlink_to(ROOT / "traces")
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    values = [shown(cell, names) for cell in cells(notebook)]
    match notebook.stem:
        case "first-look":
            assert values[2]["ssd / disk"].min() > 1
            assert values[-1].is_file()
        case "which-drive-for-my-trace":
            assert "ssd serves it best" in values[-2]
            waf = values[-1]["waf"].to_list()
            assert waf == sorted(waf, reverse=True), "more spare flash, less to copy"
        case "add-a-metric":
            few, many = values[-1]["late_share"].to_list()
            assert 0 < few < many < 0.5
