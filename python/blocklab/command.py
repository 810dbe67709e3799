"""The console script `blocklab`: the same command line as the Rust binary."""

from __future__ import annotations

import os
import signal
import sys


def main() -> int:
    """Run the command line in `sys.argv`; returns the exit code."""
    from . import _core

    os.environ.setdefault("BLOCKLAB_PYTHON", sys.executable)
    # Rust does not return to Python while it works: Ctrl-C ends the process, as for the binary.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    return _core.run_cli(["blocklab", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
