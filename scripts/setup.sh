#!/usr/bin/env bash
# Prepare this machine: check the tools, make .venv, install blocklab and its Python package there.
# Quick when nothing changed. Exit code 3: the machine lacks something, and what.
# `setup.sh --tests` instead prepares the tests of Python: .venv with what they import, and the
# package in $TARGET/python with the build that the tests of Rust have made.
set -Eeuo pipefail
trap 'say "setup: failed in line $LINENO: $BASH_COMMAND"' ERR
cd "$(dirname "$0")/.."

readonly RUST_MIN=88 # of 1.88, the workspace's rust-version
readonly VENV=.venv
readonly STAMP=$VENV/.blocklab-inputs
export PIP_QUIET=1 PIP_DISABLE_PIP_VERSION_CHECK=1

say() { printf '%s\n' "$*" >&2; }

# Each missing tool: one line of text, and its Debian packages where there are some.
missing=()
packages=()
lacks() {
    missing+=("$1")
    packages+=("${@:2}")
}

can_link_static() {
    local program
    program=$(mktemp)
    if ! cc -static -x c -o "$program" - <<<'int main(void) { return 0; }' 2>/dev/null; then
        rm -f "$program"
        return 1
    fi
    rm -f "$program"
}

find_missing() {
    missing=() packages=()
    local rust machine
    machine=$(uname -sm)
    [[ $machine == "Linux x86_64" ]] || lacks "Linux on x86-64, not $machine: without what needs them (attach, travel, boot), \
\`cargo install --path crates/cli --no-default-features\` may do"
    rust=$(rustc --version 2>/dev/null | sed -n 's/^rustc 1\.\([0-9]*\)\..*/\1/p') || true
    if ! command -v cargo >/dev/null || ((${rust:-0} < RUST_MIN)); then
        lacks "Rust 1.$RUST_MIN or newer: see https://rustup.rs"
    fi
    if ! command -v cc >/dev/null; then
        lacks "a C compiler" build-essential
    elif ! can_link_static; then
        # What runs inside a guest brings its libraries along.
        lacks "a C library for static programs (glibc-static on Fedora)" libc6-dev
    fi
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
            -o -path './traces/*' -o -name 'Cargo.*' -o -name pyproject.toml \) -print |
            LC_ALL=C sort | xargs -d '\n' sha256sum
    } | sha256sum
}

make_venv() {
    # A virtual environment whose Python has moved or gone is made anew, and one that was cut.
    if ! "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
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
    rm -f "$STAMP" # what is half built is of no inputs
    "$VENV/bin/python" -m pip install 'maturin>=1.9,<2'
    VIRTUAL_ENV="$PWD/$VENV" "$VENV/bin/maturin" develop --release --extras dev
    # In place of the package's script: `travel` starts this binary once more inside its guest.
    # Both packages are named so that what they share is not compiled twice.
    cargo build --quiet --locked --release -p blocklab -p blocklab-py --bin blocklab
    install "$TARGET/release/blocklab" "$VENV/bin/blocklab"
    printf '%s\n' "$now" >"$STAMP"
}

# What the package and its tests import, and no build of blocklab.
install_libraries() {
    "$VENV/bin/python" - <<'EOF' | xargs -d '\n' "$VENV/bin/python" -m pip install
import tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
extras = project["optional-dependencies"]
print(*project["dependencies"], *extras["dev"], *extras["ray"], sep="\n")
EOF
}

lay_out_for_tests() {
    # As for the tests of Rust: nothing is compiled for Python alone. It is no part of a `make` around it.
    MAKEFLAGS='' make --no-print-directory compile
    rm -rf "$TARGET/python"
    mkdir -p "$TARGET/python"
    cp -rs "$PWD/python/blocklab" "$TARGET/python/"
    ln -sf "$(realpath "$TARGET/debug/lib_core.so")" "$TARGET/python/blocklab/_core.abi3.so"
}

check_tools
TARGET=$(scripts/target.sh)
readonly TARGET
# Two at once would make and remove one .venv: the second waits.
if [[ -z ${BLOCKLAB_SETUP_LOCKED:-} ]] && command -v flock >/dev/null; then
    mkdir -p "$TARGET"
    BLOCKLAB_SETUP_LOCKED=1 exec flock -o "$TARGET/setup.lock" scripts/setup.sh "$@"
fi
make_venv
if [[ ${1:-} == --tests ]]; then
    install_libraries
    lay_out_for_tests
    exit
fi
install_blocklab
if [[ $(command -v blocklab) != "$PWD/$VENV/bin/blocklab" ]]; then
    say "setup: to have \`blocklab\` in this shell: export PATH=\"$PWD/$VENV/bin:\$PATH\""
fi
