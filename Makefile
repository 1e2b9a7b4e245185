# Everything is installed into .venv from requirements.lock; nothing outside this folder is changed.
PYTHON ?= python3
NEO4J_VERSION ?= 5.26.30
BIN := .venv/bin
.DEFAULT_GOAL := help

.PHONY: help
help:  ## Show this list.
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: .venv/.installed  ## Install everything into .venv; the other targets do it by themselves.

.venv/.installed: requirements.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "Python is missing: apt install python3 (or set PYTHON=...)"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Retold needs Python 3.11 or later and $(PYTHON) is `$(PYTHON) -V`: apt install python3.11 (or set PYTHON=...)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "Python's venv is missing: apt install python3-venv"; exit 1; }
	@$(PYTHON) -m venv .venv
	@echo "Installing what requirements.lock names into .venv, once ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock || { echo "Packages could not be installed: is the package index of pip reachable (pip config list), and the disk not full?"; exit 1; }
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: up
up: setup  ## Start everything: servers, migrations, demo data, projector; Ctrl-C stops it.
	@$(BIN)/retold up

.PHONY: demo
demo: setup  ## Show an outage of the graph, a replay and the verified result.
	@$(BIN)/retold demo

.PHONY: bench
bench: setup  ## Measure appending and projecting beside the same work written by hand.
	@$(BIN)/python -m benchmarks

.PHONY: neo4j
neo4j: setup  ## Start a real Neo4j Community without Docker (NEO4J_VERSION=...); needs Java and Maven.
	@$(BIN)/python -m app.infrastructure.embedded.neo4j --version $(NEO4J_VERSION)

.PHONY: test
test: setup  ## Run all tests on the embedded servers.
	@$(BIN)/python -m pytest $(PYTEST_ARGS)

.PHONY: check
check: format-check lint types imports test  ## Everything that must hold: format, lint, types, import contracts, tests.

.PHONY: format
format: setup  ## Lay the code out.
	@$(BIN)/ruff format

.PHONY: format-check
format-check: setup  ## Say which files `make format` would change.
	@$(BIN)/ruff format --check

.PHONY: lint
lint: setup  ## Look for mistakes.
	@$(BIN)/ruff check

.PHONY: types
types: setup  ## Check the types.
	@$(BIN)/mypy

.PHONY: imports
imports: setup  ## Check that imports run one way.
	@$(BIN)/lint-imports

# Every platform; what runs in a container is a part of the same versions.
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	--no-emit-index-url --no-emit-find-links pyproject.toml

.PHONY: lock
lock: setup  ## Resolve the newest versions that pyproject.toml allows, for every platform.
	$(COMPILE) --all-extras --upgrade --output-file requirements.lock
	$(COMPILE) --upgrade --constraint requirements.lock --output-file requirements-runtime.lock
