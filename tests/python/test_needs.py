"""Does a skip that matters fail?"""

from __future__ import annotations

from pathlib import Path

import pytest
from needs import required, skip


def test_a_skip_is_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = tmp_path / "skipped"
    monkeypatch.setenv("BLOCKLAB_SKIPPED", str(listed))
    monkeypatch.setenv("BLOCKLAB_REQUIRE", "fio")
    with pytest.raises(pytest.skip.Exception, match="get it: make kernel"):
        skip("travel", "no kernel")
    line = listed.read_text(encoding="utf-8")
    assert line.startswith("travel (make kernel): tests/python/test_needs.py::test_a_skip_is_")
    assert line.endswith(": no kernel\n")


def test_a_skip_that_matters_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BLOCKLAB_REQUIRE", "fio, travel")
    with pytest.raises(pytest.fail.Exception, match="lacks; get it: make kernel"):
        skip("travel", "no kernel")


def test_an_unknown_need_is_an_error() -> None:
    with pytest.raises(pytest.UsageError, match="`travle`; expected some of btrfs, "):
        required("fio,travle")
