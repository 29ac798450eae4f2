# Every target sets up what it needs in an environment of its own (.venv*), once, and again when requirements change.

PYTHON ?= python3
ARGS ?=

# Many short-lived processes: what is compiled once is kept, also where the surroundings say otherwise.
export PYTHONDONTWRITEBYTECODE :=

VENV := .venv
BIN := $(VENV)/bin
DEMO := .venv-demo
APPS := .venv-apps
LOCK := .venv-lock
PEERS := .venv-explorer
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check --no-deps
CODE := $(wildcard src tests bench gallery tools scripts apps docs/examples)
PACKAGES := appkit devices imagebot outreach qrlogin showcase

.DEFAULT_GOAL := help
.PHONY: help run demo test test-pythons check house format bench bench-short bench-explorer explore certificates mutate mutate-explored install-apps storm-mutants pooler docs lock clean
.PHONY: devices imagebot outreach qrlogin storm-devices storm-imagebot storm-outreach storm-qrlogin

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z -]+:.*## / { printf "  \033[1m%-15s\033[0m %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo '  Options go in ARGS, as in: make test ARGS="-k proxy -x"'

run: $(APPS)/.project ## Everything at once: four applications, the usual code beside raceproof's, buttons that cause trouble
	@$(APPS)/bin/showcase $(ARGS)

demo: $(DEMO)/.project ## One race in a terminal, with and without raceproof; ready sooner
	@$(DEMO)/bin/raceproof demo $(ARGS)

devices: $(APPS)/.project ## The app for commands to MQTT nodes, with simulated nodes; see apps/devices
	@$(APPS)/bin/devices serve --simulate 20 $(ARGS)

imagebot: $(APPS)/.project ## The Telegram bot that sells pictures, with simulators; see apps/imagebot
	@$(APPS)/bin/imagebot serve --simulate $(ARGS)

outreach: $(APPS)/.project ## The podcast pipeline, on feeds that ship with it; see apps/outreach
	@$(APPS)/bin/outreach serve --simulate $(ARGS)

qrlogin: $(APPS)/.project ## Telegram login by QR code, with a simulated Telegram; see apps/qrlogin
	@$(APPS)/bin/qrlogin serve --simulate $(ARGS)

storm-devices storm-imagebot storm-outreach storm-qrlogin: storm-%: $(APPS)/.project ## An app under load while it is killed; SHORT=1 for a minute of it
	$(APPS)/bin/$* storm $(if $(SHORT),--short) $(ARGS)

test: $(VENV)/.project ## Run the tests against real servers, which they start themselves
	$(BIN)/python -m pytest -n 2 --dist worksteal $(ARGS)

test-pythons: ## Run the tests on every supported Python that is installed here, by pyenv or on the PATH
	$(PYTHON) tools/test_pythons.py $(ARGS)

check: $(VENV)/.project ## Lint, formatting, types, who may import what, and how much there is to read
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy $(CODE)
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/check_apps.py
	$(BIN)/python tools/house.py

house: $(VENV)/.project ## Count what a newcomer has to read, and fail where it has grown
	$(BIN)/python tools/house.py -v

format: $(VENV)/.project ## Format the code and fix what lint can fix
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(VENV)/.project ## Measure us beside the raw drivers and our peers
	$(BIN)/python -m bench $(ARGS)

bench-short: $(VENV)/.project ## The same in about seven minutes, with less precise figures and fewer peers
	$(BIN)/python -m bench --short $(ARGS)

explore: $(VENV)/.project ## Try every schedule of the promise packs, up to their limits, and print the certificates
	$(BIN)/python -m tests.promises.packs $(ARGS)

certificates: $(VENV)/.project ## All of that, stores compared and guards broken: writes docs/certificates.md, in about 5 minutes
	$(BIN)/python -m tools.certify $(ARGS)

bench-explorer: $(PEERS)/.project ## How many schedules a second, beside what else explores Python
	$(PEERS)/bin/python -m bench.explorer $(ARGS)

mutate: $(VENV)/.project ## Break each guard on purpose and see a test turn red
	$(BIN)/python -m tools.mutate $(ARGS)

mutate-explored: $(VENV)/.project ## The same, seen by the explorer instead of by tests
	$(BIN)/python -m tools.explore_mutants $(ARGS)

install-apps: $(VENV)/.project ## Each app into an empty environment, from wheels, and its command started
	$(BIN)/python -m tools.install_apps $(ARGS)

storm-mutants: $(VENV)/.project ## Plant each known bug in an app and see its storm find it; ARGS="--app devices --only late"
	$(BIN)/python -m tools.storm_mutants $(ARGS)

pooler: $(VENV)/.project ## Every decision behind a real PgBouncer, which has to be installed
	$(BIN)/python -m pytest tests/integrations/pooler/pgbouncer.py $(ARGS)

docs: $(VENV)/.project ## Write the generated parts of the documentation
	$(BIN)/python -m tools.generate_docs $(ARGS)
	$(BIN)/python -m tools.generate_gallery $(ARGS)

lock: $(LOCK)/.requirements ## Pin the newest versions: requirements/*.in to *.txt
	for name in demo apps test explorer lock; do \
	  $(LOCK)/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --fork-strategy fewest \
	    --generate-hashes --no-emit-index-url --no-annotate --no-header \
	    requirements/$$name.in --output-file requirements/$$name.txt; \
	done

clean: ## Remove environments, caches and builds
	rm -rf .venv* build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find $(CODE) -name __pycache__ -prune -exec rm -rf {} +

# Stamps: the pinned packages, then the project itself.

$(VENV)/.requirements: requirements/test.txt
$(DEMO)/.requirements: requirements/demo.txt
$(APPS)/.requirements: requirements/apps.txt
$(LOCK)/.requirements: requirements/lock.txt
$(PEERS)/.requirements: requirements/explorer.txt

%/.requirements:
	$(PYTHON) -m venv --clear $*
	$*/bin/python $(PIP_INSTALL) --require-hashes --requirement $^
	@touch $@

$(VENV)/.project $(APPS)/.project: ALSO := $(PACKAGES:%=--editable apps/%)
$(VENV)/.project $(APPS)/.project: $(PACKAGES:%=apps/%/pyproject.toml)

%/.project: %/.requirements pyproject.toml
	$*/bin/python $(PIP_INSTALL) --no-build-isolation --editable . $(ALSO)
	@touch $@
