# Everything here runs as root and as an ordinary user, and sets up what it needs.

.DEFAULT_GOAL := help
.PHONY: help demo test test-real test-api test-clients lint soak mutants bench sqlx build setup setup-clients

CARGO ?= cargo
ADJUTANT := target/debug/adjutant
# One throwaway PostgreSQL for all tests of a run; each test has a database of its own in it.
WITH_SERVER := $(ADJUTANT) postgres --throwaway -- sh -c 'export ADJUTANT_TEST_SERVER="$$DATABASE_URL"; unset DATABASE_URL; exec "$$@"' sh
# What `make test-real` runs against is installed here, and nowhere else.
REAL := $(CURDIR)/target/real
# And what `make test-api` runs, here.
API := $(CURDIR)/target/api
# And what `make test-clients` runs, here.
CLIENTS := $(CURDIR)/target/clients
CAN_INSTALL_CLIENTS := python3 -c 'import ensurepip, venv' 2>/dev/null && command -v npm >/dev/null
NEXTEST := $(shell $(CARGO) nextest --version >/dev/null 2>&1 && echo yes)
TESTS := $(if $(NEXTEST),nextest run,test)

help: ## List the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 18

demo: build ## Show delegation at work, on a throwaway PostgreSQL and a scripted model
	@$(ADJUTANT) demo

test: lint setup-clients ## Check and test everything (about 8 minutes when built)
	$(CARGO) build --workspace --all-targets
	$(WITH_SERVER) $(CARGO) $(TESTS) --workspace
	@if $(CAN_INSTALL_CLIENTS); then $(MAKE) test-clients IS_BUILT=yes; \
	else echo "Left out: make test-clients, which needs npm, and python3 with venv" >&2; fi

test-real: build ## Test against a real model, somebody else's mock and real MCP servers (about 2 minutes when built, fetches 140 MB once)
	sh tests/real/install.sh $(REAL)
	ADJUTANT_TEST_REAL=$(REAL) $(WITH_SERVER) $(CARGO) $(TESTS) --package adjutant --test adjutant $(if $(NEXTEST),--run-ignored only --success-output immediate real::,-- --ignored --nocapture --test-threads 1 real::)

test-api: build ## Hold a real server to its OpenAPI document with schemathesis (about 2 minutes when built, fetches 30 MB once)
	sh tests/api/install.sh $(API)
	$(ADJUTANT) postgres --throwaway -- sh tests/api/run.sh $(ADJUTANT) $(API)

test-clients: build setup-clients ## Run clients that nobody here wrote against a real server (about 3 minutes when built, fetches 500 MB once)
	sh tests/clients/install.sh $(CLIENTS)
	cd tests/clients && ADJUTANT_BIN=$(CURDIR)/$(ADJUTANT) ADJUTANT_CLIENTS=$(CLIENTS) PYTHONDONTWRITEBYTECODE=1 $(CLIENTS)/python/bin/python -m pytest

lint: setup
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets -- -D warnings

soak: build ## Run the random driver for 10 minutes
	ADJUTANT_DRIVER_SECONDS=600 $(WITH_SERVER) $(CARGO) $(TESTS) --package adjutant --test adjutant driver:: $(if $(NEXTEST),--no-capture,-- --nocapture)

mutants: build ## Break each guard on purpose and see that a test notices (about 20 minutes)
	$(WITH_SERVER) sh tests/mutants.sh

bench: setup ## Measure the life of tasks against PostgreSQL's own limits (about 3 minutes when built)
	$(CARGO) run --release --package adjutant -- bench queue

sqlx: ## Renew the data that queries are checked against, after a change of SQL (needs psql and an earlier build)
	$(ADJUTANT) postgres --throwaway -- sh migrations/prepare.sh

# For itself the package is built with other features than in the workspace, and so anew: who has just built all says IS_BUILT.
build: setup
	$(if $(IS_BUILT),,$(CARGO) build --package adjutant)

# A PostgreSQL is found or fetched by adjutant itself; only a bare Debian as root, without npm, gets its package here.
setup:
	@command -v $(CARGO) >/dev/null || { echo "Rust is missing: https://rustup.rs"; exit 1; }
	@command -v cc >/dev/null || { echo "A C compiler is missing. Debian, Ubuntu: apt-get install gcc libc6-dev; Fedora: dnf install gcc; macOS: xcode-select --install"; exit 1; }
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! command -v npm >/dev/null \
	    && ! command -v postgres >/dev/null && ! ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql; \
	fi

# Other people's clients come with pip and npm. Only a bare Debian as root gets these here.
setup-clients:
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! { $(CAN_INSTALL_CLIENTS); }; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv npm; \
	fi
