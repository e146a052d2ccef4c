# Everything happens in .venv below this folder; nothing is installed elsewhere, except that the C++ tests need the
# doctest header, which scripts/install-doctest fetches from the system's packages when it is missing.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SOURCES := CMakeLists.txt pyproject.toml $(shell find cpp -name '*.[ch]pp' -not -path 'cpp/tests/*' -not -path 'cpp/fuzz/*')

.PHONY: help build demo test lint types layers stub-check cli-docs python-test cpp-test asan bench benchmark-docs docs wheel clean

help:
	@echo "make demo   build, train on the shipped sample, evaluate, tag a sentence"
	@echo "make test   build and run every check: lint, types, layers, C++ tests, sanitizers, Python tests"
	@echo "make build  build into $(VENV) (development install: Python edits need no rebuild)"
	@echo "make bench  measure ours and the peers on the public data sets into build/bench (hours; resumes)"
	@echo "make clean  remove $(VENV) and build/"

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --upgrade pip
	$(BIN)/pip install -q "scikit-build-core>=0.10" numpy scipy scikit-learn click
	$(BIN)/python -c "import tomllib,subprocess,sys; e=tomllib.load(open('pyproject.toml','rb'))['project']['optional-dependencies']; subprocess.check_call([sys.executable,'-m','pip','install','-q',*e['dev'],*e['serve'],*e['report'],*e['ray']])"
	@touch $@

# ISAS=OFF builds only the best instruction set of this machine: what you want while developing.
ISAS ?= ON
$(VENV)/.built: $(VENV)/.ready $(SOURCES)
	$(BIN)/pip install -q --no-build-isolation --no-deps -e . -Ccmake.define.LONGTAIL_ALL_ISAS=$(ISAS)
	@touch $@

build: $(VENV)/.built

demo: $(VENV)/.built
	@$(BIN)/python examples/tag_debian_packages.py

test: lint types layers stub-check cpp-test asan python-test

lint: $(VENV)/.built
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.built
	$(BIN)/mypy

layers: $(VENV)/.built
	$(BIN)/lint-imports

# The typed face of the native module is generated; `make stub` writes it, `make stub-check` tells when it is old.
stub: $(VENV)/.built
	$(BIN)/python scripts/write_stub.py src/longtail/_core.pyi

stub-check: $(VENV)/.built
	$(BIN)/python scripts/write_stub.py --check src/longtail/_core.pyi

# docs/cli.md is what --help says; a test tells when it is old.
cli-docs: $(VENV)/.built
	$(BIN)/python scripts/write_cli_docs.py docs/cli.md

python-test: $(VENV)/.built
	$(BIN)/python -m pytest

cpp-test asan: $(VENV)/.ready
	@scripts/install-doctest
	$(BIN)/cmake --preset $(if $(filter asan,$@),asan,tests) -DCMAKE_MAKE_PROGRAM=$(abspath $(BIN)/ninja) >/dev/null
	$(BIN)/cmake --build build/$(if $(filter asan,$@),asan,tests)
	$(BIN)/ctest --test-dir build/$(if $(filter asan,$@),asan,tests) --output-on-failure

# Ours and the peers on the public data sets, in the order of benchmarks/matrix.toml; goes on where it was stopped. It
# measures everything anew, into build/bench, beside the results that the pages show: those are extended and rewritten
# with RESULTS=benchmarks/results/systems.jsonl and make benchmark-docs. Peers run in environments of their own below
# .venv-peers, or in PEERS_PYTHON's. BENCH takes further options, for instance BENCH="--timeout-seconds 2100 -d Bibtex".
DATA ?= $(or $(LONGTAIL_DATA),../shared/data)
RESULTS ?= build/bench/systems.jsonl
bench: $(VENV)/.built
	$(BIN)/longtail bench benchmarks/matrix.toml --results $(RESULTS) -o build/bench --data-folder $(DATA) \
	    $(if $(PEERS_PYTHON),--peers-python $(PEERS_PYTHON),--peers-folder .venv-peers) $(BENCH)

# docs/benchmarks.md, its plots and the README's table are written from benchmarks/results; a test tells when they are old.
benchmark-docs: $(VENV)/.built
	$(BIN)/python scripts/write_benchmarks.py

# The documentation as a site, in site/; any dead link or unknown name is an error.
docs: .venv-docs/.ready
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict
.venv-docs/.ready: pyproject.toml
	$(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -c "import tomllib,subprocess,sys; e=tomllib.load(open('pyproject.toml','rb'))['project']['optional-dependencies']; subprocess.check_call([sys.executable,'-m','pip','install','-q',*e['docs']])"
	@touch $@

# A wheel as users get it: built, repaired, installed into an empty environment, tested from outside of this folder.
wheel:
	scripts/check-wheel $(PYTHON)

clean:
	rm -rf $(VENV) build
