# make demo   train two looped transformers, compare them, draw what happened
# make test   the whole test suite
# Both set up a virtual environment first where it is missing.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test lint types check clean

demo: $(VENV)/base
	$(BIN)/torsor demo

test: $(VENV)/test
	$(BIN)/python -m pytest -n 2 --jaxtyping-packages=torsor,beartype.beartype

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev
	$(BIN)/basedpyright --pythonpath $(BIN)/python

check: test lint types

clean:
	rm -rf $(VENV) build dist

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# torch first and by its pin: a range would fetch the newest release, with gigabytes of CUDA
$(VENV)/base: pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) torch
	$(INSTALL) -e .
	touch $@

$(VENV)/test: $(VENV)/base
	$(INSTALL) -e '.[test]'
	touch $@

$(VENV)/dev: $(VENV)/test
	$(INSTALL) -e '.[dev]'
	touch $@
