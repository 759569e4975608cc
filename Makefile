# Everything works from a fresh clone: the first target used makes .venv from the versions in constraints.txt.
PYTHON ?= python3
WORKERS ?= 2
BIN := .venv/bin
READY := .venv/.ready

.PHONY: help install demo check format test test-slow clean
help:
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:.*## /\t/' | expand -t 12

# setuptools comes first and the build is not isolated, so that it is pinned like everything else.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt setuptools
	$(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt --no-build-isolation -e '.[dev]'
	@touch $@

install: $(READY) ## the environment in .venv

demo: $(READY) ## a first look in three minutes: a table, and a page to open
	$(BIN)/rwf demo

check: $(READY) ## format, lint, types, import rule
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY) ## put the format right, and what the linter can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: $(READY) ## the suite without the slow tests
	$(BIN)/pytest -q -n $(WORKERS) --dist worksteal

test-slow: $(READY) ## the slow tests
	$(BIN)/pytest -q -n $(WORKERS) --dist worksteal -m slow

clean: ## remove .venv and all caches
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
