#!/usr/bin/env bash
# Run a command that runs tests, and list in the end what they skipped and how to get what that
# needs. Tests append to the file that BLOCKLAB_SKIPPED names. BLOCKLAB_REQUIRE=NEED,... lets a test
# fail rather than be skipped for such a need; tests/needs.txt has their names.
set -euo pipefail

BLOCKLAB_SKIPPED=$(mktemp)
export BLOCKLAB_SKIPPED
trap 'rm -f "$BLOCKLAB_SKIPPED"' EXIT
code=0
"$@" || code=$?
printf 'skipped: %d\n' "$(wc -l < "$BLOCKLAB_SKIPPED")"
sort "$BLOCKLAB_SKIPPED" | sed 's/^/  for want of /'
exit "$code"
