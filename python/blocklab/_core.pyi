"""The Rust extension: conversions only. Use the functions of `blocklab` instead."""

__version__: str

def run_cli(argv: list[str]) -> int:
    """Run one command line, program name first; returns the exit code."""

def run_study(study: str, sets: list[str], jobs: int, out: str | None) -> tuple[str, str]:
    """Run a study; returns the directory of the results and `result.json` as text."""
