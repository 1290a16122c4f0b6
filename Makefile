# Every command a developer needs. `make` alone lists them.

CARGO ?= cargo
KILLS ?= 500
CHAOS ?= 600
RUNS ?= 10000
JOBS_FOR ?= 300
NODES ?= 3
SERVER ?= redis-8.2
BASE ?= debian
ENGINE ?= podman
VERSION = $(shell sed -n '/^\[workspace.package\]/,/^$$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
TARGET = $(shell $(CARGO) metadata --no-deps --format-version 1 | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')

.PHONY: help setup servers build shipped caller python nodejs run test test-world test-busy server-tests soak jobs model sim quint mutants portable check bench bench-node bench-quorum bench-peers recording peers dist test-dist try-archives release check-release crates publish lint-workflows images test-images test-manifests

help: ## list these commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

setup: ## install what is missing: system packages, and four servers in .servers/
	@scripts/setup.sh

# The newest Redis, too: compiled once, for some three minutes.
servers: setup
	@scripts/setup.sh newest

build: setup ## build the module and the program: target/release/libdlock.so and dlock
	@scripts/build.sh "$(TARGET)"

# Another module, which tests load beside it.
caller: build
	@$(CARGO) build --release -p dlock-test-caller

python: setup ## build the library for Python: a wheel in dist/
	@scripts/python.sh build

nodejs: setup ## build the library for Node.js: a package in dist/
	@scripts/nodejs.sh build

run: build $(if $(filter redis-8.6,$(SERVER)),servers) ## start three local nodes, show a lock at work (NODES=1, SERVER=valkey-9.1, PORT=7000)
	@exec scripts/run.sh "$(TARGET)" -n $(NODES) --server .servers/$(SERVER) $(if $(PORT),--port $(PORT))

# The newest Redis takes minutes to compile, and is for those who test with it.
newest = $(if $(or $(filter file,$(origin SERVER)),$(filter redis-8.6,$(SERVER))),servers)

test test-busy: export BUILD = --bins --tests

test: build $(newest) caller python nodejs ## run all tests, end to end on every server (ARGS='acquire::' picks some, SERVER=redis-8.2 one server)
	@SERVER=$(if $(filter-out file,$(origin SERVER)),$(SERVER)) scripts/test.sh $(ARGS)

test-busy: build ## run all tests beside busy loops, as on a machine with other work, again and again until one fails (LOOPS=3 RUNS=1)
	@RUNS=$(if $(filter-out file,$(origin RUNS)),$(RUNS)) LOOPS=$(LOOPS) scripts/busy.sh $(MAKE) test

server-tests: build ## run Redis's own test suite with the module, for some ten minutes (UNITS='unit/expire')
	@scripts/server-tests.sh "$(TARGET)/release/libdlock.so" $(UNITS)

test-world: build servers python nodejs ## test docs/agent, docs/fences.md and docs/schedulers.md beside real programs of others (installs what it needs)
	@scripts/world.sh
	$(CARGO) test -p dlock-tests --test world -- $(ARGS)
	@scripts/python.sh world

soak: build servers ## crashes and bad networks at length, for half an hour or so (KILLS=5000 kills each server so often, CHAOS=60 seconds of fail-overs; HOURS=8: all shapes in turns, and a report)
ifdef HOURS
	@scripts/soak.sh $(HOURS)
else
	DLOCK_SOAK_CHAOS=$$(($(CHAOS) / 10)) $(CARGO) test -p dlock-tests --features soak --test quorum -- --nocapture --test-threads=1 chaos_cluster:: chaos_sentinels::
	DLOCK_SOAK=1 DLOCK_SOAK_KILLS=$(KILLS) $(CARGO) test -p dlock-tests --features soak --test node --test quorum --test hazards -- \
		--test-threads=8 restarts::crash:: restarts::log_cut:: random_faults:: late_writers:: cut:: connection:: waiting:: \
		same_faults::
endif

jobs: build ## twenty hosts with clocks of their own start a job every two seconds while nodes die, for twenty minutes (JOBS_FOR=60 seconds for each of four sets of nodes)
	DLOCK_JOBS=$(JOBS_FOR) $(CARGO) test -p dlock-tests --features soak --test cli -- --nocapture --test-threads=1 jobs::

model: ## prove the quorum's fences in larger models than the tests do, for some minutes
	$(CARGO) run -p dlock-proof --bin prove -- model

sim: ## simulate the quorum with its faults (SEED=7 tells that run event by event, RUNS=100000)
	$(CARGO) run -q -p dlock-proof --bin prove -- sim $(if $(SEED),$(SEED),0 $(RUNS))

quint: ## simulate the rule of fences once more, as a specification in Quint (TRACES=3000; installs it from npm)
	@scripts/quint.sh $(TRACES)

mutants: ## bend each rule of the quorum, and see that the proof notices
	$(CARGO) test -p dlock-proof --test mutants -- --nocapture

portable: ## test the rules and the Rust library by themselves, which need no Linux
	$(CARGO) test -p dlock-redis-core -p dlock-redis --all-features

check: setup ## formatting, clippy and rustdoc with warnings as errors, house style and words
	$(CARGO) fmt --all --check
	$(CARGO) fmt --check --manifest-path tests/bench/peers/rslock/Cargo.toml
	$(CARGO) clippy --workspace --all-targets --features dlock-tests/soak -- -D warnings
	RUSTDOCFLAGS=-Dwarnings $(CARGO) doc --quiet --no-deps --all-features -p dlock-redis-core -p dlock-redis
	$(CARGO) test -q --test tidy --test machines
	@scripts/python.sh check
	@scripts/nodejs.sh check

# The program as it is shipped: that of `make build` is there sooner, and slower.
shipped: build
	@$(CARGO) build --release -p dlock

bench: shipped peers ## measure everything, beside other libraries, too (ARGS=--quick)
	$(CARGO) run --profile measure -p dlock-tests --bin bench -- $(ARGS)

bench-node: build ## measure the module against what one would do without it (ARGS=--quick)
	$(CARGO) run --profile measure -p dlock-tests --bin bench -- \
		--only cycle,handover,memory,growth,expiries $(ARGS)

bench-quorum: build ## measure the client library over one node and over five (ARGS=--quick)
	$(CARGO) run --profile measure -p dlock-tests --bin bench -- --only quorum,fail-overs $(ARGS)

bench-peers: shipped peers ## measure it beside the lock libraries that people use today (ARGS=--quick)
	$(CARGO) run --profile measure -p dlock-tests --bin bench -- --only contention,distance,uncontended,agent $(ARGS)

dist: setup ## build a release in dist/release/: archives, packages, SBOMs, sums (TARGETS="x86_64-unknown-linux-musl …")
	@TARGETS="$(TARGETS)" nice -n 10 scripts/dist.sh

test-dist: ## install that release in new roots of Debian and of musl, also for arm64, upgrade and remove it (ARGS="bookworm musl")
	@scripts/test-dist.sh $(ARGS)

images: ## build container images of what make dist has left: dlock and dlock-server (BASE=alpine, ENGINE=docker)
	$(foreach target,program server,$(ENGINE) build $(if $(filter podman,$(ENGINE)),--format docker) --target $(target) \
		--file packaging/images/$(BASE).Containerfile --tag $(if $(filter server,$(target)),dlock-server,dlock):$(VERSION) . &&) true

test-images: ## try the image for Debian with podman, over a base made by debootstrap (as root); lint both
	@scripts/test-images.sh

try-archives: ## take a lock with each program in dist/release/ that is for this processor
	@scripts/try-archives.sh

release: ## set a version everywhere, commit and tag it (VERSION=0.2.0); nothing is pushed
	@scripts/release.sh cut $(if $(filter-out file,$(origin VERSION)),$(VERSION))

check-release: ## all that names a version names the same one, and CHANGELOG.md has it (TAG=v0.2.0)
	@scripts/release.sh check

crates: ## package the Rust library, and compile what would be published
	@scripts/release.sh crates --dry-run $(ARGS)

publish: ## publish crates, npm or github, as the release workflow does (WHAT=npm TAG=v0.2.0 ARGS=--dry-run)
	@scripts/release.sh $(WHAT) $(ARGS)

lint-workflows: ## check .github/workflows by their schema, and for rights that a stranger could abuse
	@scripts/lint-workflows.sh

test-manifests: ## check packaging/compose.yaml and packaging/kubernetes by their schemas, and by what dlock needs
	@scripts/test-manifests.sh

recording: build ## make the pictures of a real run: docs/pictures/run.svg, top.svg (ARGS=top)
	@scripts/recording.sh "$(TARGET)" $(ARGS)

peers: setup ## install those libraries into .peers/
	@scripts/peers.sh
