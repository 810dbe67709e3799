#!/usr/bin/env bash
# Make what tests need and blocklab makes (the kernel of `travel`, the Debian that it boots), and
# print, with commas, which needs of tests/needs.txt may then not be missing: BLOCKLAB_REQUIRE.
#
#   scripts/required.sh BLOCKLAB
#
# What this machine lacks is asked for, never taken from a failure: where a kernel cannot be built
# although its source and tools are here, this ends with 1. Each answer is told on stderr.
set -euo pipefail

blocklab=$1
needs=()
say() { printf 'needs: %s\n' "$*" >&2; }
# So that nothing stays behind.
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

failed() {
    say "$1 ended with $2, which nothing explains that this machine lacks"
    exit 1
}

# Whether there is a kernel of this configuration, and else what a build lacks; empty for nothing.
kernel_status() {
    "$blocklab" kernel status --json | python3 -c 'import json, sys
status = json.load(sys.stdin)
print("ready" if status["ready"] else status["lacks"] or "")'
}

kernel() {
    local code=0 status=
    "$blocklab" kernel build >&2 || code=$?
    ((code != 3)) || status=$(kernel_status)
    if ((code == 0)) || [[ $status == ready ]]; then
        needs+=(travel)
    elif [[ -n $status ]]; then
        say "no kernel: $status is missing; the tests of travel are skipped"
    else
        failed 'kernel build' "$code"
    fi
}

debian() {
    local code=0
    "$blocklab" boot root >&2 || code=$?
    if ((code == 0)); then
        needs+=(debian-root)
    elif ((code == 3)) && ! command -v mmdebstrap >/dev/null; then
        say 'no Debian: mmdebstrap is missing; the tests of its boot are skipped'
    else
        failed 'boot root' "$code"
    fi
}

can_mount() {
    unshare -m mount -t tmpfs -o size=16k none "$folder"
}

# What serves the device's file is FUSE.
can_loop() {
    : <>/dev/fuse || return 1
    truncate -s 1M "$folder/image"
    losetup --detach "$(losetup --find --show "$folder/image")"
}

# The kernel gives a ring (system call 425), and files past its cache.
can_ring() {
    python3 - <<'END'
import ctypes, os, tempfile
libc = ctypes.CDLL(None, use_errno=True)
if libc.syscall(425, 1, ctypes.create_string_buffer(120)) < 0:
    raise SystemExit(os.strerror(ctypes.get_errno()))
os.open(tempfile.gettempdir(), os.O_TMPFILE | os.O_RDWR | os.O_DIRECT, 0o600)
END
}

# A mount that cannot be has the kernel look for the file system: only then does it name all that
# it has.
can_file_systems() {
    local name
    for name in ext2 ext3 ext4 xfs btrfs; do
        unshare -m mount -t "$name" /dev/null "$folder" 2>/dev/null || :
        grep -qw "$name" /proc/filesystems || { echo "no $name" >&2 && return 1; }
    done
}

# What the machine itself allows, asked without blocklab: then a test may not miss it.
allowed() {
    local why
    if why=$("can_$2" 2>&1); then
        needs+=("$1")
    else
        say "no $1: ${why:-refused}; tests that need it are skipped"
    fi
}

kernel
debian
if ((EUID == 0)); then
    allowed mount mount
    allowed loop loop
    allowed io_uring ring
    allowed file-systems file_systems
fi
list=$(IFS=, && printf '%s' "${needs[*]}")
say "required: ${list:-nothing}"
printf '%s\n' "$list"
