"""The Rust extension: conversions only. Use the functions of `blocklab` instead."""

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

def run_study(
    study: str,
    sets: list[str],
    jobs: int,
    out: str | None,
    records: bool,
    perfetto: bool,
    replay: str,
) -> tuple[str, str]:
    """Run a study; returns the directory of the results and `result.json` as text."""
