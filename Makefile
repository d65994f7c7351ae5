# Everything needs python3 (3.11 or newer) and make; the rest is installed into .venv, once.

PYTHON ?= python3
UV ?= uv
PYTEST_ARGS ?=
SEED ?= 1
MINUTES ?= 60

BIN := .venv/bin
INSTALLED := .venv/.installed
AMQP_INSTALLED := .venv/.installed-amqp
# The extras of which there are wheels. That of AMQP is compiled, which takes what not all have.
WHEELS := dev discover kafka mcp mqtt nats spark tracing
PIN := --universal --generate-hashes --no-header --quiet
PIP_INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-input

.DEFAULT_GOAL := help
.PHONY: help install demo serve test soak fuzz bench lint format openapi schema rooms lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(INSTALLED) ## Create .venv with exactly what requirements.lock pins; with a compiler, also AMQP
	@$(MAKE) --silent $(AMQP_INSTALLED)

demo: $(INSTALLED) ## Show a federation at work; STAY=1 keeps it running
	@$(BIN)/concord demo $(if $(filter 1,$(STAY)),--stay)

serve: $(INSTALLED) ## Run one node on http://127.0.0.1:8080
	@$(BIN)/concord serve

# One run, so that pytest's last line counts every test. Four workers, since tests of processes and
# brokers wait more than they work: each holds a Spark session at most. The tests of one file stay on
# one worker, which starts what they share once. Files are taken in the order of tests/conftest.py.
test: $(INSTALLED) ## Run all tests; PYTEST_ARGS='-m "not slow"' leaves the slow ones out
	@$(BIN)/python -m pytest -n 4 --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

soak: $(INSTALLED) ## Hold federations under faults to their promises, MINUTES=60 long; SEED=7 replays one
	@$(BIN)/python -m tests.faults.soak $(if $(filter command environment,$(firstword $(origin SEED))),\
		--seed $(SEED),--minutes $(MINUTES))

fuzz: $(INSTALLED) ## Look for errors of the server with 100,000 requests and odd bytes (half an hour); also SEED=2
	@$(BIN)/python -m tests.fuzz.nodefuzz --seed $(SEED)
	@$(BIN)/python -m tests.fuzz.schemathesisrun
	@$(BIN)/python -m tests.fuzz.parsers --seed $(SEED)

bench: $(INSTALLED) ## Measure what docs say about speed
	@$(BIN)/python -m benchmarks

lint: $(INSTALLED) ## Check style, types, the direction of imports, and that every name is used
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/vulture

format: $(INSTALLED) ## Rewrite the code in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

openapi: $(INSTALLED) ## Write docs/openapi.json anew from the operations and the default model
	@$(BIN)/python -m tests.openapidocument

schema: $(INSTALLED) ## Write catalog/store/schema.sql anew from the migrations
	@$(BIN)/python -m tests.schemadump

rooms: $(INSTALLED) ## Draw the rooms in docs/architecture.md anew from the imports
	@$(BIN)/python -m tests.roomsdrawing

lock: ## Pin the dependencies anew (needs uv); LOCK_ARGS=--upgrade raises them
	$(UV) pip compile pyproject.toml $(addprefix --extra ,$(WHEELS)) $(PIN) \
		--no-emit-package concord-client --output-file requirements.lock $(LOCK_ARGS)
	@$(PYTHON) -c 'import tomllib; \
		print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["amqp"])' | \
		$(UV) pip compile - --constraint requirements.lock $(PIN) \
			--output-file requirements-amqp.lock $(LOCK_ARGS)

clean: ## Remove .venv and every cache; data directories are left alone
	rm -rf .venv .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	rm -rf build dist artifacts metastore_db spark-warehouse derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): requirements.lock pyproject.toml deploy/client/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Concord needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1)." \
			"Name another one with: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "$(PYTHON) cannot create virtual environments. Install what is missing with:" \
			"apt-get install python3-venv" >&2; exit 1; }
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear .venv
	@echo "Installing what requirements.lock pins into .venv; this is done once, in a few minutes."
	@$(PIP_INSTALL) --use-pep517 --require-hashes -r requirements.lock
	@$(PIP_INSTALL) --no-deps --no-build-isolation -e deploy/client -e .
	@touch $@

# Whoever has no compiler does without it; all else works.
$(AMQP_INSTALLED): requirements-amqp.lock $(INSTALLED)
	@$(BIN)/python -c 'import proton' 2>/dev/null || \
		echo "Compiling the library for AMQP 1.0; this is done once, in a minute or two."
	@if $(PIP_INSTALL) --use-pep517 --require-hashes -r requirements-amqp.lock 2>.venv/amqp.log; then \
		touch $@; \
	else \
		echo "Went on without AMQP 1.0, whose library could not be fetched or compiled (see .venv/amqp.log)." \
			"Install what it takes with: apt-get install gcc python3-dev; then run: make install"; \
	fi
