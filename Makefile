# `make` lists the targets; CONTRIBUTING.md says more.
#
# Everything Python lives in .venv, everything Rust in target. Stamp files in .venv record what is installed, so
# that an unchanged tree installs nothing again.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL: # each step keeps every core busy by itself
MAKEFLAGS += --no-builtin-rules

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
EXTENSION_SOURCES := Cargo.toml $(wildcard Cargo.lock) pyproject.toml \
  $(shell find rust/fastresume rust/fastresume-stores rust/fastresume-python -name '*.rs' -o -name Cargo.toml)

# The same environment for every step: cargo builds PyO3 anew when the interpreter that it sees changes.
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
export PATH := $(VIRTUAL_ENV)/bin:$(PATH)
unexport PYTHONHOME PYTHONPATH
# A test starts a hundred processes that import the package: without its bytecode, each one compiles it again.
unexport PYTHONDONTWRITEBYTECODE

export UV_LINK_MODE ?= hardlink
ifdef PIP_INDEX_URL # uv reads none of pip's settings
  export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
endif
# Where python may not cache bytecode, every process would compile torch's sources again: seconds each time.
UV_INSTALL := $(BIN)/uv pip install --quiet --require-hashes $(if $(PYTHONDONTWRITEBYTECODE),--compile-bytecode)

# In CI, a Cargo.lock that is behind Cargo.toml is an error.
LOCKED := $(if $(CI),--locked)
# Programs that share the data and the page with benches/results.py.
MEASURE := PYTHONPATH=$(CURDIR)/benches $(BIN)/python benches/measure
# One more than there are cores: tests wait for processes and servers that they start.
PYTEST := $(BIN)/python -m pytest --numprocesses $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1))) --dist worksteal
MATURIN_DEVELOP := $(BIN)/maturin develop --uv $(LOCKED)

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##### Build

$(VENV)/.python:
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	touch $@

$(VENV)/.tools: $(VENV)/.python requirements/bootstrap.lock requirements/dev.lock
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements/bootstrap.lock
	$(UV_INSTALL) -r requirements/dev.lock
	touch $@

# One of these two exists: the profile of the extension that is installed.
$(VENV)/.dev: $(VENV)/.tools $(EXTENSION_SOURCES)
	$(MATURIN_DEVELOP)
	rm -f $(VENV)/.release
	touch $@

$(VENV)/.release: $(VENV)/.tools $(EXTENSION_SOURCES)
	$(MATURIN_DEVELOP) --release
	rm -f $(VENV)/.dev
	touch $@

# What only the programs in benches need.
$(VENV)/.bench: $(VENV)/.tools requirements/bench.lock
	$(UV_INSTALL) -r requirements/bench.lock
	touch $@

# Mosaic's streaming asks for older packages than all others do: it has an environment of its own.
$(VENV)/.mosaic: $(VENV)/.tools requirements/mosaic.lock
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(VENV)/mosaic
	$(UV_INSTALL) --python $(VENV)/mosaic/bin/python -r requirements/mosaic.lock
	touch $@

# torchrec's own tensors: its FBGEMM is built for an older torch, and wants NVIDIA's management library.
$(VENV)/.torchrec: $(VENV)/.tools requirements/torchrec.lock tests/support/nvml.c
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(VENV)/torchrec
	$(UV_INSTALL) --python $(VENV)/torchrec/bin/python -r requirements/torchrec.lock
	$(or $(CC),cc) -shared -fPIC -o $(VENV)/torchrec/lib/libnvidia-ml.so.1 tests/support/nvml.c
	touch $@

# A server of Azure's blobs, for tests; npm is there on few machines.
$(VENV)/.azurite: $(VENV)/.python
	npm install --silent --no-audit --no-fund --prefix $(VENV)/azurite azurite@3.35.0
	touch $@

# Frameworks that only slow tests run. torchtitan asks for an older `datasets`, of which it needs nothing here.
$(VENV)/.frameworks: $(VENV)/.tools requirements/frameworks.lock
	$(UV_INSTALL) --no-deps -r requirements/frameworks.lock
	touch $@

# What only builds the site.
$(VENV)/.site: $(VENV)/.tools requirements/site.lock
	$(UV_INSTALL) -r requirements/site.lock
	touch $@

# What only builds wheels for other machines, and inspects them.
$(VENV)/.wheels: $(VENV)/.tools requirements/wheels.lock
	$(UV_INSTALL) -r requirements/wheels.lock
	touch $@

.PHONY: develop
develop: $(VENV)/.dev ## Install the tools and the extension (optimised, with its checks on) into .venv

.PHONY: wheel
wheel: $(VENV)/.tools ## Build a release wheel into target/wheels
	$(BIN)/maturin build --release $(LOCKED)

# What is linked by zig needs no newer glibc than that of the tag, whatever machine builds it.
WHEEL_PLATFORM := manylinux_2_28
WHEEL_TARGETS := x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu

.PHONY: wheels
wheels: $(VENV)/.wheels ## Build the wheels and the sdist of a release into target/wheels, inspect them, try what runs here; rustup
	rm -rf target/wheels
	rustup target add $(WHEEL_TARGETS)
	for target in $(WHEEL_TARGETS); do \
	  $(BIN)/python release/licenses.py $$target; \
	  $(BIN)/maturin build --release $(LOCKED) --zig --target $$target --compatibility $(WHEEL_PLATFORM); \
	done
	rm LICENSE-THIRD-PARTY.txt
	$(BIN)/maturin sdist
	$(BIN)/python release/check_wheel.py target/wheels/*.whl
	PYTHONPATH=tests $(BIN)/python release/try_package.py target/wheels/*$(WHEEL_PLATFORM)_$$(uname -m).whl $(BIN)/python $(PYTHONS)
	PYTHONPATH=tests $(BIN)/python release/try_package.py target/wheels/*.tar.gz $(BIN)/python

.PHONY: site
site: $(VENV)/.site ## Record the moving picture, and build the site into target/site/html; a warning is an error
	$(BIN)/python docs/pictures/kill_and_resume.py --record
	$(BIN)/python docs/site.py

.PHONY: clean
clean: ## Remove all that was built or installed
	rm -rf $(VENV) target .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find python -name '*.so' -delete
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

##### Run

.PHONY: demo
demo: develop ## Train on several ranks, kill them, resume on another number; DATA='glob' takes your files
	$(BIN)/python examples/demo.py $(if $(DATA),--data '$(DATA)')
	$(if $(DATA),,$(BIN)/python examples/killed.py)

.PHONY: bench
bench: $(VENV)/.release $(VENV)/.bench ## Measure beside what a user would pick instead; ARGS goes to benches/results.py
	$(BIN)/python benches/results.py $(ARGS)

.PHONY: bench-shuffle
bench-shuffle: $(VENV)/.release $(VENV)/.bench ## Measure how well a shuffled order mixes; ARGS='...' goes to the program
	$(MEASURE)/shuffle.py $(ARGS)

.PHONY: bench-padding
bench-padding: $(VENV)/.release $(VENV)/.bench ## Measure lists with nulls, jagged and padded, beside other ways; ARGS='...' goes to the program
	$(MEASURE)/padding.py $(ARGS)

.PHONY: bench-floor
bench-floor: $(VENV)/.release ## Measure one thread in Rust beside its floor and beside the parquet crate; compiles arrow
	cargo build --release --manifest-path benches/floor/Cargo.toml --target-dir target/floor $(LOCKED)
	$(MEASURE)/floor.py target/floor/release/fastresume-floor $(ARGS)

.PHONY: bench-scale
bench-scale: $(VENV)/.tools ## Measure what planning takes for 10^12 rows on 16,384 ranks; reads no data
	cargo bench -p fastresume-laws --bench scale $(LOCKED)

.PHONY: bench-intervals
bench-intervals: $(VENV)/.release ## Measure the interval algebra beside plain Python; ARGS='...' goes to the program
	$(MEASURE)/intervals.py $(ARGS)

.PHONY: bench-manifest
bench-manifest: $(VENV)/.release ## Measure opening 100,000 files, with a cache and without; ARGS='...' goes to the program
	$(MEASURE)/manifest.py $(ARGS)

.PHONY: bench-mixing
bench-mixing: $(VENV)/.release $(VENV)/.bench ## Measure packed sequences and mixtures beside the same rows as they are; ARGS='...' goes to the program
	$(MEASURE)/mixing.py $(ARGS)

.PHONY: bench-arrow
bench-arrow: $(VENV)/.release $(VENV)/.bench ## Measure rows of Arrow beside Parquet, datasets and Lance; ARGS='...' goes to the program
	$(MEASURE)/arrow.py $(ARGS)

.PHONY: bench-stores
bench-stores: $(VENV)/.release $(VENV)/.bench ## Measure reading from a store of objects beside local files and other libraries
	$(MEASURE)/stores.py $(ARGS)

.PHONY: bench-handover
bench-handover: $(VENV)/.release ## Measure what worker processes cost, beside torch's own hand-over and beside threads
	$(MEASURE)/handover.py $(ARGS)

.PHONY: bench-resumes
bench-resumes: $(VENV)/.release $(VENV)/.bench $(VENV)/.mosaic ## Kill jobs of this and other loaders, resume them, and count rows; ARGS='...' goes to the program
	$(MEASURE)/resumes.py --python mosaic=$(VENV)/mosaic/bin/python $(ARGS)

.PHONY: bench-kafka
bench-kafka: $(VENV)/.release $(VENV)/.bench ## Measure a Kafka topic beside how others read one; needs Go for the broker; ARGS='...' goes to the program
	$(MEASURE)/kafka.py $(ARGS)

.PHONY: bench-gpu
bench-gpu: $(VENV)/.release ## Check and measure what only a CUDA device can show; ARGS='sums' goes to the program
	$(MEASURE)/gpu.py $(ARGS)

.PHONY: bench-checkpoint
bench-checkpoint: $(VENV)/.release $(VENV)/.bench ## Measure how long a save blocks training, beside torch's own; ARGS='...' goes to the program
	$(MEASURE)/checkpoint.py $(ARGS)

##### Check

.PHONY: test
test: test-rust test-python ## Run the tests, Rust and Python: all that CI runs, which is all but the slow ones

.PHONY: test-all
test-all: test-rust develop $(VENV)/.imported $(VENV)/.frameworks site $(if $(shell command -v npm),$(VENV)/.azurite) ## Run all tests, the slow ones too, with more examples, and build the site; before a release
	FASTRESUME_PROFILE=$(or $(FASTRESUME_PROFILE),all) $(PYTEST) $(ARGS)
	$(if $(shell command -v mvn),FASTRESUME_KAFKA=apache $(PYTEST) -m "not slow" tests/kafka)

# Always with the features of all crates but the binding, which has no test of its own: with it, PyO3 and the stores are
# compiled once more, and without the stores, which are a dependency of the laws, parquet is.
# All tests run over the core as it is built for Python, but its own: they compile it once more, without optimisation.
TESTED := --workspace --exclude fastresume-python $(LOCKED)
UNIT_TESTS := cargo test --lib --package fastresume --package fastresume-laws $(LOCKED)
LAW_TESTS := cargo test --profile dev --lib --test '*' $(TESTED) --exclude fastresume

.PHONY: test-rust
test-rust: $(VENV)/.tools ## Run the Rust tests
	$(UNIT_TESTS)
	$(LAW_TESTS)
	cargo test --profile dev --doc $(TESTED)

# Processes that run tests would all compile what they import at once: one does it for them. What can't be imported, the
# tests tell.
$(VENV)/.imported: $(VENV)/.tools | $(VENV)/.dev
	$(BIN)/python -m pytest --collect-only -qq > /dev/null 2>&1 || true
	touch $@

.PHONY: test-python
test-python: develop $(VENV)/.imported ## Run the Python tests but for the slow ones, keep the slowest and failed in target/tests; ARGS='-k resume' goes to pytest
	$(PYTEST) -m "not slow" $(ARGS) || { status=$$?; cat target/tests/failed.txt; exit $$status; }

.PHONY: test-torchrec
test-torchrec: develop $(VENV)/.torchrec ## Run the tests of KeyedJaggedTensor with torchrec itself, on Linux; needs a C compiler
	LD_LIBRARY_PATH=$(VENV)/torchrec/lib PYTHONPATH=$(CURDIR)/python \
	  $(VENV)/torchrec/bin/python -m pytest -p no:cacheprovider tests/values/test_keyed_jagged.py $(ARGS)

.PHONY: azurite
azurite: $(VENV)/.azurite ## Install the server of Azure's blobs that tests of stores use, where npm is

.PHONY: soak
soak: develop ## Look for rare failures, for as long as you like; ARGS='...' goes to tests/soak.py
	FASTRESUME_PROFILE=soak $(BIN)/python tests/soak.py $(ARGS)

.PHONY: soak-types
soak-types: develop ## Compare thousands of files of all writers with other readers; cells of 100 MB; ARGS goes to pytest
	FASTRESUME_PROFILE=soak $(BIN)/python -m pytest --timeout 0 tests/values/test_writers.py tests/robustness/test_memory.py $(ARGS)

.PHONY: soak-checkpoint
soak-checkpoint: develop ## Strike every call of a save to the file system, on each rank; ARGS goes to pytest
	FASTRESUME_PROFILE=soak $(BIN)/python -m pytest --timeout 0 -s tests/training/test_checkpoint_faults.py $(ARGS)

.PHONY: fuzz
fuzz: develop ## Read damaged files for half an hour, MINUTES='5' for less: rows or an error of each, no abort, no hang, bounded memory
	FASTRESUME_PROFILE=soak FASTRESUME_FUZZ_MINUTES=$(or $(MINUTES),30) \
	  $(BIN)/python -m pytest --timeout 0 -o faulthandler_timeout=0 -s tests/robustness/test_fuzz.py -k minute $(ARGS)

# The largest piece of memory is that of a page which states as much as is believed. What is found goes to target, so that
# the corpus in the tree stays small.
FUZZ_LIMITS := -max_len=8192 -timeout=20 -rss_limit_mb=2048 -malloc_limit_mb=600

.PHONY: fuzz-decoders
fuzz-decoders: ## Fuzz each decoder for half an hour in all, MINUTES='5' for less, TARGETS='levels' for one; nightly, cargo-fuzz
	cargo run --release --manifest-path fuzz/Cargo.toml --target-dir target/fuzz --example seeds target/fuzz/corpus
	for target in $(or $(TARGETS),$$(cargo +nightly fuzz list)); do \
	  seconds=$$((60 * $(or $(MINUTES),30) / $(if $(TARGETS),$(words $(TARGETS)),$$(cargo +nightly fuzz list | wc -l)))); \
	  cargo +nightly fuzz run --target-dir target/fuzz $$target target/fuzz/corpus/$$target fuzz/corpus/$$target -- \
	    $(FUZZ_LIMITS) -max_total_time=$$seconds -print_final_stats=1; \
	done

.PHONY: fuzz-keep
fuzz-keep: ## Take into the corpus, fuzz/corpus, what `make fuzz-decoders` found that leads somewhere new
	for target in $$(cargo +nightly fuzz list); do \
	  mkdir -p target/fuzz/corpus/$$target; \
	  cargo +nightly fuzz run --target-dir target/fuzz $$target fuzz/corpus/$$target target/fuzz/corpus/$$target -- \
	    $(FUZZ_LIMITS) -set_cover_merge=1 -use_counters=0; \
	done

.PHONY: sanitize
sanitize: ## Run the core's tests under the address sanitizer, with a nightly toolchain
	RUSTFLAGS=-Zsanitizer=address cargo +nightly test -p fastresume --lib $(LOCKED) --target-dir target/sanitize \
	  --target $$(rustc -vV | sed -n 's/^host: //p')

# What Miri runs in some minutes: the memory with its pages, the slots of batches, intervals, and some of `simd`, whose plain
# paths it runs, since it reports no features of the processor. Left out are the tests that read files, run threads, call C
# (zstd), or take Miri minutes each: the rest of `simd`, decoders, and the corpus of `fuzz`.
MIRI_TESTS := memory:: intervals:: batch::fetches:: batch::slots::interleave:: batch::slots::jagged:: batch::slots::row_ids:: \
  simd::expand:: simd::gather::tests::a_lookup simd::feistel::tests::a_hash simd::scatter::tests::numbers arrow::array::
MIRI_SLOW := what_is_kept_and_what large_memory pages_that_grow many_pairs the_greatest_of_any

.PHONY: miri
miri: ## Look for undefined behaviour and leaks with Miri, TESTS='order::' for other tests; nightly with miri and rust-src
	MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test -p fastresume --lib $(LOCKED) --target-dir target/miri \
	  -- $(or $(TESTS),$(MIRI_TESTS)) $(addprefix --skip ,$(MIRI_SLOW))

# Models are compiled with shuttle's locks and threads, which nothing else is compiled with.
.PHONY: models
models: ## Run what threads wait for in thousands of orders of the threads: a wake-up that is lost is a deadlock
	RUSTFLAGS='--cfg shuttle' cargo test -p fastresume --lib $(LOCKED) --target-dir target/models models::

# Of two cores, what reads types takes one, and clippy the other.
.PHONY: lint
lint: develop ## Check formatting, lints and types; change nothing
	$(MAKE) lint-python lint-stubs & cargo clippy --workspace --all-targets $(LOCKED) -- -D warnings && wait $$!
	$(MAKE) lint-format

.PHONY: lint-python
lint-python: $(VENV)/.tools
	$(BIN)/ruff check
	$(BIN)/mypy --strict python/fastresume

.PHONY: lint-stubs
lint-stubs: develop
	$(BIN)/python -m mypy.stubtest fastresume._core --mypy-config-file stubtest.ini

.PHONY: lint-format
lint-format: $(VENV)/.tools
	cargo fmt --all --check
	cargo fmt --manifest-path benches/floor/Cargo.toml --check
	cargo fmt --manifest-path fuzz/Cargo.toml --check
	$(BIN)/ruff format --check

.PHONY: compile-tests
compile-tests: $(VENV)/.python
	$(UNIT_TESTS) --no-run
	$(LAW_TESTS) --bench '*' --no-run

# The tools come from afar: cargo compiles in the meantime. What tests of Rust and stubs take is then hidden behind those
# of Python.
# Clippy compiles what it lints: by itself it would check all packages once more. It is given its arguments in CLIPPY_ARGS.
.PHONY: ci
# What tests draw is the same each time: a run that fails has found a fault of the change.
ci: export FASTRESUME_PROFILE ?= ci
ci: export PROPTEST_RNG_SEED ?= 1
ci: export RUSTC_WORKSPACE_WRAPPER := clippy-driver
ci: export CLIPPY_ARGS := -D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__
ci: $(VENV)/.python ## Run all that a change must pass: lint and test
	$(MAKE) compile-tests & $(MAKE) lint-format lint-python && wait $$!
	$(MAKE) develop
	$(MAKE) --output-sync test-rust lint-stubs & $(MAKE) test-python && wait $$!

##### Change

.PHONY: format
format: $(VENV)/.tools ## Format the sources and apply the safe fixes
	cargo fmt --all
	cargo fmt --manifest-path benches/floor/Cargo.toml
	cargo fmt --manifest-path fuzz/Cargo.toml
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

.PHONY: lock
lock: $(VENV)/.tools ## Take newer versions of the Python tools into requirements/*.lock
	cd requirements && for set in bootstrap dev bench frameworks mosaic site torchrec wheels; do \
	  ../$(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes --no-header \
	    --no-emit-index-url --no-emit-find-links --output-file $$set.lock \
	    $$set.in $$([[ $$set =~ bootstrap|mosaic|site|torchrec|wheels ]] || echo ../pyproject.toml) $$([ $$set != bench ] || echo --extra bench) \
	    --overrides <([ $$set != frameworks ] || echo 'datasets>=5'); \
	done
