#!/bin/sh
# Run fuzz targets for some seconds each, two at a time, and print what they did.
#
#   fuzz/run.sh SECONDS [target...]
#
# Needs a nightly compiler and cargo-fuzz (`cargo install cargo-fuzz --locked`). Ends with 1 when
# a target found something; what it found is in fuzz/artifacts/<target>/.
set -eu

case "${1:-}" in
'' | *[!0-9]*)
    echo "usage: fuzz/run.sh SECONDS [target...]" >&2
    exit 2
    ;;
esac
seconds=$1
shift
cd "$(dirname "$0")/.."
for tool in cargo-fuzz rustup; do
    command -v "$tool" > /dev/null || { echo "fuzz/run.sh: $tool is missing" >&2; exit 3; }
done
[ $# -gt 0 ] || set -- $(cargo +nightly fuzz list)

# Panics are what is looked for; the code has no unsafe for a sanitizer to watch.
cargo +nightly fuzz build --sanitizer none
target_dir=${CARGO_TARGET_DIR:-fuzz/target}
bin=$(echo "$target_dir"/*-linux-*/release)
logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
export seconds bin logs

printf '%s\n' "$@" | xargs -P 2 -I{} sh -c '
    mkdir -p fuzz/corpus/{} fuzz/artifacts/{} fuzz/seeds/{}
    echo "fuzzing {} for $seconds s" >&2
    "$bin/{}" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=1024 -max_len=16384 \
        -print_final_stats=1 -artifact_prefix=fuzz/artifacts/{}/ \
        fuzz/corpus/{} fuzz/seeds/{} > "$logs/{}" 2>&1
    echo $? > "$logs/{}.code"
' || true

bad=0
printf '%-24s %14s %10s %8s\n' target executions exec/s crashes
for name in "$@"; do
    executions=$(sed -n 's/^stat::number_of_executed_units: *//p' "$logs/$name")
    rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$logs/$name")
    crashes=0
    if [ "$(cat "$logs/$name.code")" != 0 ]; then
        crashes=1
        bad=1
        tail -n 40 "$logs/$name" >&2
    fi
    printf '%-24s %14s %10s %8s\n' "$name" "${executions:--}" "${rate:--}" "$crashes"
done
exit $bad
