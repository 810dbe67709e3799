# Every task of the repository. `make` alone explains them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON := $(CURDIR)/.venv/bin/python
# The tests' own build, and the package on top of it; cargo is asked only where they are needed.
TARGET = $(shell scripts/target.sh)
PYTEST = PATH="$(TARGET)/debug:$$PATH" PYTHONPATH="$(TARGET)/python" "$(PYTHON)" -m pytest
BLOCKLAB := $(CURDIR)/.venv/bin/blocklab
# Seconds per fuzz target.
FUZZ_SECONDS ?= 60

# What attach and boot are tested with, as Debian calls it.
CLIENTS := fio libnbd-bin qemu-utils qemu-system-common nbd-server nbdkit \
	e2fsprogs xfsprogs btrfs-progs util-linux \
	qemu-system-x86 busybox-static nbd-client binutils mdadm dmsetup \
	grub-common grub-pc-bin grub-efi-amd64-bin systemd-boot-efi ovmf mmdebstrap mtools lzop lz4 zstd xz-utils gzip \
	strace git python3-lmdb

# What travel runs in its guest.
PROGRAMS := fio postmark bonnie++ dbench e2fsprogs xfsprogs reiserfsprogs f2fs-tools

# What travel's kernel is built with.
BUILDERS := build-essential flex bison bc xz-utils

# What the build without the feature `linux` may not have.
LINUX_ONLY := ^(io-uring|vm-memory|virtio-|blocklab-(attach|boot|guest) )

.PHONY: help setup clients kernel demo compile test test-code check-fuzz test-runs test-programs test-rooms test-bare test-python test-long test-all bench dist fuzz docs clean

help: ## Explain the tasks
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Prepare this machine: .venv with blocklab and its Python package (quick when nothing changed)
	@scripts/setup.sh

clients: ## Install what attach, travel and boot are tested with, and a guest's kernel (apt, as root)
	apt-get update -qq
	DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(CLIENTS) $(PROGRAMS) $(BUILDERS)
	scripts/guest.py --fetch

kernel: ## Build the kernel that travel boots, once (some minutes; quick when it is there)
	@cargo run --quiet -p blocklab -- kernel build

demo: setup ## Build, run the study first-look, write its report
	@"$(BLOCKLAB)" run first-look --out out/first-look
	@"$(BLOCKLAB)" report out/first-look

test: ## Check everything that must hold on every commit
	@scripts/skips.sh $(MAKE) test-code test-runs

# A test that waits for a disk or a guest leaves a processor to another.
test-runs:
	@echo 'four lots of tests, two at a time; each is shown when it is done, the longest after some ten minutes'
	$(MAKE) --jobs 2 --output-sync=target test-programs test-rooms test-bare test-python

# Everything is compiled once, and clippy looks on: what it warns of is an error. It tells its builds from
# those without it, so whatever comes after must be told the same.
compile test-code check-fuzz test-programs test-rooms test-bare test-python: export RUSTC_WORKSPACE_WRAPPER := clippy-driver
compile test-code check-fuzz test-programs test-rooms test-bare test-python: export CLIPPY_ARGS := -Dwarnings

compile:
	cargo build --workspace --all-targets

test-code:
	cargo fmt --all --check
	$(MAKE) compile
	cargo clippy --manifest-path crates/boot/loader/Cargo.toml --target-dir "$(TARGET)/loader" --quiet -- -D warnings
	cargo clippy -p blocklab --no-default-features --lib --bins --quiet -- -D warnings
	$(MAKE) check-fuzz
	for of in examples/deterministic-simulation crates/boot/loader fuzz; do \
		cargo update --quiet --workspace --locked --manifest-path $$of/Cargo.toml; done
	tree=$$(cargo tree -p blocklab --no-default-features -e normal --prefix none) && ! grep -E '$(LINUX_ONLY)' <<< "$$tree"

# Fuzzing needs a nightly compiler, and that the targets are of today's code does not. What would
# compile libFuzzer is told that it is there: it is linked only where something is fuzzed.
check-fuzz:
	CUSTOM_LIBFUZZER_PATH=./libfuzzer.a cargo check --manifest-path fuzz/Cargo.toml --bins --locked \
		--target-dir "$(TARGET)/fuzz" --quiet

# The tests in a folder `tests`, most of them of the program as a whole.
test-programs:
	cargo test --workspace --no-fail-fast --test '*'

# Those beside the code.
test-rooms:
	cargo test --workspace --no-fail-fast --lib --bins
	cargo test -p blocklab-models --doc --quiet

# Fits of parts: they take minutes and start no program, so once is enough.
SIMULATED := --skip calibrate::known_parameters --skip calibrate::offered_loads --skip fitted:: --skip flash::

# What looks at this machine's programs, as on a machine that has only the basic ones.
test-bare:
	cargo test --workspace --no-fail-fast --test cli --test attach --test travel \
		--config "target.'cfg(unix)'.runner = ['$(CURDIR)/scripts/bare.sh']" -- $(SIMULATED)

test-python:
	@scripts/setup.sh --tests
	"$(PYTHON)" -m mypy
	$(PYTEST)

test-long: setup ## Everything in `test`, and the slow tests, optimised
	@scripts/skips.sh $(MAKE) test-all

# Optimised as a release is, with the assertions and the checks of a debug build: some tests need
# these, and may not be skipped here for want of them.
test-all: export BLOCKLAB_REQUIRE := $(BLOCKLAB_REQUIRE),debug-assertions
test-all:
	cargo test --workspace --profile long -- --include-ignored
	cargo test --manifest-path examples/deterministic-simulation/Cargo.toml --locked \
		--target-dir "$(TARGET)/examples" --quiet
	PATH="$(CURDIR)/.venv/bin:$$PATH" "$(PYTHON)" -m pytest

bench: ## Measure speed on one core
	cargo bench --workspace --benches

dist: ## Build what is given to others into dist/: a static binary, and a wheel for Python
	@scripts/dist.sh

fuzz: ## Fuzz every parser, FUZZ_SECONDS=60 each
	@fuzz/run.sh $(FUZZ_SECONDS)

docs: ## Write the generated documents and the API reference
	cargo run --quiet -p xtask -- generate
	cargo doc --workspace --no-deps

clean: ## Delete everything that can be made again; what you ran, in out/, stays
	cargo clean
	rm -rf out/first-look dist .venv
