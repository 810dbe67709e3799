#!/usr/bin/env bash
# Build what is given to others into dist/: a static binary with completions and manual pages, and a
# wheel for Python. Replaces only what it makes. The same commit and tools give the same bytes.
set -Eeuo pipefail
trap 'echo "dist: failed in line $LINENO: $BASH_COMMAND" >&2' ERR
cd "$(dirname "$0")/.."

target=$(rustc -vV | sed -n 's/^host: //p')
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
name=blocklab-$version-$target
build=${CARGO_TARGET_DIR:-$PWD/target}/dist
folder=$(mktemp -d)
# What the wheel has beside the package's own files, while it is made.
notices=python/blocklab/THIRD-PARTY.txt
trap 'rm -rf "$folder" "$notices"' EXIT
# Archives carry the commit's time, and nothing of this machine's folders.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 315532800)
export SOURCE_DATE_EPOCH CARGO_PROFILE_RELEASE_DEBUG=0 CARGO_PROFILE_RELEASE_STRIP=symbols
export CARGO_TARGET_DIR=$build
remap=$(printf -- '--remap-path-prefix=%s=%s\x1f' "${CARGO_HOME:-$HOME/.cargo}" cargo "$PWD" blocklab)
readonly target version name build folder notices remap
mkdir -p dist

CARGO_ENCODED_RUSTFLAGS="$remap-Ctarget-feature=+crt-static" \
    cargo build --quiet --locked --release --target "$target" -p blocklab
mkdir -p "$folder/$name/completions"
binary=$build/$target/release/blocklab
cp "$binary" README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT "$folder/$name/"
# What is given away with other people's code in it has their notices, too.
scripts/notices.py >"$notices"
cp "$notices" "$folder/$name/"
for shell in bash zsh fish; do
    "$binary" completions $shell >"$folder/$name/completions/blocklab.$shell"
done
"$binary" man "$folder/$name/man1" >/dev/null
tar --directory "$folder" --sort=name --owner=0 --group=0 --numeric-owner --mode=u+rwX,go=rX \
    --mtime="@$SOURCE_DATE_EPOCH" --create "$name" | gzip -n >"dist/$name.tar.gz"

# A wheel for each Python from 3.11 on: the stable interface of C, and no library but glibc's.
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip --quiet --disable-pip-version-check install 'maturin>=1.9,<2'
CARGO_ENCODED_RUSTFLAGS=${remap%$'\x1f'} PATH="$folder/venv/bin:$PATH" \
    maturin build --quiet --locked --release --out dist

# Whose machine this was is in nothing that is given away.
"$folder/venv/bin/python" -m zipfile --extract dist/blocklab-"$version"-*.whl "$folder/$name-wheel"
for given in "$folder/$name" "$folder/$name-wheel/blocklab"; do
    [[ -s $given/THIRD-PARTY.txt ]] || { echo "dist: no notices in $given" >&2 && exit 1; }
done
if grep -r -a -o -F -e "$HOME/" -e "$PWD/" "$folder/$name" "$folder/$name-wheel" | sort | uniq -c; then
    echo "dist: these files hold folders of this machine: --remap-path-prefix lacks one" >&2
    exit 1
fi

ls -l dist
