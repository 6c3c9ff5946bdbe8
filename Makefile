# Pawl: a thin front for Meson and Ninja. `make help` lists what there is.
#
# Settings, all optional:
#   CC=clang            compiler (at the first build)
#   PREFIX=/usr/local   where `make install` puts things; DESTDIR goes in front of it
#   TESTS='core/test_machine base/test_json'   run only these with `make test`
#   FUZZ_SECONDS=60     time for each fuzz target
#   SEED=17             one simulated world, as a trace; with COUNT=3, three from that seed on
#   NO_INSTALL=1        never install packages, only say which are missing

PREFIX ?= /usr/local
DESTDIR ?=
TESTS ?=
SEED ?=
COUNT ?=
MUTANTS ?=
DEEP ?=
export FUZZ_SECONDS NO_INSTALL

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := all
.PHONY: all run demo test check lint format sanitize coverage bench bench-accept bench-stores bench-peers bench-flat bench-mixed bench-python \
	bench-size fuzz model mutants sdk sdk-crashes sim torture machines metrics reference settings screenshots install clean help

all: ## build build/pawl and build/libpawl.{a,so}; installs missing Debian packages first
	@scripts/install-deps build
	@scripts/build build products

run: all ## serve on 127.0.0.1:7295 with the store pawl.db (PAWL_STORE, PAWL_LISTEN)
	@exec build/pawl serve

demo: all ## a tour in a minute: server, jobs, a crashing worker, an approval, a plan
	@scripts/demo build

test: ## build and run every test; the last line is `N passed, N failed`
	@scripts/install-deps build test
	@scripts/build build all meson-test-prereq
	@scripts/run-tests build $(TESTS)

check: mutants ## what `make test` leaves out because it takes minutes: all mutants

lint: ## formatting, clang-tidy, cppcheck, a clang build, and the house rules
	@scripts/install-deps build lint
	@scripts/lint

format: ## format all C files as `make lint` wants them
	@scripts/install-deps lint
	@scripts/files | grep -E '^(src|include|tests|bench|sim|examples)/.*\.[ch]$$' | xargs -r clang-format -i

sanitize: ## every test under ASan + UBSan, then under TSan
	@scripts/install-deps build test
	@scripts/sanitize $(TESTS)

coverage: ## branch coverage of src/core; fails below 95 %
	@scripts/install-deps build test coverage
	@scripts/coverage

bench: ## instructions per job, counted by callgrind, beside those that are kept
	@scripts/install-deps build bench
	@scripts/bench

bench-accept: ## keep the instructions per job that are counted now (bench/instructions.txt)
	@scripts/install-deps build bench
	@scripts/bench --accept

bench-stores: ## events per second of each store, beside the bare database
	@scripts/install-deps build test
	@scripts/bench-stores

bench-peers: ## Pawl beside its peers; writes the table of docs/internals/performance.md (SMOKE=1, PEERS, SCENARIOS)
	@scripts/install-deps build test peers
	@scripts/bench-peers

bench-flat: ## rates with millions of jobs waiting; writes a table of docs/internals/performance.md (SMOKE=1)
	@scripts/install-deps build test peers
	@scripts/bench-flat

bench-mixed: ## jobs under background load; writes a table of docs/internals/performance.md (SMOKE=1, OTHER)
	@scripts/install-deps build test
	@scripts/bench-mixed

bench-size: ## bytes on disk and in memory for each job; writes a table of docs/internals/performance.md (SMOKE=1)
	@scripts/install-deps build test
	@scripts/bench-size

fuzz: ## each fuzz target for FUZZ_SECONDS (60)
	@scripts/install-deps build fuzz
	@scripts/fuzz

model: all ## the models of leases, waits and joins, checked by Spin
	@scripts/install-deps test
	@scripts/model

mutants: ## bugs as patches, each against the test that must fail (MUTANTS='core NAME', DEEP=1)
	@scripts/install-deps build test
	@scripts/build build all meson-test-prereq tests/core_random_lives
	@scripts/mutants $(if $(DEEP),--deep) $(MUTANTS)

sim_count = $(or $(COUNT),$(if $(SEED),1,1000))

sim: ## COUNT (1000) simulated worlds with faults; SEED=17 runs that one and shows it, or COUNT from it on
	@scripts/install-deps build
	@scripts/build build sim/pawl-sim
	@build/sim/pawl-sim $(if $(SEED),--seed $(SEED)) --count $(sim_count) \
		$(and $(SEED),$(filter 1,$(sim_count)),--trace)

torture: ## the long form of every reliability test
	@scripts/install-deps build test fuzz
	@scripts/torture

sdk: ## build the wheel and the sdist of sdk/python in build/sdk
	@scripts/install-deps sdk
	@scripts/build-sdk build/sdk

sdk-crashes: ## N (1000) random crash schedules of durable functions in Python, on both stores (SEED)
	@scripts/install-deps build test
	@scripts/build build products
	@PAWL_POSTGRES_FSYNC=off scripts/with-postgres \
		python3 sdk/python/tests/crashes.py build . $(or $(N),1000) $(SEED)

bench-python: ## one Python worker beside Celery and RQ, in TURNS (5) of N (20000) jobs
	@scripts/bench-python $(or $(TURNS),5) $(or $(N),20000)

machines: all ## write docs/reference/states.md anew from the tables in the code
	@scripts/machines > docs/reference/states.md.new
	@mv docs/reference/states.md.new docs/reference/states.md

metrics: ## write docs/reference/metrics.md anew from src/server/metrics.def
	@scripts/metrics > docs/reference/metrics.md.new
	@mv docs/reference/metrics.md.new docs/reference/metrics.md

reference: all ## write cli.md, http-routes.md, errors.md and python.md of docs/reference anew
	@scripts/reference
	@sdk/python/make_reference.py

settings: ## write the table of settings in docs/reference/settings.md anew
	@scripts/settings

screenshots: ## take the pictures of the dashboard in docs/screens anew
	@scripts/install-deps build test
	@scripts/build build products
	@SCREENSHOTS=docs/screens node tests/web/run.mjs build .

install: all ## install under PREFIX (/usr/local), below DESTDIR if given
	@scripts/build build products -Dprefix=$(PREFIX)
	@DESTDIR='$(DESTDIR)' meson install -C build --no-rebuild --quiet

clean: ## remove everything that was built
	@rm -rf build build-*

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile
