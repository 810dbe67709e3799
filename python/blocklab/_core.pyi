"""The Rust extension: conversions only. Use the functions of `blocklab` instead."""

from collections.abc import Callable

__version__: str

def run_cli(argv: list[str]) -> int:
    """Run one command line, program name first; returns the exit code."""

def kinds() -> list[tuple[str, list[tuple[str, str]]]]:
    """Everything that can be chosen: (kind, [(name, one line)])."""

def metrics() -> list[tuple[str, str, str]]:
    """Every metric: (name, unit, one line)."""

def explain(name: str) -> str:
    """The documentation of the one thing that `name` means."""

def schema() -> str:
    """The JSON Schema of a study, as text."""

def trace(file: str, format: str | None, parameters: list[str], to: str) -> list[str]:
    """A trace as a Parquet table in the new file `to`; returns what a reader must know."""

class Plan:
    """A study that is known to be sound."""

    name: str
    digest: str
    text: str
    directory: str
    runs: list[tuple[str, str, str | None]]

    @staticmethod
    def read(study: str, sets: list[str]) -> Plan:
        """The study at a path, or the shipped one of that name."""
    @staticmethod
    def parse(directory: str, name: str, text: str, sets: list[str]) -> Plan:
        """The study in `text`."""
    def run(
        self,
        jobs: int,
        out: str,
        records: bool,
        perfetto: bool,
        replay: str,
        tell: Callable[[float, int], None] | None,
    ) -> tuple[str, str]:
        """Run all of it; returns the directory of the results and `result.json` as text."""
    def measure(self, number: int, cache: str | None) -> bytes:
        """Measure one run; returns what `take` takes."""
    def prepare(self, number: int, cache: str | None) -> str | None:
        """Make the drive that a run starts from; returns the place of its image."""
    def image(self, number: int, cache: str | None) -> str | None:
        """The place of that image, whether it exists or not."""
    def take(self, number: int, result: bytes, out: str) -> None:
        """Take over what `measure` returned, for results in `out`."""
    def check_output(self, out: str) -> None:
        """Refuse a place where the results could not be written."""
    def left(self, out: str) -> list[int]:
        """The numbers of the runs that are still to be done for results in `out`."""
