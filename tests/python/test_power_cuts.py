"""Does scripts/mirror-power-cuts.py tell what a machine lacks from what blocklab does wrong?"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.syspath_prepend(SCRIPTS)
    loaded = runpy.run_path(str(SCRIPTS / "mirror-power-cuts.py"))
    loaded["CannotRun"] = sys.modules["guest"].CannotRun
    return loaded


@pytest.mark.parametrize(("code", "means"), [(3, "CannotRun"), (101, "Wrong"), (2, "Wrong")])
def test_only_what_a_machine_lacks_is_a_skip(
    tmp_path: Path, script: dict[str, Any], code: int, means: str
) -> None:
    blocklab = tmp_path / "blocklab"
    blocklab.write_text(f"#!/bin/sh\necho that is why >&2; exit {code}\n", encoding="utf-8")
    blocklab.chmod(0o755)
    with pytest.raises(script[means], match="that is why"):
        script["Legs"](blocklab, tmp_path)
