.DEFAULT_GOAL := help
PY := .venv/bin/python
PACKAGES := ctrlruntime apis internal manager benchmarks tests
ROWS ?= 1000
SETS ?= 100
N ?= 5000
# The manager's image, as config/manager names it; `make image push deploy IMG=...` uses another.
IMG ?= registry.example.com/ctrlruntime-manager:0.1.0
REVISION ?= $(shell git rev-parse HEAD 2>/dev/null)
CONTAINER_TOOL ?= $(if $(shell command -v podman),podman,docker)
BACKEND ?= kube-apiserver
# Tests wait for servers and processes: three workers a core keep both busy.
WORKERS ?= 6
# What bench-runtime compares processor time with: the last commit before the work on it. How often each runs.
BASE ?= 661b417
TURNS ?= 3
OBJECTS ?= 50000
PLANES ?= 2
MEMBERS ?= 4
# What the objects of `make rules` and the values of `make faults` are drawn by: another day, others.
SEED ?= $(shell date +%Y%m%d)
# Whose stories `make simulate` runs (all: tests/simulation/systems), how many seeds and from which on: other ones each time.
SYSTEM ?=
SEEDS ?= 1000
FIRST ?= $(shell date +%s)
# sample: of the heavy proofs a sample (tests/samples/plan.toml); ci: the sample, what changed and a rotating fifth; all: everything.
TESTS ?= sample
# What the next clone can use as well.
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/ctrlruntime
# Programs that tests start are not compiled again each time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup run hostile fuzz test test-busy quick durations coverage checks lint types check-generated pytest envtest-assets test-real requirements scenarios hazards mutants rules faults simulate sim-shards prove \
        generate manifests kinds build-installer image image-all push deploy wheel sbom chart bundle docs bench-tenancy bench-plan bench-shards bench-rollout bench-runtime bench-capacity bench-reload bench-cloud bench-cosmos bench-scale sim-scale bench-stalls bench clean

help: ## Show what there is to make
	@grep -hE '^[a-z][a-z -]*:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 20

setup: ## Make the virtual environment from the lock file
	@hack/setup.sh

run: setup ## See it work: embedded API server, a table of 50 rows, the manager, a live view; PLANES=2: scale mode with two data planes
	@$(PY) -m manager demo $(if $(filter file,$(origin PLANES)),,--planes $(PLANES) --rows 10) $(RUN_ARGS)

test: setup ## Every check and the tests, of heavy proofs a sample; TESTS=ci: and a rotating fifth; TESTS=all: every test
	@case "$(TESTS)" in sample|ci|all) ;; *) echo "TESTS is sample, ci or all, not '$(TESTS)'" >&2; exit 2 ;; esac
	@hack/about-tests.sh $(TESTS)
	@$(MAKE) --no-print-directory -j 2 pytest checks

test-busy: setup ## The same beside two processes that keep two cores busy: nothing may depend on the machine's speed
	@$(PY) hack/busy.py -- $(MAKE) --no-print-directory test TESTS=$(TESTS)

quick: setup ## What is nearest to what changed, within two minutes: style, types, tests by imports, seeded defects
	@$(PY) -m tests.samples $(QUICK_ARGS)

durations: setup ## Keep how long the tests of the last run took, by which the next run fills its workers
	@$(PY) -m tests.durations

checks: lint types check-generated ## Every check that is no test

lint: setup ## Style and layering
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/lint-imports

types: setup ## Type check, strict
	@.venv/bin/mypy --cache-dir $(CACHE)/mypy

check-generated: setup ## Fail when generated manifests do not match the code
	@$(PY) -m manager manifests --check
	@$(PY) -m tests.docs.reference --check
	@$(PY) -m hack.signatures --check
	@hack/install-yaml.sh --check

# API servers, etcd and kubectl look for garbage less often: a tenth of their time.
pytest test-real: export GOGC = 400

pytest: setup ## The tests without the other checks (installs MariaDB, PostgreSQL, Chromium, kubectl and real API servers where they are missing)
	@hack/envtest-assets.sh
	@hack/mariadb.sh
	@hack/postgres.sh
	@hack/chromium.sh
	@hack/kubectl.sh
	@# One process compiles what otherwise all workers would, each for itself, at the same moment.
	@test -e .run/compiled && [ $$(find $(PACKAGES) -name '*.py' -newer .run/compiled | wc -l) -lt 50 ] \
	    || .venv/bin/pytest --collect-only -qq $(PYTEST_ARGS) >/dev/null || true
	@mkdir -p .run && touch .run/compiled
	@.venv/bin/pytest -n $(WORKERS) --dist loadgroup --tests $(TESTS) $(if $(filter all,$(TESTS)),--release all) $(PYTEST_ARGS)

envtest-assets: setup ## Provision a real API server: from the cache, else the newest official build
	@hack/envtest-assets.sh

test-real: setup envtest-assets ## The whole tenancy suite on the real kube-apiserver
	@hack/mariadb.sh
	@hack/postgres.sh
	@.venv/bin/pytest -n $(WORKERS) --dist loadgroup tests/tenancy --backend kube-apiserver $(PYTEST_ARGS)

requirements: setup envtest-assets ## The requirement catalogue: ID, priority, tests, outcome
	@hack/mariadb.sh
	@hack/postgres.sh
	@hack/kubectl.sh
	@$(PY) -m tests.catalogue

scenarios: setup envtest-assets ## The scenarios of all systems: ID, priority, tests, outcome
	@hack/mariadb.sh
	@hack/postgres.sh
	@hack/kubectl.sh
	@$(PY) -m tests.catalogue --scenarios

hazards: setup envtest-assets ## What a bad day may not do: ID, priority, tests, outcome
	@hack/mariadb.sh
	@hack/postgres.sh
	@hack/kubectl.sh
	@$(PY) -m tests.catalogue --hazards

coverage: setup ## Measure what a sample of the tests reaches (COVERAGE_ARGS: other tests); not a gate
	@.venv/bin/python -m pip install -qq --disable-pip-version-check --require-hashes -r requirements-coverage.lock
	@rm -rf .run/coverage && mkdir -p .run/coverage
	@.venv/bin/coverage run -m pytest $(or $(COVERAGE_ARGS),-n $(WORKERS) --dist loadgroup --tests sample) || true
	@.venv/bin/coverage combine -q
	@.venv/bin/coverage report --skip-covered --skip-empty | tail -n $(or $(COVERAGE_LINES),40)

mutants: setup ## Put one defect at a time into a copy; each must be caught by the test of its ID (part of the test suite)
	@$(PY) -m tests.mutants

rules: setup ## Accepted means observed, in full: 500 objects of each kind; KIND=Tenant: of one; SEED=20261123: those objects again
	@echo "SEED=$(SEED)"
	@.venv/bin/pytest -n 2 tests/rules/test_accepted_means_observed.py --rule-examples 500 --hypothesis-seed=$(SEED) $(if $(KIND),-k '[$(KIND)]') $(PYTEST_ARGS)

faults: setup ## The rules of the design over every kind, in full: 500 objects a kind, 20 seeds a fault, every leaf of every spec (about half an hour)
	@echo "SEED=$(SEED)"
	@.venv/bin/pytest -n 2 tests/rules --rule-examples 500 --hypothesis-seed=$(SEED) $(PYTEST_ARGS)

simulate: setup ## The systems under drawn schedules and faults: SYSTEM=tenancy; SEEDS=1000; MINUTES=10: for so long; SEED=17: that one again
	@$(PY) -m tests.simulation.systems --system=$(SYSTEM) $(if $(filter file,$(origin SEED)),--first $(FIRST) $(if $(MINUTES),--minutes $(MINUTES),--seeds $(SEEDS)),--seed $(SEED))

sim-shards: setup ## Members of shards in virtual time, with crashes at every step (CHANGES=1000 KEYS=1000000 SEED=1); JSON
	@$(PY) -m tests.sharding.simulation $(if $(CHANGES),--changes $(CHANGES)) $(if $(KEYS),--keys $(KEYS)) $(if $(filter file,$(origin SEED)),,--seed $(SEED))

prove: setup ## Every state of small worlds around the pure deciders, by breadth and by depth (PROVE=queue: of one); JSON
	@$(PY) -m tests.prove $(if $(PROVE),"$(PROVE)")

wheel: setup ## Build the distributions into dist/, dated by the last commit
	@for folder in . distributions/manager distributions/envtest; do \
	  (cd $$folder && SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} $(CURDIR)/$(PY) -m hatchling build -d $(CURDIR)/dist \
	    $$([ $$folder != distributions/envtest ] || echo -t wheel)) || exit; done

sbom: setup ## Write the manager's bill of materials (CycloneDX), dated by the last commit, into dist/
	@SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)} hack/sbom.sh

chart: setup ## Package the Helm chart, with its CRDs and rights, into dist/
	@hack/chart.sh

bundle: setup ## Write the OLM bundle into dist/bundle
	@hack/bundle.sh

docs: setup ## Build the documentation site, strictly, into dist/site
	@hack/site.sh

generate manifests: setup ## Write config/, dist/install.yaml, the dashboards and the tables of docs/packages from code
	@$(PY) -m manager manifests
	@$(PY) -m tests.docs.reference
	@$(PY) -m hack.signatures
	@$(PY) -m hack.dashboards
	@hack/install-yaml.sh

kinds: setup envtest-assets ## Write ctrlruntime/kinds, the typed built-in kinds, from what the newest real API server describes
	@$(PY) -m hack.kinds
	@.venv/bin/ruff check --quiet --select I --fix-only ctrlruntime/kinds
	@.venv/bin/ruff format --quiet ctrlruntime/kinds

build-installer: generate ## dist/install.yaml and dist/install-all.yaml: all that an installation needs, in one file

image: ## Build the manager's image IMG; BASE_DIGEST=@sha256:... pins its base
	@$(CONTAINER_TOOL) build --build-arg BASE_DIGEST=$(BASE_DIGEST) --build-arg REVISION=$(REVISION) -t $(IMG) .

image-all: ## Build IMG for every platform of docker-bake.hcl, and push it (docker buildx)
	@case "$(BASE_DIGEST)" in @sha256:*) ;; *) echo "give the base's digest: make image-all BASE_DIGEST=@sha256:..." >&2; exit 2 ;; esac
	@IMG=$(IMG) BASE_DIGEST=$(BASE_DIGEST) REVISION=$(REVISION) docker buildx bake --push

push: ## Push IMG to its registry
	@$(CONTAINER_TOOL) push $(IMG)

deploy: ## Install tenancy (all systems: OVERLAY=install), with IMG, into the cluster of the current kubeconfig
	@OVERLAY=$(OVERLAY) IMG=$(IMG) hack/install-yaml.sh --print | $$(hack/kubectl.sh 1.32) apply --server-side -f -

bench-tenancy: setup ## Count requests for ROWS tenants; BACKEND=kube-apiserver; BASE=commit compares processor time in TURNS; one line of JSON
	@hack/mariadb.sh
	@$(PY) -m benchmarks.tenancy --rows $(ROWS) --turns $(TURNS) $(if $(filter file,$(origin BACKEND)),,--backend $(BACKEND)) \
	    $(if $(filter file,$(origin BASE)),,--base $(BASE))

bench-plan: setup ## Plan a changed template for ROWS tenants: seconds, memory, requests; the last line is one JSON object
	@$(PY) -m benchmarks.plan --rows $(ROWS)

bench-shards: setup ## MEMBERS managers that share ROWS tenants, beside one: writes, overlaps, shares, requests at rest, a kill; one line of JSON
	@$(PY) -m benchmarks.shards --members $(MEMBERS) --rows $(ROWS)

bench-rollout: setup ## Roll out a good and a bad change to ROWS tenants: how many change at once, what returns; the last line is one JSON object
	@$(PY) -m benchmarks.rollout --rows $(ROWS)

bench-runtime: setup ## Reconcile N objects by 10 WORKERS on BACKEND, and by the code of BASE in turns (none: not); PEER=kopf; one line of JSON
	@hack/envtest-assets.sh
	@$(PY) -m benchmarks.runtime --backend $(BACKEND) -n $(N) --workers $(if $(filter file,$(origin WORKERS)),10,$(WORKERS)) \
	    --base $(BASE) --turns $(TURNS) $(if $(PEER),--peer $(PEER))

bench-capacity: setup ## How far one process goes: OBJECTS listed and held, events and reads a second; one line of JSON
	@$(PY) -m benchmarks.runtime.capacity --objects $(OBJECTS)

bench-reload: setup ## From an edit under `ctrlruntime dev` to its first reconcile, with OBJECTS in the cache: seconds, lists, watches; one line of JSON
	@$(PY) -m benchmarks.reload --objects $(if $(filter file,$(origin OBJECTS)),5000,$(OBJECTS))

bench-cloud: setup ## What N Instances cost, and whether the limits of their tasks hold; one line of JSON
	@$(PY) -m benchmarks.cloud -n $(if $(filter file,$(origin N)),1000,$(N))

bench-cosmos: setup ## SETS sets of five nodes at rest: writes, questions, length of reconciles; the last line is one JSON object
	@$(PY) -m benchmarks.cosmos --sets $(SETS)

bench-scale: setup ## PLANES data planes with OBJECTS tenants and a stack each: writes, memory, a restart, a dead cluster; one line of JSON
	@$(PY) -m benchmarks.scale --planes $(PLANES) --objects $(if $(filter file,$(origin OBJECTS)),10000,$(OBJECTS)) $(SCALE_ARGS)

sim-scale: setup ## The operator with 200 data planes (PLANES) that come and go, in virtual time
	@.venv/bin/pytest -q -s tests/fleet/simulation --timeout 7200 --planes $(if $(filter file,$(origin PLANES)),200,$(PLANES)) $(PYTEST_ARGS)

hostile: setup ## Every hostile input through every door, beside a healthy neighbour: stalls, memory, neighbours harmed, restarts, as JSON; DOOR='...' for one
	@$(PY) -m tests.hostile $(if $(DOOR),'$(DOOR)')

fuzz: setup ## Decoders of what comes from outside, with drawn bytes, for MINUTES=10
	@FUZZ_MINUTES=$(or $(MINUTES),10) .venv/bin/pytest -q --timeout 0 tests/hostile/test_fuzz.py $(PYTEST_ARGS)

bench-stalls: setup ## How long the manager's event loop stands still while ROWS tenants converge
	@$(PY) -m benchmarks.event_loop_lag --rows $(ROWS)

bench: setup ## Figures of the parts: queue, cache, controller, proxy, nodes, applies
	@for part in queue cache controller proxy nodes applies; do echo "== $$part"; $(PY) -m benchmarks.$$part; done

clean: ## Remove what was made, not the caches outside
	@rm -rf .venv .run .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist/*.whl dist/*.tar.gz dist/*.cdx.json
