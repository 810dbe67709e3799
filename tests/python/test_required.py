"""Does the server notice that what its tests need could not be made?"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from needs import skip

ROOT = Path(__file__).parents[2]
# A blocklab that ends as its variables say.
FAKE = """#!/bin/sh
case "$1 $2" in
"kernel build") exit $BUILD ;;
"kernel status") echo "$STATUS" ;;
"boot root") exit $DEBIAN ;;
esac
"""
LACKS = '{"ready": false, "lacks": "flex, the kernel\'s source"}'
LACKS_NOTHING = '{"ready": false, "lacks": null}'
READY = '{"ready": true, "lacks": null}'


def required(
    folder: Path, build: int, status: str, debian: int, path: str | None = None
) -> subprocess.CompletedProcess[str]:
    fake = folder / "blocklab"
    fake.write_text(FAKE, encoding="utf-8")
    fake.chmod(0o755)
    environment = {**os.environ, "BUILD": str(build), "STATUS": status, "DEBIAN": str(debian)}
    if path is not None:
        environment["PATH"] = path
    return subprocess.run(
        ["/bin/bash", ROOT / "scripts/required.sh", fake], env=environment, capture_output=True,
        text=True, check=False)


@pytest.mark.parametrize(("build", "status", "debian", "said"), [
    # A panic, and a patch that does not compile where all is there to compile it.
    (101, LACKS, 0, "kernel build ended with 101"),
    (3, LACKS_NOTHING, 0, "kernel build ended with 3"),
    (2, LACKS, 0, "kernel build ended with 2"),
    (0, READY, 101, "boot root ended with 101"),
    (0, READY, 2, "boot root ended with 2"),
    # A blocklab that does not say what it lacks.
    (3, "{}", 0, "KeyError"),
])
def test_what_fails_is_no_skip(
    tmp_path: Path, build: int, status: str, debian: int, said: str
) -> None:
    done = required(tmp_path, build, status, debian)
    assert done.returncode == 1 and done.stdout == "", done
    assert said in done.stderr, done.stderr


def test_what_this_machine_lacks_is_skipped_and_said(tmp_path: Path) -> None:
    # Everything but what makes a Debian.
    programs = tmp_path / "programs"
    programs.mkdir()
    for folder in reversed(os.environ["PATH"].split(":")):
        for program in Path(folder).glob("*"):
            (programs / program.name).unlink(missing_ok=True)
            (programs / program.name).symlink_to(program)
    (programs / "mmdebstrap").unlink(missing_ok=True)
    done = required(tmp_path, 3, LACKS, 3, str(programs))
    assert done.returncode == 0, done.stderr
    assert "no kernel: flex, the kernel's source is missing" in done.stderr, done.stderr
    assert "no Debian: mmdebstrap is missing" in done.stderr, done.stderr
    assert not {"travel", "debian-root"} & set(done.stdout.strip().split(",")), done.stdout


@pytest.mark.parametrize(("build", "status"), [(0, LACKS_NOTHING), (3, READY)])
def test_what_there_is_is_required(tmp_path: Path, build: int, status: str) -> None:
    done = required(tmp_path, build, status, 0)
    assert done.returncode == 0, done.stderr
    listed = done.stdout.strip().split(",")
    assert listed[:2] == ["travel", "debian-root"], listed
    known = (ROOT / "tests/needs.txt").read_text(encoding="utf-8")
    assert all(f"{need}: " in known for need in listed), listed


def server(folder: Path, make: str, build: int) -> subprocess.CompletedProcess[str]:
    """What the server does in a copy of what it runs, where `make` does as told, and a build of
    the kernel ends so."""
    for name in (".ci/run", "scripts/required.sh", "tests/needs.txt"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    programs = {
        "scripts/target.sh": f"#!/bin/sh\necho {folder}/target\n",
        "target/debug/blocklab": FAKE,
        "programs/make": make,
        "programs/apt-get": "#!/bin/sh\n",
    }
    for name, text in programs.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)
    environment = {
        **os.environ, "PATH": f"{folder}/programs:{os.environ['PATH']}", "BUILD": str(build),
        "STATUS": LACKS_NOTHING, "DEBIAN": "0"}
    return subprocess.run(
        [folder / ".ci/run"], env=environment, capture_output=True, text=True, check=False)


SAYS = '#!/bin/sh\necho "make $* $BLOCKLAB_REQUIRE"\n'


def test_the_server_tests_nothing_where_the_kernel_does_not_build(tmp_path: Path) -> None:
    done = server(tmp_path, SAYS, 101)
    assert done.returncode == 1 and "make test" not in done.stdout, done
    done = server(tmp_path, SAYS, 0)
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    assert last.startswith("make test same-code") and ",travel,debian-root" in last, last


def test_the_server_does_not_go_on_without_the_clients(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        skip("root", "only who may install asks for the clients")
    done = server(tmp_path, SAYS + '[ "$1" != clients ]\n', 0)
    assert done.returncode == 1 and "make test" not in done.stdout, done
    assert "make clients failed" in done.stderr, done.stderr
