# What can be done here. Everything works from a clean clone; `make setup` installs what the machine lacks.

SHELL := /bin/bash
export PATH := $(PATH):$(HOME)/.cargo/bin
TARGET := $(if $(CARGO_TARGET_DIR),$(CARGO_TARGET_DIR),target)
C_SOURCES := $(shell git ls-files '*.h' '*.c')

.PHONY: help setup setup-demo build build-server demo check check-release format test test-documents test-kernels test-kernels-short test-programs-arm64 bench bench-short soak fuzz fuzz-corpus man package package-arm64 test-package test-package-short sample recordings reference site page pictures bindings clean

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 24

setup: ## install what a fresh Debian or Ubuntu machine lacks (needs root for packages)
	@scripts/setup

setup-demo:
	@scripts/setup demo

build: ## build the release binary, target/release/fathom
	cargo build --release -p fathom

build-server: ## build target/release/fathom-server, which answers queries (20 minutes on two cores)
	cargo build --profile server -p fathom-server
	@mkdir -p $(TARGET)/release && cp $(TARGET)/server/fathom-server $(TARGET)/release/

demo: setup-demo ## measure real traffic in a lab on this machine, and compare with the truth (needs root)
	cargo build --release -p fathom -p fathom-tests --bins
	@$(TARGET)/release/demo
	@echo 'Now the server is built, without optimisation (7 minutes on two cores), for the second part.'
	cargo build -p fathom-server
	@PATH="$(abspath $(TARGET))/debug:$$PATH" $(TARGET)/release/demo explain

check: ## formatting, lints, generated files, documentation, licences of crates
	cargo fmt --all --check
	clang-format --dry-run -Werror $(C_SOURCES)
	cargo clippy --workspace --all-targets -- -D warnings
	cargo clippy -p fathom --no-default-features -- -D warnings
	cargo run -q -p fathom-bindings
	scripts/page check
	scripts/crates
	scripts/manifests
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps -q

check-release: ## the oldest compiler, and the crates that may be published (a quarter of an hour)
	scripts/crates release

format: ## format all sources
	cargo fmt --all
	clang-format -i $(C_SOURCES)

test: setup ## all tests; ends with what was skipped and why (FATHOM_REQUIRE=all: that fails)
	@scripts/test

test-documents: ## run every command of README.md and docs/ in a lab with their interfaces and hosts (needs root; 4 minutes)
	cargo build --workspace --bins
	cargo test --workspace --test documents

test-programs-arm64: ## what `make test-kernels` runs on arm64, built on amd64
	@scripts/setup cross
	@tests/kernels/build $(TARGET)/kernels arm64

test-kernels: ## every guest test in kernels 6.1, 6.12, the newest and arm64, or in KERNELS (qemu, half an hour each)
	tests/kernels/build $(TARGET)/kernels amd64
	tests/kernels/all $(TARGET)/kernels $(KERNELS)

test-kernels-short: ## whether guest kernels 6.1 and 6.12 take every program, and what a router measures (five minutes)
	cargo test -q --workspace --no-run
	tests/kernels/short $(TARGET)/debug/fathom $$(cargo test -q --workspace --test kernel --no-run \
		--message-format json | sed -n 's/.*"name":"kernel".*"executable":"\([^"]*\)".*/\1/p')

bench: build ## every claim about speed and memory, as ratios within one run (needs root, two hours)
	benches/run $(TARGET)/release/fathom

bench-short: build ## the same with fewer repetitions and workloads (half an hour)
	benches/run --short $(TARGET)/release/fathom

soak: build ## a day of an agent in twenty minutes (needs root, and `make build-server`)
	cargo build --release -p fathom-benches --bin soak
	$(TARGET)/release/soak --fathom $(TARGET)/release/fathom

fuzz: ## fuzz what parses foreign bytes, a minute each
	fuzz/run 60

fuzz-corpus: ## compile the fuzz targets and run their corpus
	fuzz/run 0

man: build ## man pages and shell completions into docs/
	$(TARGET)/release/fathom man docs/man
	@mkdir -p docs/completions
	@for shell in bash zsh fish; do $(TARGET)/release/fathom completions $$shell > docs/completions/fathom.$$shell; done

package: ## packages for Debian, a static tarball and an OCI image, in target/package (40 minutes on two cores)
	@scripts/setup package
	@scripts/package

package-arm64: ## the static tarball and the image for arm64, built on amd64
	@scripts/setup cross
	@FATHOM_TARGET=aarch64-unknown-linux-gnu scripts/package tarball image

test-package-short: ## the Debian packages alone, of the programs that tests use (needs root; two minutes)
	@scripts/setup package
	@DEB_BUILD_OPTIONS=noautodbgsym DPKG_DEB_COMPRESSOR_TYPE=gzip scripts/package --programs $(TARGET)/debug deb
	@tests/package/run $(TARGET)/package deb

test-package: ## install, upgrade and remove the packages in a Debian 12 of its own; run tarball and image (needs root)
	@scripts/setup package
	@tests/package/run $(TARGET)/package

sample: ## record the sample capture that packages have, in the lab (needs root, and tshark)
	@folder=$$(mktemp -d) && cargo run -q --release -p fathom-lab --example sample -- $$folder && \
		editcap -F pcapng $$folder/wan0.pcap packaging/examples/sample.pcapng; rm -r $$folder

recordings: ## record the loops of requests that tests replay, in the lab (needs root; 5 minutes)
	cargo run -q -p fathom -- --version
	cargo run -q -p fathom-tests --bin recordings -- crates/measure/tests/loops/recordings

reference: ## generate docs/records.md, and the table of docs/metrics.md
	@cargo run -q -p fathom -- reference > $(TARGET)/records.md && mv $(TARGET)/records.md docs/records.md
	@{ sed '/^| family/,$$d' docs/metrics.md && cargo run -q -p fathom -- reference metrics; } \
		> $(TARGET)/metrics.md && mv $(TARGET)/metrics.md docs/metrics.md

site: ## build the site of the documents, target/site, by mdBook
	@scripts/site

page: ## build the page of `fathom serve` into web/dist, from the sources in web/ (needs npm)
	@scripts/page

pictures: ## take the pictures of documents in the lab, and ask what docs/questions.md cites (needs root)
	@scripts/pictures

bindings: ## generate Rust's view of the shared C structs
	cargo run -q -p fathom-bindings -- --write

clean: ## remove what was built
	cargo clean
