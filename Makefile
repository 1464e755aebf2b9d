# make [help] lists the targets. `make test` starts its own PostgreSQL, RabbitMQ and
# NATS servers and removes them. As root on Debian it installs the missing packages with
# apt; elsewhere their programs must be installed.

.DEFAULT_GOAL := help
# All programs and tests are compiled one way, as the released program is: so each package is compiled once, and is known in
# every folder. The race detector alone needs C.
export CGO_ENABLED = 0
export GOFLAGS := $(strip $(filter-out -trimpath,$(GOFLAGS)) -trimpath)
.PHONY: help build release packages packages-try packages-short test test-busy check vet vet-tests nightly cross fuzz fuzz-short conformance mutants mcp-clients api-lint api-proxy api-fuzz sdk sdk-short browser browser-short screenshots grafana torture bench bench-short bench-soak demo update

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## ./pawl, one file without C
	go build -o pawl ./cmd/pawl

release: ## dist: archives for five platforms, lists of their modules, checksums; the same commit gives the same bytes
	go run ./internal/release -out dist

packages: ## dist: the archives, and wheels and npm packages with the program inside, an image and a Helm chart
	go run ./internal/release -out dist -packages -python "$$(./sdk/python/venv)/bin/python"

packages-try: packages ## install each package into an empty place and run a task through it; brings its own Node and helm
	./internal/release/try dist

packages-short: ## the same for this platform alone, without the registries and helm
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
	go run ./internal/release -quick -out "$$dir" -packages -python "$$(./sdk/python/venv)/bin/python" && ./internal/release/try "$$dir" short

# What is the same in every target that runs all tests. `make check` runs the whole of go vet.
TESTENV = go run ./internal/testenv -vet=off

test: ## every test on SQLite and PostgreSQL; those of concurrent code again, with the race detector
	$(TESTENV) -raced -timeout 1h ./...

test-busy: ## make test N times (5) beside four programs that only compute; none may fail
	N=$(N) ./internal/testenv/busy $(TESTENV) -raced -once -count=1 -timeout 1h ./...

check: vet test ## format, vet, staticcheck, test

# staticcheck reads all modules, and collecting garbage was a quarter of its time.
vet: ## format, vet, and staticcheck of what is not a test
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "not gofmt'd:"; echo "$$unformatted"; exit 1; }
	go vet ./...
	@for m in contrib/*/go.mod examples/*/go.mod; do echo "go vet $${m%/go.mod}" && (cd "$${m%/go.mod}" && go vet ./...) || exit 1; done
	GOGC=400 GOMEMLIMIT=2GiB go tool -modfile=tools.mod staticcheck -tests=false ./...

vet-tests: ## staticcheck of the tests too
	GOGC=400 GOMEMLIMIT=2GiB go tool -modfile=tools.mod staticcheck ./...

# The tests of engine and sweep whose short form takes fewer pairs of databases, fewer rows or fewer rounds than what they promise.
LONG = TestAMovedDatabaseHasTheSameRows|TestANamespaceMoves|TestHooksMoveWithANamespace|TestCallsAboutNoNamespaceGoOnBesideAMove|TestForksOfLargeArchivedTasks|TestConnectionsAreBounded|TestBulkDeleteWhileWorkersWork|TestTwoEnginesChangeOneTask|TestTwoServersNeverLeaveAPartOfAnArchive

nightly: vet-tests cross fuzz sdk browser mutants packages-try api-proxy api-fuzz ## what takes long: other systems, fuzzing, frameworks, browser, mutants, packages, the concurrent walk, moves between all pairs of databases, the matrix of features, the suite behind a pooler and in an application's file, payments of processes, agents and failpoints that stop
	PAWL_WALK=2m PAWL_TEST_POOLED=1 $(TESTENV) -count=1 -timeout 1h -run '^TestConcurrentWalk$$' ./engine
	PAWL_TORTURE=1 $(TESTENV) -count=1 -timeout 2h -run '^($(LONG))$$' ./engine ./sweep
	PAWL_TEST_POOLED=1 $(TESTENV) -count=1 -timeout 1h -run '^TestBehaviourBehindAPooler$$' ./pawltest
	PAWL_TEST_PREFIXED=1 $(TESTENV) -count=1 -timeout 1h -run '^TestBehaviourBesideAnApplication$$' ./pawltest
	PAWL_TORTURE=1 $(TESTENV) -count=1 -timeout 2h ./internal/matrix
	PAWL_FAILPOINTS=20000 $(TESTENV) -count=1 -timeout 2h -run '^TestPaymentsAtFailpoints$$' ./engine
	PAWL_TEST_CRASHES=30 go run ./internal/sdk agents-that-die
	PAWL_KILLS=500 $(TESTENV) -count=1 -timeout 1h -run '^TestPaymentsOfProcessesThatStop$$' ./internal/gate

cross: ## vet and build for Windows and macOS
	@for os in windows darwin; do echo "GOOS=$$os go vet, go build" && GOOS=$$os go vet ./... && GOOS=$$os go build -o /dev/null ./cmd/pawl || exit 1; done

fuzz: ## every fuzz target for 20 s, one after the other; TIME=5m for longer
	go run ./internal/fuzz -time $(or $(TIME),20s)

fuzz-short: ## every fuzz target for 2 s, without code that was compiled for it
	go run ./internal/fuzz -time 2s -plain

api-lint: ## lint the OpenAPI description; brings its own Node
	./server/lint/run

api-proxy: ## api-lint, and check every answer of the client's suite against the description with Prism
	./server/lint/run proxy

api-fuzz: ## requests that Schemathesis makes of the description, against a server on SQLite: no internal error, no other answer than described
	./server/lint/fuzz

mutants: ## plant the faults of internal/mutants/patches, one at a time, and see that a test fails; ONLY=name for one, BASE=revision
	go run ./internal/mutants -only "$(ONLY)" -base "$(BASE)"

conformance: ## the MCP suite against the MCP layer, alone and with the gate in between, both revisions; brings its own Node
	./mcp/conformance/suite.sh

mcp-clients: ## a task's whole life through two other MCP clients; brings its own Node
	./mcp/foreign/run

sdk: ## the SDKs and the suites of frameworks against real servers on both databases, held by sdk/baseline.json; SUITE=python for one
	go run ./internal/sdk $(SUITE)

sdk-short: ## the core of the SDKs' own tests, on SQLite
	go run ./internal/sdk -short

browser: ## the dashboard in a browser: walks, accessibility, sizes; brings its own Node, and as root on Debian chromium
	./dashboard/browser/run

browser-short: ## one walk through the dashboard, and the accessibility of its first pages
	./dashboard/browser/run walks.spec.mjs pages.spec.mjs -g 'approve with a diff|content security policy|at most 80 KB'

screenshots: ## docs/img: the pages of the dashboard, light, dark and narrow, with the same data each time
	./dashboard/browser/run screenshots

grafana: ## deploy/grafana/pawl.json from generate.ts, checked by tsc; exit 1 if it was not fresh; brings its own Node
	./deploy/grafana/run

torture: ## the long runs: thousands of crashes, frozen workers and races
	PAWL_TORTURE=1 $(TESTENV) -timeout 4h ./...

bench: ## measure beside River, DBOS, graphile-worker, pg-boss, awa, raw SQL and backlite; brings its own PostgreSQL; draws the curves
	cd bench && go run .

bench-short: ## the bench's tests, and the same, smaller, in under 8 minutes; exit 1 on a miss that is not a known one
	cd bench && go test . && go run . -short

bench-soak: ## 1,000 message streams for an hour on each database: memory must stay flat; SOAK=10m for less
	cd bench && go run . -only messages -soak $(or $(SOAK),1h)

demo: ## real work with a killed and a frozen worker; checks that the result is exact
	go run ./cmd/pawl demo

update: ## rewrite the generated documents and golden files
	go test . -update && go test ./store -run Codes -update && go test ./cmd/pawl/internal/cli -update && go test ./server -run TheGoldenOne -update && go test ./api -run TestVectors -update
