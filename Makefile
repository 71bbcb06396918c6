# What can be done here. Everything works from a clean clone; `make setup` installs what the machine lacks.

SHELL := /bin/bash
export PATH := $(PATH):$(HOME)/.cargo/bin
TARGET := $(if $(CARGO_TARGET_DIR),$(CARGO_TARGET_DIR),target)
C_SOURCES := $(shell git ls-files '*.h' '*.c')

.PHONY: help setup setup-demo build demo check format test test-kernels bench fuzz man bindings clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 24

setup: ## install what a fresh Debian or Ubuntu machine lacks (needs root for packages)
	@scripts/setup

setup-demo:
	@scripts/setup demo

build: ## build the release binary, target/release/fathom
	cargo build --release -p fathom

demo: setup-demo ## measure real traffic in a lab on this machine, and compare with the truth (needs root)
	cargo build --release -p fathom -p fathom-tests --bins
	@$(TARGET)/release/demo

check: ## formatting, lints, generated files, documentation
	cargo fmt --all --check
	clang-format --dry-run -Werror $(C_SOURCES)
	cargo clippy --workspace --all-targets -- -D warnings
	cargo clippy -p fathom --no-default-features -- -D warnings
	cargo run -q -p fathom-bindings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps -q

format: ## format all sources
	cargo fmt --all
	clang-format -i $(C_SOURCES)

test: ## all tests; those that need root say so where they have none
	cargo test --workspace --no-fail-fast -- --show-output

test-kernels: build ## load every program and measure in guest kernels 6.1 and 6.12 (qemu, 40 s each)
	tests/kernels/all $(TARGET)/release/fathom $$(for test in profile hops balance; do \
		cargo test -q -p fathom-tests --test $$test --no-run --message-format json | \
		sed -n 's/.*"name":"'$$test'".*"executable":"\([^"]*\)".*/\1/p'; done)

bench: build ## every claim about speed and memory, as ratios within one run (needs root)
	benches/run $(TARGET)/release/fathom

fuzz: ## fuzz what parses foreign bytes, a minute each
	fuzz/run 60

man: build ## man pages and shell completions into docs/
	$(TARGET)/release/fathom man docs/man
	@mkdir -p docs/completions
	@for shell in bash zsh fish; do $(TARGET)/release/fathom completions $$shell > docs/completions/fathom.$$shell; done

bindings: ## generate Rust's view of the shared C structs
	cargo run -q -p fathom-bindings -- --write

clean: ## remove what was built
	cargo clean
