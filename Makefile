# One door for developers and for CI. `make help` lists what there is.

CARGO ?= cargo
RTWIRE = target/release/rtwire
DEMO_DURATION ?= 10s
comma := ,

.PHONY: help setup setup-test build demo run-demo test test-full vm-test vm-bench vm-shell vm-baseline soak fuzz lint package bench bench-main bench-receive bench-plan bench-host bench-powerlink bench-manager bench-pubsub bench-run bench-kernel docs generate clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

setup: ## install what building and running need (Debian packages; says which)
	@scripts/setup build

setup-test:
	@scripts/setup build test

build: setup ## build the `rtwire` command in release mode
	$(CARGO) build --release --locked -p rtwire-cli

demo: build run-demo ## five hosts, one switch: promised, run, measured; writes five-nodes.html and five-nodes.json

# The demo with the command that is there: `make test` has built it, with the features of the whole workspace.
run-demo:
	$(RTWIRE) lab examples/five-nodes.toml --duration $(DEMO_DURATION) --at-most 60s --report five-nodes.html

test: setup-test ## everything that tests this project before a change lands; the time of each stage at the end
	scripts/test

test-full: setup-test ## before a release: both kernels, baselines, long runs, an hour of fuzzing, mutants, memory errors, licences
	@scripts/setup full bench
	scripts/test-full

vm-test: setup-test ## the kernel lab: tests and measurements on Debian's real-time kernels in QEMU
	@scripts/setup bench
	scripts/vm test $(ONLY)
	$(if $(ONLY),,RTWIRE_VM_KERNELS="6.1/generic backports" scripts/vm test uman$(comma)uman-more$(comma)uman-use$(comma)edrv)
	$(if $(ONLY),,scripts/vm measure)

vm-shell: setup-test ## a shell in the kernel lab, with `rtwire`, the suites, and this folder under /host
	scripts/vm shell

vm-bench: setup-test ## the kernel module's experiment by whole POWERLINK stations, in virtual time (docs/uman.md); some quarter of an hour
	@scripts/setup bench
	$(CARGO) bench --locked -p rtwire-benches --bench kernel -- --only stations

vm-baseline: setup-test ## measure the kernel lab's figures anew and keep them as baselines
	scripts/vm baseline $(ONLY)

soak: setup-test ## ten million pings and a minute of every kind of channel: no number lost, memory constant
	scripts/soak

fuzz: setup-test ## each fuzz target for 30 seconds
	scripts/fuzz 30

# Packages that are no part of the workspace: each has a lock file of its own.
APART = fuzz tests/open62541 tests/zerodds tools/get-security-keys

lint: setup ## formatting, lock files, plain English, lints, documentation, packages, direction of dependencies, longest files
	$(CARGO) fmt --all --check
	for package in $(APART); do $(CARGO) update -q --workspace --locked --manifest-path $$package/Cargo.toml || exit 1; done
	$(CARGO) run -q --release --locked -p plain-english
	$(CARGO) clippy --release --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --release --workspace --no-deps --locked
	$(CARGO) package --workspace --locked --no-verify --allow-dirty --quiet
	@scripts/longest-files

bench: bench-main bench-receive bench-plan bench-host bench-powerlink bench-manager bench-pubsub bench-run bench-kernel ## all benchmarks; results in target/bench

bench-main: setup-test ## round trip of RTDiP, UDP and TCP, interleaved in one run
	$(CARGO) bench --locked -p rtwire-channel --bench round_trip

bench-receive: setup-test ## the receive path's figures (docs/measurements/receive-figures.md), some 30 minutes; QUICK=1: one, and rough
	@scripts/setup bench
	$(CARGO) bench --locked -p rtwire-link --bench respond $(if $(QUICK),-- --quick)
	$(CARGO) bench --locked -p rtwire-channel --bench queues $(if $(QUICK),-- --quick)

bench-powerlink: setup-test build ## POWERLINK's stations, in user space and in the driver, 1 and 8 nodes, idle and loaded; QUICK=1: some of it
	@scripts/setup bench
	$(CARGO) bench --locked -p rtwire-benches --bench powerlink -- $(if $(QUICK),--quick)

bench-manager: setup-test build ## admission while the network runs; best-effort TCP beside streams (as root); QUICK=1: fewer
	$(CARGO) bench --locked -p rtwire-managerd --bench manager $(if $(QUICK),-- --quick)
	$(CARGO) bench --locked -p rtwire-benches --bench reservations $(if $(QUICK),-- --quick)
bench-pubsub: setup-test build ## OPC UA PubSub: the codec, and publishing beside open62541 (as root); QUICK=1: shorter
	$(CARGO) bench --locked -p rtwire-benches --bench pubsub -- $(if $(QUICK),--quick)

bench-plan: build ## bounds beside what can happen; speed of planning, admission, schedules, simulation; docs/measurements/plan-peers.md
	$(CARGO) bench --locked -p rtwire-benches --bench plan -- --page $(CURDIR)/docs/measurements/plan-peers.md

bench-host: setup-test build ## setting up and back, latencies, clock state, YANG; launch times and OSADL in the kernel lab; QUICK=1: some
	@scripts/setup bench
	$(CARGO) bench --locked -p rtwire-benches --bench host $(if $(QUICK),-- --quick)

bench-run: setup-test build ## cyclic senders beside each other, judged from outside; docs/measurements/run-peers.md, some 10 minutes; QUICK=1: one cycle, no page
	@scripts/setup bench
	$(CARGO) bench --locked -p rtwire-benches --bench run -- $(if $(QUICK),--quick,--page $(CURDIR)/docs/measurements/run-peers.md)

bench-kernel: setup-test build ## the kernel module uman beside raw sockets, in the kernel lab's virtual time
	@scripts/setup bench
	$(CARGO) bench --locked -p rtwire-benches --bench kernel

docs: setup ## the crates' documentation
	$(CARGO) doc --workspace --no-deps --locked

package: setup ## build every crate from its package, as a registry would have it
	$(CARGO) package --workspace --locked --allow-dirty

generate: build ## write the generated files (schemas) anew
	for format in network plan verify simulation report jitter sniff run bench doctor apply clock connections powerlink powerlink-check publish \
		subscribe agent-status manager-status; do \
		$(RTWIRE) schema $$format > target/$$format.schema.json && \
		mv target/$$format.schema.json schema/$$format.schema.json || exit 1; \
	done

clean: ## remove what was built
	$(CARGO) clean
	rm -f five-nodes*.html five-nodes*.json
