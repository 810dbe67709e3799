"""Does a study on a cluster give what it gives here, whatever happens to a worker?"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from needs import skip

import blocklab
from blocklab import _core, cluster

#: Six runs of about half a second from two drives.
STUDY: dict[str, Any] = {
    "study": {"title": "Aged", "question": "Do drives travel?"},
    "device": {"ssd": {"geometry": {"blocks_per_plane": 1024}}},
    "workload": {"fio": {"rw": "randwrite", "bs": "4KiB"}},
    "run": {"requests": 20000},
    "precondition": [{"fill": {}}, {"overwrite": {"writes": "100%"}}],
    "sweep": {"workload.fio.iodepth": [1, 2, 4], "device.ssd.gc": ["greedy", "fifo"]},
}


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    """A cluster of two workers."""
    try:
        import ray
    except ModuleNotFoundError as error:
        skip("ray", str(error))
    ray.init(num_cpus=2, log_to_driver=False, include_dashboard=False)
    yield ray
    ray.shutdown()


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> blocklab.Result:
    """What it gives here."""
    return blocklab.run(STUDY, out=tmp_path_factory.mktemp("here") / "out")


def digests(result: blocklab.Result) -> list[str]:
    """Of the study, and of each run."""
    return [result.digest, result.result_digest,
            *(run["result_digest"] for run in result.document["runs"])]


def workers(name: str) -> list[int]:
    """The processes that do tasks of that name."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if place.read_bytes().startswith(f"ray::{name}".encode()):
                found.append(int(place.parent.name))
        except OSError:
            pass  # it has ended meanwhile
    return found


def test_a_killed_worker_costs_nothing(
    ray: Any, here: blocklab.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[int] = []

    def kill() -> None:
        deadline = time.monotonic() + 60
        while not killed and time.monotonic() < deadline:
            for worker in workers("_measure")[:1]:
                os.kill(worker, signal.SIGKILL)
                killed.append(worker)
            time.sleep(0.001)

    killer = threading.Thread(target=kill)
    killer.start()
    seen: list[int] = []
    drives = tmp_path / "drives"
    result = blocklab.run(
        STUDY, out=tmp_path / "out", on="ray", cache=drives,
        progress=lambda share, done, runs: seen.append(done))
    killer.join()
    assert killed, "no worker was killed"
    assert digests(result) == digests(here)
    assert len([*drives.glob("*.image")]) == 2, "each drive once"
    assert seen[-1] == 6 and seen == sorted(seen)
    tables = [r.table("latency").collect().sort("run", "op", "latency_ns") for r in (result, here)]
    assert tables[0].equals(tables[1])
    assert not [*tmp_path.glob(".*")], "nothing is left beside the results"


def test_an_image_travels_to_who_has_it_not(
    ray: Any, here: blocklab.Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = blocklab.Study(STUDY)._plan()
    study = cluster._Described(plan.name, plan.text, [], os.getcwd(), plan.digest)
    there, elsewhere = tmp_path / "there", str(tmp_path / "elsewhere")
    place = plan.prepare(3, str(there))
    assert place is not None
    image = ray.put(Path(place).read_bytes())
    _, [result] = cluster._measure(study, [3], elsewhere, [image])
    assert Path(elsewhere, Path(place).name).read_bytes() == Path(place).read_bytes()
    plan.take(3, result, str(tmp_path / "out"))
    assert plan.left(str(tmp_path / "out")) == [0, 1, 2, 4, 5]
    [kept] = tmp_path.glob(".out.unfinished/*.run")
    kept.write_bytes(result[:-1])
    assert plan.left(str(tmp_path / "out")) == [0, 1, 2, 3, 4, 5], "a damaged one is done again"
    kept.write_bytes(result)
    with pytest.raises(blocklab.StudyError, match="no result of"):
        plan.take(2, result, str(tmp_path / "out"))
    with pytest.raises(blocklab.StudyError, match="no result of"):
        plan.take(3, result[:-1], str(tmp_path / "out"))
    # What was done there is not done again.
    again = blocklab.run(STUDY, out=tmp_path / "out")
    assert digests(again) == digests(here)
    assert any("1 runs were finished before" in note for note in again.document["notes"])


def test_a_machine_with_another_study_is_told(ray: Any) -> None:
    plan = blocklab.Study(STUDY)._plan()
    other = cluster._Described(plan.name, plan.text, [], os.getcwd(), "another")
    with pytest.raises(blocklab.StudyError, match="the same blocklab") as caught:
        cluster._answer(ray, ray.remote(cluster._measure).remote(other, [0], None, []))
    assert caught.value.kind == "machine"


def test_what_is_wrong_is_told_once(ray: Any, tmp_path: Path) -> None:
    with pytest.raises(blocklab.StudyError, match="expected: `ray`"):
        blocklab.run(STUDY, out=tmp_path / "out", on="slurm")
    with pytest.raises(blocklab.StudyError, match="there is no run 9"):
        blocklab.Study(STUDY)._plan().measure(9, None)
    assert not [*tmp_path.iterdir()]


def test_ray_is_asked_for_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(blocklab.StudyError, match=r"ray\[client\]"):
        blocklab.run(STUDY, out=tmp_path / "out", on="ray")


def test_the_command_line_runs_on_a_cluster(
    ray: Any, here: blocklab.Result, tmp_path: Path
) -> None:
    address = ray.get_runtime_context().gcs_address
    file = tmp_path / "study.toml"
    file.write_text(_core.Plan.parse("", "study", blocklab.Study(STUDY)._text or "", []).text)
    done = subprocess.run(
        [sys.executable, "-m", "blocklab", "run", str(file), "--on", "ray", "--json",
         "--no-report", "--out", str(tmp_path / "out")],
        capture_output=True, text=True, check=False,
        env={**os.environ, "RAY_ADDRESS": address, "BLOCKLAB_PYTHON": sys.executable})
    assert done.returncode == 0, done.stderr
    assert digests(blocklab.open(tmp_path / "out")) == digests(here)
