# Everything is installed and built below this folder, in .venv and build/. Exceptions: scripts/install-doctest installs
# the doctest header from the system's packages if it is missing, and scripts/install-chromium a browser (.ci/run only).
PYTHON ?= python3
# Hundreds of tests start Python, which takes three seconds longer where no module may be kept compiled.
unexport PYTHONDONTWRITEBYTECODE
VENV ?= .venv
BIN := $(VENV)/bin
SOURCES := CMakeLists.txt pyproject.toml $(shell find cpp -name '*.[ch]pp' -not -path 'cpp/tests/*' -not -path 'cpp/fuzz/*')
FORMATTED := $(shell find cpp cmake -name '*.[ch]pp')
PIP := $(BIN)/pip --disable-pip-version-check -q
# Install groups of requirements of pyproject.toml: $(call install_extras,PYTHON,GROUPS). Most Python files are never
# imported, so compiling them all would be wasted time.
install_extras = $(1) -m pip --disable-pip-version-check -q install --no-compile \
    $$($(1) scripts/list_requirements.py $(2))
# To build with ccache, set CMAKE_CXX_COMPILER_LAUNCHER=ccache in the environment. Without it, headers are precompiled
# and bindings are compiled in two units, which makes the first build much quicker.

.PHONY: help demo test checks build lint format tidy types layers stub stub-check cli-docs python-test cpp-test asan tsan \
    doctest clients-test bench benchmark-docs docs wheel clean

help:
	@echo "make demo    build for this machine, train on the shipped sample, evaluate, tag three sentences"
	@echo "make test    build and run every check: lint, types, layers, C++ tests, sanitizers, Python tests"
	@echo "make build   build into $(VENV) (development install: Python edits need no rebuild)"
	@echo "make clients-test  test Annif and other clients, each in an environment of its own"
	@echo "make format  format Python and C++ files"
	@echo "make tidy    run clang-tidy on the C++ core (minutes)"
	@echo "make bench   measure our systems and other libraries on public data sets (hours; resumes)"
	@echo "make clean   remove $(VENV) and build/"

# What the package needs to be built and to run, and no more: the demo waits for it.
$(VENV)/.runtime: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(call install_extras,$(BIN)/python,build runtime)
	@touch $@

$(VENV)/.ready: $(VENV)/.runtime
	$(call install_extras,$(BIN)/python,dev serve report ray)
	@touch $@

# ISAS=OFF builds only the best instruction set of this machine, for quick development builds; the demo always does.
# LONGTAIL_CMAKE takes further settings, such as --config-settings=cmake.define.LONGTAIL_PRECOMPILE=OFF.
# LONGTAIL_OPTIMIZE_ALL=OFF compiles quickly what this machine cannot run. The option is not shortened to -C, which the pip
# of Debian 12 does not know.
ISAS ?= ON
BUILD := build/release
SETTING := --config-settings
install_longtail = $(PIP) install --no-build-isolation --no-deps -e . $(SETTING)=build-dir=$(BUILD) \
    $(SETTING)=cmake.define.LONGTAIL_ALL_ISAS=$(1) $(SETTING)=cmake.define.LONGTAIL_OPTIMIZE_ALL=OFF $(LONGTAIL_CMAKE)
$(VENV)/.built: $(VENV)/.ready $(SOURCES)
	+$(call install_longtail,$(ISAS))
	@touch $@
$(VENV)/.demo-built: $(VENV)/.runtime $(SOURCES)
	@echo "Compiling the native core for this machine (a minute or two) ..."
	@$(call install_longtail,OFF)
	@touch $@

build: $(VENV)/.built

# A development install serves the demo as well.
demo: $(if $(wildcard $(VENV)/.built),$(VENV)/.built,$(VENV)/.demo-built)
	@$(BIN)/python examples/tag_debian_packages.py

# Type checks and sanitized tests use one core each, so two of these run at a time. CI adds clients-test by ALSO.
# Commands with a plus share the two places with ninja; without it, each ninja would start four compilers.
ALSO ?=
test:
	@$(MAKE) --no-print-directory -j 2 --output-sync checks $(ALSO)
	@$(MAKE) --no-print-directory python-test
checks: lint types layers stub-check cpp-test asan tsan

lint: $(VENV)/.built
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run --Werror $(FORMATTED)

format: $(VENV)/.ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(FORMATTED)

# Not part of `make test`: it takes as long as all compilations together. TIDY="cpp/gbdt/bins.cpp" checks one file.
TIDY ?= $(filter-out cpp/bindings/% cpp/tests/% cpp/fuzz/% cmake/%,$(filter %.cpp,$(FORMATTED)))
tidy: $(VENV)/.ready doctest
	$(BIN)/cmake --preset tidy -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) >/dev/null
	$(BIN)/clang-tidy -p build/tidy --quiet --warnings-as-errors='*' $(TIDY)

types: $(VENV)/.built
	$(BIN)/mypy

layers: $(VENV)/.built
	$(BIN)/lint-imports

# The type stub of the native module is generated: `make stub` writes it, `make stub-check` fails if it is out of date.
stub: $(VENV)/.built
	$(BIN)/python scripts/write_stub.py src/longtail/_core.pyi

stub-check: $(VENV)/.built
	$(BIN)/python scripts/write_stub.py --check src/longtail/_core.pyi

# docs/cli.md is written from --help; a test fails if it is out of date.
cli-docs: $(VENV)/.built
	$(BIN)/python scripts/write_cli_docs.py docs/cli.md

# Cluster tests start several processes that need memory and both cores, and `alone` marks tests that measure time or
# memory: they run after the others. With worksteal, both cores are busy to the end. Two workers with two BLAS threads each
# would wait for each other, even in small products. (OMP_NUM_THREADS would limit longtail, too.) Importing all test files
# takes ten seconds, so the second run gets only those that use the marks.
MARKED_TESTS = $(sort $(shell grep -rlE 'mark\.(cluster|alone)' tests --include='test_*.py'))
python-test: $(VENV)/.built
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "not cluster and not alone"
	$(BIN)/python -m pytest -m "cluster or alone" $(MARKED_TESTS)

# Clients that pin versions of their own, such as Annif, are tested in environments of their own, which are made once.
# Where an environment cannot be made (no network, no wheel for this Python), its tests are skipped with that reason.
CLIENTS := .venv-clients
$(CLIENTS)/%/.ready: clients/%.txt scripts/make-client-env | $(VENV)/.built
	@scripts/make-client-env $(PYTHON) $(VENV) $(CLIENTS)/$* clients/$*.txt && touch $@ || \
	    echo "clients-test: could not install clients/$*.txt; its tests are skipped"
clients-test: $(VENV)/.built
	@$(MAKE) --no-print-directory $(CLIENTS)/annif/.ready $(CLIENTS)/others/.ready
	@if test -e $(CLIENTS)/annif/.ready; then LONGTAIL_ANNIF=$(abspath $(CLIENTS))/annif/bin/annif \
	    $(BIN)/python -m pytest tests/clients/test_annif_backend.py tests/clients/test_annif_service.py; fi
	@if test -e $(CLIENTS)/others/.ready; then $(CLIENTS)/others/bin/python -m pytest tests/clients --ignore-glob='*annif*' && \
	    $(CLIENTS)/others/bin/python -m pytest tests/datasets/test_in_memory.py tests/test_embeddings.py tests/test_coming_from.py \
	    -k 'hugging_face or wordllama or mlflow'; fi

doctest:
	@scripts/install-doctest

# The tests link the same libraries as the Python modules, in every instruction set that this machine can run.
cpp-test: $(VENV)/.built doctest
	$(BIN)/cmake $(BUILD) -DLONGTAIL_TESTS=ON >/dev/null
	+$(BIN)/cmake --build $(BUILD) --target longtail_tests
	$(BIN)/ctest --test-dir $(BUILD) --parallel 2 --output-on-failure

# asan: address and undefined-behaviour sanitizers, tsan: thread sanitizer, for the tests that start threads; both for the
# best instruction set of this machine. They need no more than CMake: compilers run while pip installs the tools of .ready.
# `make asan SANITIZED_ISAS=ON` takes AVX2 and AVX-512: too long for every run of CI.
SANITIZED_ISAS ?= OFF
asan tsan: $(VENV)/.runtime doctest
	$(BIN)/cmake --preset $@ -DLONGTAIL_ALL_ISAS=$(SANITIZED_ISAS) -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) >/dev/null
	+$(BIN)/cmake --build build/$@ --target longtail_tests
	$(BIN)/ctest --test-dir build/$@ --parallel 2 --output-on-failure

# Our systems and other libraries on the public data sets, in the order of benchmarks/matrix.toml. The same command
# continues a run that was stopped. Results go to build/bench, not to the results shown in the docs: to extend those,
# set RESULTS=benchmarks/results/systems.jsonl and run make benchmark-docs. docs/bench.md describes PEERS_FOLDER and
# PEERS_PYTHON. BENCH takes further options, for instance BENCH="--timeout-seconds 2100 -d Bibtex".
DATA ?= $(or $(LONGTAIL_DATA),../shared/data)
RESULTS ?= build/bench/systems.jsonl
bench: $(VENV)/.built
	$(BIN)/longtail bench benchmarks/matrix.toml --peers benchmarks/peers --results $(RESULTS) -o build/bench \
	    --data-folder $(DATA) $(BENCH)

# docs/benchmarks.md, its plots and the README's table are written from benchmarks/results; a test fails if they are old.
benchmark-docs: $(VENV)/.built
	$(BIN)/python scripts/write_benchmarks.py

# The documentation as a site, in site/; dead links and unknown names are errors.
docs: .venv-docs/.ready
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict
.venv-docs/.ready: pyproject.toml
	$(PYTHON) -m venv .venv-docs
	$(call install_extras,.venv-docs/bin/python,docs)
	@touch $@

# A wheel as users get it: built, repaired, installed into an empty environment, tested outside of this folder.
wheel:
	scripts/check-wheel $(PYTHON)

clean:
	rm -rf $(VENV) build
