#!/usr/bin/env bash
# Print the folder that cargo builds into: CARGO_TARGET_DIR, or what its configuration says.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo metadata --no-deps --format-version 1 |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["target_directory"])'
