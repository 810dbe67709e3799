#!/usr/bin/env bash
# Prepare this machine: check the tools, make .venv, install blocklab and its Python package there.
# Quick when nothing changed. Exit code 3: the machine lacks something, and what.
set -Eeuo pipefail
trap 'say "setup: failed in line $LINENO: $BASH_COMMAND"' ERR
cd "$(dirname "$0")/.."

readonly RUST_MIN=88 # of 1.88, the workspace's rust-version
readonly VENV=.venv
readonly STAMP=$VENV/.blocklab-inputs

say() { printf '%s\n' "$*" >&2; }

# Each missing tool: one line of text, and its Debian packages where there are some.
missing=()
packages=()
lacks() {
    missing+=("$1")
    packages+=("${@:2}")
}

find_missing() {
    missing=() packages=()
    local rust
    rust=$(rustc --version 2>/dev/null | sed -n 's/^rustc 1\.\([0-9]*\)\..*/\1/p') || true
    if ! command -v cargo >/dev/null || ((${rust:-0} < RUST_MIN)); then
        lacks "Rust 1.$RUST_MIN or newer: see https://rustup.rs"
    fi
    command -v cc >/dev/null || lacks "a C compiler" build-essential
    if ! command -v python3 >/dev/null; then
        lacks "Python 3.11 or newer, as python3" python3 python3-venv
    elif ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        lacks "Python 3.11 or newer, not $(python3 --version): see https://www.python.org/downloads"
    elif ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
        lacks "Python's venv module" python3-venv
    fi
}

check_tools() {
    find_missing
    if ((${#packages[@]} > 0)) && ((EUID == 0)) && command -v apt-get >/dev/null; then
        say "setup: installing ${packages[*]}"
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${packages[@]}" >/dev/null
        find_missing
    fi
    ((${#missing[@]} == 0)) && return
    say "setup: this machine lacks:"
    printf '  - %s\n' "${missing[@]}" >&2
    if ((${#packages[@]} > 0)); then
        say "On Debian or Ubuntu: sudo apt-get install ${packages[*]}"
    fi
    exit 3
}

# One line that changes when anything that goes into the package changes. The Python files are
# not among it: they are used where they lie.
inputs() {
    {
        "$VENV/bin/python" --version
        rustc --version
        find . \( -name .git -o -name .venv -o -name target -o -name out \) -prune -o -type f \
            \( -path './crates/*' -o -path './devices/*' -o -path './studies/*' \
            -o -name 'Cargo.*' -o -name pyproject.toml \) -print |
            LC_ALL=C sort | xargs -d '\n' sha256sum
    } | sha256sum
}

make_venv() {
    # A virtual environment whose Python has moved or gone is made anew.
    if ! "$VENV/bin/python" -c 'import pip' 2>/dev/null; then
        say "setup: making $VENV"
        rm -rf "$VENV"
        python3 -m venv "$VENV"
    fi
}

install_blocklab() {
    local now
    now=$(inputs)
    if [[ -f $STAMP && $(<"$STAMP") == "$now" ]]; then return; fi
    say "setup: building blocklab and its Python package (a few minutes the first time)"
    export PIP_QUIET=1 PIP_DISABLE_PIP_VERSION_CHECK=1 VIRTUAL_ENV="$PWD/$VENV"
    "$VENV/bin/python" -m pip install 'maturin>=1.9,<2'
    "$VENV/bin/maturin" develop --release --extras dev
    # In place of the package's script: `travel` starts this binary once more inside its guest.
    cargo install --quiet --locked --force --path crates/cli --root "$VENV"
    printf '%s\n' "$now" >"$STAMP"
}

check_tools
make_venv
install_blocklab
if [[ $(command -v blocklab) != "$PWD/$VENV/bin/blocklab" ]]; then
    say "setup: to have \`blocklab\` in this shell: export PATH=\"$PWD/$VENV/bin:\$PATH\""
fi
