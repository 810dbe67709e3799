#!/usr/bin/env bash
# Build what is given to others into dist/: a static binary with completions and manual pages, and a
# wheel for Python. Replaces only what it makes.
set -Eeuo pipefail
trap 'echo "dist: failed in line $LINENO: $BASH_COMMAND" >&2' ERR
cd "$(dirname "$0")/.."

target=$(rustc -vV | sed -n 's/^host: //p')
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
name=blocklab-$version-$target
readonly target version name # of what is made

scripts/setup.sh
mkdir -p dist

RUSTFLAGS='-C target-feature=+crt-static -C strip=symbols' \
    cargo build --quiet --release --target "$target" -p blocklab
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/$name/completions"
binary=${CARGO_TARGET_DIR:-target}/$target/release/blocklab
cp "$binary" README.md CHANGELOG.md LICENSE-APACHE LICENSE-MIT "$folder/$name/"
for shell in bash zsh fish; do
    "$binary" completions $shell >"$folder/$name/completions/blocklab.$shell"
done
"$binary" man "$folder/$name/man1" >/dev/null
# The same files give the same archive.
tar --directory "$folder" --sort=name --owner=0 --group=0 --numeric-owner \
    --mtime="@$(git log -1 --format=%ct 2>/dev/null || echo 0)" \
    --create "$name" | gzip -n >"dist/$name.tar.gz"

.venv/bin/python -m pip --quiet install 'maturin>=1.9'
.venv/bin/python -m maturin build --quiet --release --out dist

ls -l dist
