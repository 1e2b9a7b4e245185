# Everything is installed into .venv from requirements.lock; nothing outside this folder is changed.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: setup
setup: .venv/.installed

.venv/.installed: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Retold needs Python 3.11 or later: apt install python3 (or set PYTHON=...)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "Python's venv is missing: apt install python3-venv"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

.PHONY: lock
lock: setup  ## Resolve the newest versions that pyproject.toml allows, for every platform.
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras --generate-hashes --no-header \
		--no-emit-index-url --no-emit-find-links --upgrade pyproject.toml --output-file requirements.lock
