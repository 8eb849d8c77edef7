.DEFAULT_GOAL := help
PY := .venv/bin/python
ROWS ?= 1000
SETS ?= 100
N ?= 5000
BACKEND ?= kube-apiserver
# Tests wait for servers and processes: twice as many workers as there are cores keep both busy.
WORKERS ?= 4
# What the next clone can use as well.
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/ctrlruntime
# Programs that tests start are not compiled again each time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup run test checks lint types check-generated pytest envtest-assets test-real requirements scenarios mutants \
        generate manifests build-installer wheel bench-tenancy bench-runtime bench-cloud bench-cosmos bench-stalls bench clean

help: ## Show what there is to make
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 20

setup: ## Make the virtual environment from the lock file
	@hack/setup.sh

run: setup ## See it work: embedded API server, a table of 50 rows, the manager, a live view
	@$(PY) -m manager demo $(RUN_ARGS)

test: setup ## Every check and every test
	@$(MAKE) --no-print-directory -j 2 pytest checks

checks: lint types check-generated ## Every check that is no test

lint: setup ## Style and layering
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/lint-imports

types: setup ## Type check, strict
	@.venv/bin/mypy --cache-dir $(CACHE)/mypy ctrlruntime apis internal manager benchmarks tests

check-generated: setup ## Fail when generated manifests do not match the code
	@$(PY) -m manager manifests --check
	@$(PY) -m tests.docs.reference --check
	@hack/install-yaml.sh --check

# API servers, etcd and kubectl look for garbage less often: a tenth of their time.
pytest test-real: export GOGC = 400

pytest: setup ## The test suite (installs MariaDB, kubectl and real API servers where they are missing)
	@hack/envtest-assets.sh all
	@hack/mariadb.sh
	@hack/kubectl.sh
	@# One process compiles what otherwise all workers would, each for itself, at the same moment.
	@.venv/bin/pytest --collect-only -qq $(PYTEST_ARGS) >/dev/null || true
	@.venv/bin/pytest -n $(WORKERS) --dist loadgroup $(PYTEST_ARGS)

envtest-assets: ## Provision the real API servers (cached; the first time takes about 20 minutes)
	@hack/envtest-assets.sh all

test-real: setup envtest-assets ## The whole tenancy suite on the real kube-apiserver
	@hack/mariadb.sh
	@.venv/bin/pytest -n $(WORKERS) --dist loadgroup tests/tenancy --backend kube-apiserver $(PYTEST_ARGS)

requirements: setup envtest-assets ## The requirement catalogue: ID, priority, tests, outcome
	@hack/mariadb.sh
	@hack/kubectl.sh
	@$(PY) -m tests.catalogue

scenarios: setup envtest-assets ## The scenarios of the cloud system: ID, priority, tests, outcome
	@hack/kubectl.sh
	@$(PY) -m tests.catalogue --scenarios

mutants: setup ## Put one defect at a time into a copy; each must be caught by the test of its ID (part of the test suite)
	@$(PY) -m tests.mutants

wheel: setup ## Build the wheel of ctrlruntime into dist/
	@.venv/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

generate manifests: setup ## Write config/, dist/install.yaml and the tables of docs/packages from code
	@$(PY) -m manager manifests
	@$(PY) -m tests.docs.reference
	@hack/install-yaml.sh

build-installer: generate ## dist/install.yaml: everything an installation needs, in one file

bench-tenancy: setup ## Count requests for ROWS tenants; the last line is one JSON object
	@hack/mariadb.sh
	@$(PY) -m benchmarks.tenancy --rows $(ROWS)

bench-runtime: setup ## Reconcile N objects by 10 workers on BACKEND; PEER=kopf runs kopf beside; one line of JSON
	@hack/envtest-assets.sh all
	@$(PY) -m benchmarks.runtime --backend $(BACKEND) -n $(N) $(if $(PEER),--peer $(PEER))

bench-cloud: setup ## What N Instances cost, and whether the limits of their tasks hold; one line of JSON
	@$(PY) -m benchmarks.cloud -n $(if $(filter file,$(origin N)),1000,$(N))

bench-cosmos: setup ## SETS sets of five nodes at rest: writes, questions, length of reconciles; the last line is one JSON object
	@$(PY) -m benchmarks.cosmos --sets $(SETS)

bench-stalls: setup ## How long the manager's event loop stands still while ROWS tenants converge
	@$(PY) -m benchmarks.stalls --rows $(ROWS)

bench: setup ## Figures of the parts: queue, cache, controller, proxy, nodes, applies
	@for part in queue cache controller proxy nodes applies; do echo "== $$part"; $(PY) -m benchmarks.$$part; done

clean: ## Remove what was made, not the caches outside
	@rm -rf .venv .run .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist/*.whl
