# make demo   train two looped transformers, compare them, draw what happened
# make test   the whole test suite
# make docs   the documentation site, in build/docs
# make locked an environment of the files that requirements.lock names by their SHA-256, and of no others
# make lock   write requirements.lock anew, from what pip would install by constraints.txt
# make audit  compare what is installed with public lists of known weaknesses
# They set up a virtual environment first where it is missing.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
INSTALL := $(PIP) -c constraints.txt

.PHONY: demo test lint types docs check locked lock audit clean

demo: $(VENV)/base
	$(BIN)/torsor demo

test: $(VENV)/test
	$(BIN)/python -m pytest -n 2 --dist worksteal --jaxtyping-packages=torsor,beartype.beartype

lint: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/dev
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	@echo "the types of every public symbol:"
	@PATH="$(abspath $(BIN)):$$PATH" basedpyright --verifytypes torsor --ignoreexternal > $(VENV)/verified-types \
		|| { sed -n '/^Symbols used/,$$p' $(VENV)/verified-types; exit 1; }
	@grep '^Type completeness' $(VENV)/verified-types

docs: $(VENV)/dev
	$(BIN)/sphinx-build -q -W --keep-going -b html docs build/docs

check: test lint types

# wheels only, since a source archive runs its own code when it is built; ours is built by hatchling and editables, both
# from the lock: a build environment of pip's own would fetch them unchecked
locked: | $(BIN)/python
	$(PIP) --require-hashes --no-deps --only-binary :all: -r requirements.lock
	$(PIP) --no-deps --no-build-isolation -e .
	$(BIN)/python -m pip check
	touch $(VENV)/base $(VENV)/test $(VENV)/dev

lock: | $(BIN)/python
	mkdir -p build
	$(INSTALL) --dry-run --ignore-installed --only-binary :all: --report build/installed.json -e '.[dev]' editables
	$(BIN)/python .ci/lock.py build/installed.json > build/requirements.lock
	mv build/requirements.lock requirements.lock

# by public versions: one with a local part, as torch's, is on no list; strict, since a list that nobody could read is no clearance
audit:
	$(PYTHON) -m venv build/audit
	build/audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit
	sed 's/ --hash.*//; s/+[a-z0-9]*$$//' requirements.lock > build/audit/requirements.txt
	build/audit/bin/pip-audit --strict --disable-pip --no-deps --timeout 15 -r build/audit/requirements.txt

clean:
	rm -rf $(VENV) build dist

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

# torch first and by its pin: a range would fetch the newest release, with gigabytes of CUDA
$(VENV)/base: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing torch and torsor into $(VENV): a minute or two on a good network, in which pip says nothing"
	$(INSTALL) torch
	$(INSTALL) -e .
	touch $@

$(VENV)/test: $(VENV)/base
	$(INSTALL) -e '.[test]'
	touch $@

$(VENV)/dev: $(VENV)/test
	$(INSTALL) -e '.[dev]'
	touch $@
