# The two commands of the README: `make demo` and `make test`. Each makes .venv and installs what it needs, once.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
MEMBERS := pyproject.toml core/pyproject.toml core/checkout.py $(wildcard plugins/*/pyproject.toml)

.PHONY: demo test lint docs clean

demo: $(VENV)/.demo-installed
	PATH="$(CURDIR)/$(BIN):$$PATH" CC="$${CC:-cc}" bash examples/digits/demo.sh

test: $(VENV)/.dev-installed
	$(BIN)/python -m pytest -n 2 $(PYTEST_ARGS)

lint: $(VENV)/.dev-installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy core/src plugins/*/src plugins/_template/*/src integrations/setuptools/src

docs: $(VENV)/.dev-installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo-installed: $(MEMBERS) | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e .
	touch $@

$(VENV)/.dev-installed: $(MEMBERS) | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	touch $@ $(VENV)/.demo-installed

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
