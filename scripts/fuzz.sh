#!/usr/bin/env bash
# Run every fuzz target for the given number of seconds (default 60).
# Exit code 3: the machine lacks cargo-fuzz or a nightly compiler.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
# libFuzzer's instrumentation needs the nightly compiler.
if ! cargo +nightly --version >/dev/null 2>&1; then
    echo "fuzz: a nightly compiler is missing: rustup toolchain install nightly" >&2
    exit 3
fi
if ! cargo +nightly fuzz --version >/dev/null 2>&1; then
    echo "fuzz: cargo-fuzz is missing: cargo install cargo-fuzz --locked" >&2
    exit 3
fi
for target in $(cargo +nightly fuzz list); do
    echo "fuzz: $target for $seconds s"
    cargo +nightly fuzz run "$target" -- -max_total_time="$seconds" -print_final_stats=1
done
