# make demo | test | test-fast | evidence | check | bench | fuzz | mutants. The first call sets up .venv with whatever Python >= 3.11 is on the PATH.

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast evidence check lint docs bench fuzz mutants clean
.DELETE_ON_ERROR:

BIN := .venv/bin
CODE := accelsim tests examples
RUN := run resnet50 --on tpu-v1 --out reports/resnet50-tpu-v1
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
TESTS := $(ONE_THREAD) $(BIN)/pytest -n 2 --dist loadgroup --no-loadscope-reorder
# The newest of these that runs and can make a virtual environment; PYTHON=... on the command line takes another.
CANDIDATES := python3.14 python3.13 python3.12 python3.11 python3 python
USABLE := import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for each in $(CANDIDATES); do $$each -c '$(USABLE)' >/dev/null 2>&1 && { echo $$each; break; }; done)

help:
	@echo 'make demo    run ResNet-50 on a TPU v1; the report goes to reports/resnet50-tpu-v1'
	@echo 'make test    the gate: every cheap test, and a tenth of the dear ones; eight minutes on two cores'
	@echo 'make test-fast  the cheapest tests of every part, in a minute'
	@echo 'make evidence  everything that is slow and rarely breaks; goes on where it was stopped; writes reports/evidence.md and tests/costs.txt'
	@echo 'make check   formatter, linter, type checker, documentation, then the gate: what a merge must pass'
	@echo 'make docs    the documentation as a site: site/index.html'
	@echo 'make bench   how fast the simulator itself is'
	@echo 'make fuzz    many mutated and random inputs, none of which may end in a traceback; takes an hour'
	@echo 'make mutants faults planted in engines, program, machine and account, and how many of them the tests find; takes an hour'

demo: .venv/.installed
	@echo 'accelsim $(RUN)'
	@$(BIN)/accelsim $(RUN)
	@echo
	@echo 'Now try:  ./accelsim.sh run resnet50 --on tpu-v1     (or, once per shell:  . .venv/bin/activate  and then  accelsim ...)'

test: .venv/.installed-dev
	$(TESTS) --tier gate

test-fast: .venv/.installed-dev
	$(TESTS) --tier fast

evidence: .venv/.installed-evidence
	$(ONE_THREAD) nice -n 5 $(BIN)/python -m tests.gate.evidence

lint: .venv/.installed-dev
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy

# NO_MKDOCS_2_WARNING: of the theme, about a successor of MkDocs.
docs: .venv/.installed-dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

check: lint docs test

bench: .venv/.installed-dev
	$(ONE_THREAD) $(BIN)/pytest tests/bench -o addopts=-q -o python_files='bench_*.py test_*.py'

fuzz: .venv/.installed-dev
	$(ONE_THREAD) $(BIN)/python -m tests.fuzz all

mutants: .venv/.installed-dev
	$(ONE_THREAD) nice -n 15 $(BIN)/python -m tests.mutants

clean:
	rm -rf site .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks .coverage .mutants.json .evidence.json

# The stamp is made last, so an interrupted set-up is done again; it is out of date when pyproject.toml changes.
.venv/.installed: pyproject.toml
	@test -n '$(PYTHON)' || { echo 'error: no usable Python on the PATH; expected 3.11 or newer with the modules venv and ensurepip (try: make PYTHON=/path/to/python)' >&2; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

.venv/.installed-dev: .venv/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

# For tests that run networks on PyTorch itself: 2 GB with its libraries for GPUs.
.venv/.installed-evidence: .venv/.installed-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'torch>=2.13'
	@touch $@
