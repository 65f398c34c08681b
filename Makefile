# Everything that people and CI run. Every target works in a clean clone: it creates .venv first.
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
# The first interpreter that runs (a version manager's shim may exist and still fail).
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null \
	&& echo $$p && break; done)

# Python keeps what it compiled, whatever the environment says: many tests start a process, and
# each would compile the whole product.
unexport PYTHONDONTWRITEBYTECODE

# One process more than cores, because some tests wait for other processes. One that crashes ends
# the run, which may not end with another one in its place.
CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
PYTEST = $(BIN)/python -m pytest --numprocesses $$(( $(CORES) < 4 ? $(CORES) + 1 : 4 )) \
	--dist loadfile --no-loadscope-reorder --max-worker-restart 0

.PHONY: help venv demo test lint types layers pytest proofs engines test-engines browser interop docs format bench peers scorecard clean

help:  ## List the targets.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

venv: $(VENV)/installed  ## Create .venv with the pinned dependencies.

$(VENV)/installed: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 to 3.13 is needed and none was found. Install one, or run 'make PYTHON=/path/to/python3'."; exit 3; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dev]"
	@touch $@

demo: venv  ## Preprocess sample photographs and texts, train small networks, list what was written.
	$(BIN)/shardmill demo

test: lint types layers pytest  ## Run everything that CI runs.

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m tests.house.words

types: venv
	$(BIN)/mypy

layers: venv
	$(BIN)/lint-imports

pytest: venv
	$(PYTEST)

proofs: venv  ## Run the long tests: more kills, options, services and examples, fresh installations (two hours on two cores).
	$(PYTEST) -m "proof or hypothesis and not engine and not interop and not browser" --hypothesis-profile proofs --timeout 1800

engines: venv  ## Fetch Flink, Prism, Spark and storage servers for the tests, into .engines.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[dataflow]"
	$(BIN)/python -m tests.engines.fetch
	$(BIN)/python -m tests.servers.fetch

# One process: a Flink cluster and its workers keep two cores busy.
test-engines: venv  ## Run the tests on the engines and servers that could be fetched.
	$(BIN)/python -m pytest -m engine --timeout 1800

# Chromium of the system, or the one that Playwright fetches.
browser: venv  ## Run the tests of pages in Chromium: keyboard, screen reader, narrow and wide.
	command -v chromium || command -v google-chrome || $(BIN)/playwright install chromium
	$(BIN)/python -m pytest -m browser

# Of its own: PyTorch brings CUDA along (7 GB on the disk), and nothing else needs these packages.
.interop/installed: pyproject.toml constraints.txt tests/interop/requirements.txt
	$(PYTHON) -m venv .interop
	.interop/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --requirement tests/interop/requirements.txt --editable ".[dev]"
	@touch $@

interop: .interop/installed peers  ## Read sets with PyTorch, JAX, Grain and others, which are installed into .interop.
	.interop/bin/python -m pytest -m interop

# Of its own, so that no test depends on what a site needs.
.docs/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .docs
	.docs/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[docs]"
	@touch $@

# Not --quiet: it drops the warnings that the strict mode counts.
docs: .docs/installed  ## Build the documentation site into site/; fails for a dead link or an undocumented public name.
	NO_MKDOCS_2_WARNING=1 .docs/bin/mkdocs build

format: venv  ## Format and fix what ruff can fix.
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: venv  ## Measure memory, near duplicates, and shardmill beside its peers (hours).
	$(BIN)/python -m benchmarks

# Outside of .venv: they ask for other versions of the same libraries.
peers: venv  ## Install the peers into .peers (about 12 GB on the disk).
	$(BIN)/python -m benchmarks.peers

scorecard: venv  ## Measure shardmill beside its peers, and write docs/scorecard.md (hours).
	$(BIN)/python -m benchmarks.scorecard

clean:  ## Remove .venv, caches and demo output.
	rm -rf $(VENV) .docs .interop .peers site .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache *.egg-info build shardmill-demo
