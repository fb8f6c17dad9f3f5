# make demo   train two looped transformers, compare them, draw what happened
# make test   the whole test suite
# make docs   the documentation site, in build/docs
# They set up a virtual environment first where it is missing.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.PHONY: demo test lint types docs check clean

demo: $(VENV)/base
	$(BIN)/torsor demo

test: $(VENV)/test
	$(BIN)/python -m pytest -n 2 --jaxtyping-packages=torsor,beartype.beartype

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev
	$(BIN)/basedpyright --pythonpath $(BIN)/python

docs: $(VENV)/dev
	$(BIN)/sphinx-build -q -W --keep-going -b html docs build/docs

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
