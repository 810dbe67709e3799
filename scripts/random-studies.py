#!/usr/bin/env python3
"""Run studies of random devices and workloads, and look for what no study may do.

    scripts/random-studies.py [BLOCKLAB] [--seed N] [--studies N] [--keep FOLDER]

A study is one of a few small devices, some of them inside others, with up to eight keys
in it drawn from the schema of studies; those that are refused are left out again. None may panic,
get stuck, take 40 seconds or count below 0, and running one beside another must not change it.
What did is kept in FOLDER. The default is a build with debug assertions (`make compile`).
"""

import argparse
import collections
import json
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SECONDS_MAX = 40
SMALL = 'over_provisioning = "60%"\ngeometry.blocks_per_plane = 33\ngeometry.pages_per_block = 96'
BUFFER = ["0B", "64KiB", "1MiB"]
SSDS = [
    "emmc-51",
    "micron-7450-max-800",
    "samsung-980-pro-1tb",
    "samsung-pm9a3-960",
    "slc2010-paper",
    "tlc-3d-128",
]
DISKS = ["hdd-250g-7200-2008", "wd-80g-5400"]
VALUES: dict[str, list[Any]] = {
    "a duration": ["0ns", "1ns", "10us", "3ms", "1s", "1h"],
    "a size": ["0B", "512B", "4KiB", "12KiB", "64KiB", "1MiB", "8MiB", "3GiB"],
    "a rate": ["1kB/s", "3MB/s", "500MB/s", "100GB/s"],
    "boolean": [True, False],
    "share": [0, 1, 50, 99, 100],
    "integer": [0, 1, 2, 3, 5, 8, 17, 64, 100, 1000, 4096],
    "number": [0.0, 0.5, 1.0, 33.3, 100.0, 1e6],
    "string": ["28%", "60%", "4KiB", "10us"],
}
# What a run says of the machine that it ran on.
OF_THE_MACHINE = re.compile("wall|rss|per_s")
# Keys of a device that are a device, or a file's name.
SLOTS = ["device", "fast", "slow", "witness", "first", "second", "part", "file"]
Leaf = tuple[tuple[str, ...], list[Any]]


class Studies:
    """Random studies by the schema `schema`."""

    def __init__(self, schema: dict[str, Any], seed: int) -> None:
        """Begin a series."""
        self.known = schema["$defs"]
        self.draw = random.Random(seed)
        self.devices: list[tuple[str, str]] = []
        self.drawn: dict[str, list[Leaf]] = {}

    def one_of(self, model: str, name: str) -> dict[str, Any]:
        """The schema of the device or workload `name`."""
        choices = self.known[model]
        choices = choices.get("oneOf", choices.get("anyOf"))
        found = (own["properties"][name] for own in choices if name in own.get("properties", {}))
        schema: dict[str, Any] = next(found)
        return schema

    def leaves(self, node: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[Leaf]:
        """All keys below that are no device of their own, with what they may be."""
        while "$ref" in node:
            node = self.known[node["$ref"].split("/")[-1]]
        if any(key in SLOTS for key in path) or len(path) > 5:
            return
        words = node.get("description", "")
        unit = next((own for own in VALUES if own.startswith("a ") and words.startswith(own)), None)
        kinds = node.get("type", "null")
        if unit:
            yield path, VALUES[unit]
        elif choices := node.get("anyOf", node.get("oneOf")):
            for choice in choices:
                yield from self.leaves(choice, path)
        elif "const" in node or "enum" in node:
            yield path, node.get("enum", [node.get("const")])
        elif "properties" in node:
            for key, below in node["properties"].items():
                yield from self.leaves(below, (*path, key))
        elif "array" in kinds:
            for _, values in self.leaves(node.get("items", {"type": "integer"})):
                yield path, [[value] * count for value in values for count in (1, 2, 3)]
        else:
            share = path and "percent" in path[-1]
            kinds = kinds if isinstance(kinds, list) else [kinds]
            of_kind = [VALUES["share" if share else kind] for kind in kinds if kind in VALUES]
            yield from ((path, values) for values in of_kind)

    def changed(self, path: str, model: str, name: str) -> str:
        """A key of the device or workload `name` at `path`, and a value for it."""
        if name not in self.drawn:
            self.drawn[name] = [leaf for leaf in self.leaves(self.one_of(model, name)) if leaf[0]]
        if not self.drawn[name]:
            return ""
        keys, values = self.draw.choice(self.drawn[name])
        return f"{'.'.join([path, *keys])}={json.dumps(self.draw.choice(values))}"

    def device(self, path: str, depth: int = 0) -> str:
        """Keys of a device at `path`."""
        pick = self.draw.random()
        if depth < 2 and pick < 0.3:
            policies = [next(iter(own["properties"]), "") for own in self.policies()]
            policy = self.draw.choice(policies)
            self.devices.append((f"{path}.elevator", "elevator"))
            inner = self.device(f"{path}.elevator.device", depth + 1)
            return f'{path}.elevator.policy = "{policy}"\n{inner}'
        if depth < 2 and pick < 0.36:
            self.devices.append((f"{path}.cpu", "cpu"))
            return self.device(f"{path}.cpu.device", depth + 1)
        pairs = {"mirror": "fast slow", "md-write-behind": "fast slow", "raid1": "first second"}
        if depth == 0 and pick < 0.5:
            model = self.draw.choice(list(pairs))
            self.devices.append((f"{path}.{model}", model))
            return "".join(self.device(f"{path}.{model}.{leg}", 2) for leg in pairs[model].split())
        if pick < 0.85:
            self.devices.append((f"{path}.ssd", "ssd"))
            ssd = [f'part = "{self.draw.choice(SSDS)}"', *SMALL.split("\n")]
            ssd.append(f'buffer.capacity = "{self.draw.choice(BUFFER)}"')
            if self.draw.random() < 0.5:
                ssd.append(f'mapping = "{self.draw.choice(self.mappings())}"')
            return "".join(f"{path}.ssd.{key}\n" for key in ssd)
        self.devices.append((f"{path}.hdd", "hdd"))
        return f'{path}.hdd.part = "{self.draw.choice(DISKS)}"\n'

    def policies(self) -> list[dict[str, Any]]:
        """Elevators."""
        choices: list[dict[str, Any]] = self.known["ElevatorPolicy"]["oneOf"]
        return [own for own in choices if own.get("properties")]

    def mappings(self) -> list[str]:
        """Mapping schemes."""
        choices = self.known["MappingScheme"]["oneOf"]
        return [name for own in choices for name in own.get("properties", {})]

    def workload(self) -> tuple[str, str]:
        """A workload's name, and its keys."""
        choice = self.draw.choice
        name = choice(["fio"] * 8 + ["bonnie", "ie", "iozone", "pc", "customers"])
        if name != "fio":
            return name, f"[workload.{name}]\n"
        rw = choice(["randwrite", "randwrite", "write", "randread", "read", "randrw", "trimwrite"])
        keys = f'rw = "{rw}"\niodepth = {choice([1, 4, 32])}\nnumjobs = {choice([1, 2])}\n'
        keys += f'bs = "{choice(["512", "4k", "4k", "16k", "64k", "4k,17k"])}"\n'
        keys += 'norandommap = true\ntime_based = true\nruntime = "1h"\n'
        keys += f"fsync = {choice([1, 8])}\n" if self.draw.random() < 0.3 else ""
        return name, f"[workload.fio]\n{keys}"

    def study(self) -> tuple[str, list[str]]:
        """A study, and what is set over it."""
        self.devices.clear()
        device = self.device("device")
        name, workload = self.workload()
        sets = []
        for _ in range(self.draw.randrange(9)):
            if self.draw.random() < 0.25:
                sets.append(self.changed(f"workload.{name}", "WorkloadModel", name))
            else:
                path, model = self.draw.choice(self.devices)
                sets.append(self.changed(path, "DeviceModel", model))
        sets = [one for one in sets if one]
        run = f"[run]\nrequests = {self.draw.choice([500, 5000, 30000])}\n"
        run += "power_cut = true\n" if self.draw.random() < 0.15 else ""
        fill = "[[precondition]]\nfill = {}\n" if self.draw.random() < 0.5 else ""
        seed = self.draw.randrange(1000)
        head = f'[study]\ntitle = "random"\nseed = {seed}\n'
        return f"{device}{head}{workload}{run}{fill}", sets


def first_run(program: str, folder: Path, text: str, sets: list[str]) -> tuple[str, dict[str, Any]]:
    """What is wrong with a study, or why it is refused; and the metrics of its first run."""
    (folder / "random.toml").write_text(text)
    out = folder / "out"
    args = [program, "run", str(folder / "random.toml"), "--no-report", "--no-cache"]
    args += ["--out", str(out), *(f"--set={one}" for one in sets)]
    try:
        done = subprocess.run(args, capture_output=True, text=True, timeout=SECONDS_MAX)
    except subprocess.TimeoutExpired:
        return f"!! took more than {SECONDS_MAX} s", {}
    if done.returncode == 2:
        return done.stderr.split("\n")[0], {}
    if done.returncode or "bug in blocklab" in done.stdout:
        return f"!! exit code {done.returncode}: {done.stderr[-400:]}{done.stdout[-200:]}", {}
    run = json.loads((out / "result.json").read_text())["runs"][0]["metrics"]
    metrics = {key: value for key, value in run.items() if not OF_THE_MACHINE.search(key)}
    below = [key for key, value in metrics.items() if value is not None and value < 0]
    return f"!! below 0: {below}" if below else "", metrics


def tried(program: str, folder: Path, text: str, sets: list[str]) -> str:
    """What is wrong with a study, or why it is refused, whatever is left out of `sets`."""
    why, alone = first_run(program, folder, text, sets)
    while why and not why.startswith("!!") and sets:
        # What is refused goes, or else what was set last.
        named = [one for one in sets if one.split("=")[0].rpartition(".")[0] in why]
        sets.remove(named[0] if named else sets[-1])
        why, alone = first_run(program, folder, text, sets)
    if why:
        return why
    asked = int(re.findall(r"requests = (\d+)", text)[-1])
    beside = f'{text}[sweep]\n"run.requests" = [{asked}, {asked + 7}]\n'
    why, two = first_run(program, folder, beside, sets)
    moved = [key for key in alone if alone[key] != two.get(key)]
    return why or (f"!! other results beside another run: {moved[:5]}" if moved else "")


def main() -> None:
    """Run as many studies as wanted."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("program", nargs="?", default="target/debug/blocklab")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--studies", type=int, default=300)
    parser.add_argument("--keep", type=Path, default=Path("out/random-studies"))
    options = parser.parse_args()
    schema = subprocess.run([options.program, "schema", "study"], capture_output=True, check=True)
    studies = Studies(json.loads(schema.stdout), options.seed)
    refused: collections.Counter[str] = collections.Counter()
    wrong = 0
    for number in range(options.studies):
        text, sets = studies.study()
        with tempfile.TemporaryDirectory() as folder:
            why = tried(options.program, Path(folder), text, sets)
        if why.startswith("!!"):
            wrong += 1
            options.keep.mkdir(parents=True, exist_ok=True)
            kept = options.keep / f"{options.seed}-{number}.toml"
            kept.write_text(f"{text}# {' '.join(f'--set {one!r}' for one in sets)}\n")
            print(f"{kept}: {why}", flush=True)
        elif why:
            refused[re.sub(r"[0-9][0-9.]*", "N", why)] += 1
    for why, count in refused.most_common(10):
        print(f"{count:5} {why}")
    ran = options.studies - refused.total()
    print(f"{options.studies} studies: {ran} ran, {refused.total()} were refused, {wrong} wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
