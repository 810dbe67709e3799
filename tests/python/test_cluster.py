"""Does a study on a cluster give what it gives here, whatever happens to a worker?"""

from __future__ import annotations

import gc
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
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


def plan_of(drives: list[str | None], left: list[int] | None = None) -> Any:
    """A plan whose runs start from these drives; `taken` are those that were done."""
    taken: list[int] = []
    return SimpleNamespace(
        name="n", text="", directory="", digest="d", taken=taken,
        runs=[("", "", drive) for drive in drives],
        check_output=lambda out: None,
        left=lambda out: [*range(len(drives))] if left is None else left,
        take=lambda number, result, out: taken.append(number))


def test_every_run_is_handed_out_once() -> None:
    draw = random.Random(7)
    for _ in range(200):
        drives = draw.choices(["a", "b", "c", None], k=draw.randint(1, 40))
        left = [number for number in range(len(drives)) if draw.random() < 0.8]
        shares = cluster._Shares(plan_of(drives), left)
        handed: list[int] = []
        while share := shares.next():
            assert len({drives[number] for number in share}) == 1, "one drive at a time"
            handed += share
            shares.took(len(share), draw.choice([0.0, 0.7, 3.0]))
        assert sorted(handed) == left


class Reference:
    """What a task of `FakeRay` returns."""


class FakeRay:
    """A cluster of one worker that does its tasks in their order, and keeps no reference."""

    def __init__(self) -> None:
        #: By the first run of a drive, its image.
        self.images: dict[int, weakref.ref[Reference]] = {}
        #: Images that were made, and those still referred to, whenever a task is waited for.
        self.seen: list[tuple[int, int]] = []

    def put(self, _: Any) -> Reference:
        return Reference()

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 1.0}

    def remote(self, **_: Any) -> Callable[[Any], Any]:
        return lambda function: SimpleNamespace(
            remote=self._prepare if function is cluster._prepare else self._measure)

    def _prepare(self, _study: Any, number: int, _cache: Any) -> Reference:
        image = Reference()
        self.images[number] = weakref.ref(image)
        return image

    def _measure(self, _study: Any, share: list[int], *_: Any) -> Reference:
        task = Reference()
        task.share = share  # type: ignore[attr-defined]
        return task

    def wait(self, tasks: list[Any], **_: Any) -> tuple[list[Any], list[Any]]:
        gc.collect()
        alive = sum(image() is not None for image in self.images.values())
        self.seen.append((len(self.images), alive))
        return tasks[:1], tasks[1:]

    def get(self, task: Any) -> tuple[float, list[bytes]]:
        return 10.0, [b""] * len(task.share)

    def cancel(self, task: Any, force: bool) -> None:
        raise AssertionError("nothing is left to be cancelled")


def test_an_image_is_stored_until_its_last_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ray = FakeRay()
    monkeypatch.setattr(cluster, "_connected", lambda on: ray)
    plan = plan_of(["a", "b", None, "c", "d"] * 4)
    cluster.fill(plan, [], tmp_path / "out", "ray")
    assert sorted(plan.taken) == [*range(20)]
    assert sorted(ray.images) == [0, 1, 3, 4], "each drive once"
    # A worker and two tasks ahead see at most two drives of four runs each.
    assert max(alive for _, alive in ray.seen) <= 2
    assert ray.seen[-1] == (4, 1)


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


def test_a_failure_is_one_object_on_stdout(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = tmp_path / "wrong.toml"
    study.write_text("[device.null]\nlatency = 3\n[workload.fio]\n")
    assert cluster.main([str(study), "--on", "ray", "--json"]) == 2
    told = capsys.readouterr()
    error = json.loads(told.out)["error"]
    assert error["line"] == 2 and error["message"] in told.err, told


def test_a_place_that_cannot_be_written_is_told_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "_connected", lambda _: pytest.fail("the cluster was asked"))
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(blocklab.StudyError, match="notes.txt"):
        blocklab.run(STUDY, out=tmp_path, on="ray")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


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
