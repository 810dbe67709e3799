#!/usr/bin/env bash
# Run a command as on a fresh machine: of this one's programs it finds only the basic ones, and no
# kernel for travel. `make test-bare` runs tests so.
set -euo pipefail

# What every Linux has, and Python, which the reports need.
readonly BASIC="awk basename bash cat chmod chown cmp cp cut date dd df dirname du echo env expr
    false find grep gzip head hostname id kill ln ls md5sum mkdir mkfifo mktemp mount mv nproc
    printf ps pwd python3 readlink realpath rm rmdir sed seq sh sleep sort stat sync tail tar tee
    test timeout touch tr true truncate tty umount uname uniq unshare wc which xargs"

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/bin" "$folder/cache"
for name in $BASIC; do
    if path=$(type -P "$name"); then ln -s "$path" "$folder/bin/$name"; fi
done
# What it lacks here it lacks on purpose.
unset BLOCKLAB_REQUIRE BLOCKLAB_SKIPPED
PATH=$folder/bin XDG_CACHE_HOME=$folder/cache "$@"
