# make demo | test | check | fuzz | testbed: each makes .venv by itself.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
SEED ?= 1
SCENARIO ?= demo_fabric
LEVEL ?= rich
FUZZ_SECONDS ?= 300
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ringscope-ready
TORCH := $(VENV)/testbed/.ready
export NUMBA_CACHE_DIR := $(CURDIR)/$(VENV)/numba-cache

.PHONY: demo test check fuzz testbed testbed-short format lock clean

demo: $(STAMP)
	$(BIN)/python -m bench.demo $(SCENARIO) --seed $(SEED) --level $(LEVEL) $(ARGS)

test: $(STAMP)
	$(BIN)/python -m pytest -q -n auto --ignore tests/testbed

check: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

# The fuzzer is in no lock file: nothing else needs it. What it found goes on in the next run.
fuzz: $(STAMP)
	test -d $(VENV)/atheris || $(BIN)/python -m pip install -q --target $(VENV)/atheris atheris==3.0.0
	NUMBA_DISABLE_JIT=1 PYTHONPATH=$(VENV)/atheris $(BIN)/python -m tests.fuzz out/fuzz \
	  -max_total_time=$(FUZZ_SECONDS) $(ARGS)

# Real programs over a real switch, see CONTRIBUTING.md; alone on the machine, since ranks share it.
testbed: $(STAMP) $(TORCH)
	$(BIN)/python bench/testbed.py $(ARGS)

testbed-short: $(STAMP) $(TORCH)
	$(BIN)/python -m pytest -q tests/testbed

format: $(STAMP)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

# A fresh environment from pyproject.toml alone; what pip picks becomes constraints.txt.
lock:
	rm -rf $(VENV)/lock
	$(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/pip install -q -e '.[dev]'
	{ echo '# Every package of an environment made by `pip install -e .[dev]`, pinned; made by `make lock`.'; \
	  $(VENV)/lock/bin/pip freeze --exclude-editable; } > constraints.txt
	rm -rf $(VENV)/lock

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist

$(STAMP): pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "no python3 found: apt-get install python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "ringscope needs Python 3.11 or newer; $(PYTHON) is `$(PYTHON) -V 2>&1`" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "Python's venv module is missing: apt-get install python3-venv" >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

# Only programs of the testbed need torch. The local version says CPU: any other build is some GB.
$(TORCH): $(STAMP)
	test -x $(VENV)/testbed/bin/python || $(PYTHON) -m venv $(VENV)/testbed
	$(VENV)/testbed/bin/python -m pip install -q --disable-pip-version-check torch==2.13.0+cpu numpy
	touch $@
