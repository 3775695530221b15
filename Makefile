# Everything runs in .venv. It is created from the hashed lock on first use, and updated when the lock changes.

PYTHON ?= $(shell command -v python3.11 || command -v python3.12 || command -v python3.13 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
PY     := $(BIN)/python
KEY    := $(shell cat lock/dev.txt pyproject.toml | cksum | tr ' ' '-')
READY  := $(VENV)/ready-$(KEY)
E2E    := .venv-e2e
E2E_KEY := $(shell cat lock/e2e.txt | cksum | tr ' ' '-')
WEB    := .venv-web
WEB_KEY := $(shell cat lock/web.txt pyproject.toml | cksum | tr ' ' '-')
ifndef SEED
SEED   := $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
endif
STRESS_MINUTES ?= 40
# One more than the cores: about a third of a schedule is waiting.
STRESS_WORKERS ?= 3
# More than two: many tests wait for the processes that they start.
WORKERS ?= 4
COMPILE = $(PY) -m uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-emit-find-links --no-header \
          --python-version 3.11 pyproject.toml

.DEFAULT_GOAL := help
.PHONY: help demo test check promises bench eval stress lock web test-web

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) ## show a session with a scripted model; no account, no network
	@$(PY) -m holdfast demo

test: $(READY) ## run the tests on two cores, with WORKERS=4 processes
	@$(PY) -m pytest -n $(WORKERS) --dist worksteal -q --inline-snapshot=disable

check: $(READY) ## format, lint, types, layers, unused dependencies, locks
	@$(PY) -m ruff format --check .
	@$(PY) -m ruff check .
	@$(PY) -m mypy
	@$(PY) -m pytest -q tests/test_layers.py
	@$(PY) -m deptry src
	@$(PY) -m dev.check_lock

promises: $(READY) ## print the tests that prove each promise in docs/promises.md
	@$(PY) -m dev.promises

bench: $(READY) ## run the benchmarks and write docs/performance.md; CHECK=1 compares with the recorded ratios; NAMES="server cli": only these
	@$(PY) -m dev.bench $(if $(CHECK),--check) $(NAMES)

eval: $(READY) ## run 20 small tasks with a model and check them: make eval MODEL=provider/model [COMPARE=old.json]
	@$(PY) -m dev.eval --model "$(MODEL)" $(if $(COMPARE),--compare "$(COMPARE)") $(ARGS)

stress: $(READY) ## run the long tests for STRESS_MINUTES=40 on two cores, and the property tests with random examples
	@$(MAKE) --no-print-directory $(E2E)/ready-$(E2E_KEY) || echo "schemathesis cannot be installed here: its part is left out"
	@echo "seed $(SEED); to repeat: make stress SEED=$(SEED)"
	@HOLDFAST_TEST_STRESS_MINUTES=$(STRESS_MINUTES) HOLDFAST_TEST_SEED=$(SEED) HOLDFAST_TEST_ROUND=$(ROUND) \
	  HOLDFAST_TEST_SCHEMATHESIS=$(CURDIR)/$(E2E)/bin/schemathesis \
	  $(PY) -m pytest -n $(STRESS_WORKERS) -q --dist worksteal -m "stress or hypothesis" --inline-snapshot=disable \
	  --hypothesis-profile=random --hypothesis-seed=$(SEED) $(ARGS)

web: web/node_modules/ready ## build the web page from web/ into src/holdfast/web/static; needs node 18 or newer
	@cd web && npx --no-install tsc --noEmit && node build.mjs

test-web: $(WEB)/ready-$(WEB_KEY) ## test the web page in Chromium; tests whose programs are not installed are skipped
	@command -v npm >/dev/null && $(MAKE) --no-print-directory web/node_modules/ready || echo "npm is not installed: the tests that need it are skipped"
	@$(WEB)/bin/python -m pytest -n 2 -q --inline-snapshot=disable tests/web

lock: $(READY) ## rebuild the lock files after a change of dependencies in pyproject.toml
	@$(PY) -m uv --version >/dev/null 2>&1 || $(PY) -m pip install --quiet uv
	@$(COMPILE) --group dev -o lock/dev.txt
	@$(COMPILE) --group e2e --constraint lock/dev.txt -o lock/e2e.txt
	@$(COMPILE) --group oracles --constraint lock/dev.txt -o lock/oracles.txt
	@$(COMPILE) --group dev --group web --constraint lock/dev.txt -o lock/web.txt

$(READY):
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Holdfast needs Python 3.11 or newer; name one: make PYTHON=/path/to/python3")'
	@test -x $(PY) || "$(PYTHON)" -m venv $(VENV)
	@$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r lock/dev.txt
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@rm -f $(VENV)/ready-* && touch $@

$(E2E)/ready-$(E2E_KEY):
	@test -x $(E2E)/bin/python || "$(PYTHON)" -m venv $(E2E)
	@$(E2E)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r lock/e2e.txt
	@rm -f $(E2E)/ready-* && touch $@

$(WEB)/ready-$(WEB_KEY):
	@test -x $(WEB)/bin/python || "$(PYTHON)" -m venv $(WEB)
	@$(WEB)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r lock/web.txt
	@$(WEB)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@rm -f $(WEB)/ready-* && touch $@

web/node_modules/ready: web/package-lock.json
	@cd web && npm ci --silent --no-audit --no-fund && touch node_modules/ready
