# make [help] lists the targets. `make test` starts its own PostgreSQL, RabbitMQ and
# NATS servers and removes them. As root on Debian it installs the missing packages with
# apt; elsewhere their programs must be installed.

.DEFAULT_GOAL := help
.PHONY: help build release test check fuzz conformance mutants mcp-clients api-lint api-proxy sdk browser screenshots grafana torture bench bench-short bench-soak demo update

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## ./pawl, one file without C
	CGO_ENABLED=0 go build -trimpath -o pawl ./cmd/pawl

release: ## dist: archives for five platforms, lists of their modules, checksums; the same commit gives the same bytes
	go run ./internal/release -out dist

# SQLite is C translated to Go, and one goroutine at a time calls it. To instrument it too
# would make its tests four to eight times as slow.
UNINSTRUMENTED = -gcflags=modernc.org/...='-race=false -d=checkptr=0'

test: ## every test, with the race detector, on SQLite and PostgreSQL
	go run ./internal/testenv -race $(UNINSTRUMENTED) -timeout 1h ./...

check: ## what CI runs: format, vet, staticcheck, the repository's rules, builds without C and for other systems, test
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "not gofmt'd:"; echo "$$unformatted"; exit 1; }
	go vet ./...
	@for m in contrib/*/go.mod examples/*/go.mod; do echo "go vet $${m%/go.mod}" && (cd "$${m%/go.mod}" && go vet ./...) || exit 1; done
	go tool -modfile=tools.mod staticcheck ./...
	go test -count=1 ./internal/tidy
	CGO_ENABLED=0 go build ./...
	@for os in windows darwin; do echo "GOOS=$$os go vet, go build" && CGO_ENABLED=0 GOOS=$$os go vet ./... && CGO_ENABLED=0 GOOS=$$os go build -o /dev/null ./cmd/pawl || exit 1; done
	$(MAKE) --no-print-directory test

fuzz: ## every fuzz target for 20 s, one after the other; TIME=5m for longer
	go run ./internal/fuzz -time $(or $(TIME),20s)

api-lint: ## lint the OpenAPI description; brings its own Node
	./server/lint/run

api-proxy: ## api-lint, and check every answer of the client's suite against the description with Prism
	./server/lint/run proxy

mutants: ## plant the faults of internal/mutants/patches, one at a time, and see that a test fails; ONLY=name for one, BASE=revision
	go run ./internal/mutants -only "$(ONLY)" -base "$(BASE)"

conformance: ## the MCP suite against the MCP layer, both revisions; brings its own Node
	./mcp/conformance/suite.sh

mcp-clients: ## a task's whole life through two other MCP clients; brings its own Node
	./mcp/foreign/run

sdk: ## the SDKs and the suites of frameworks against real servers on both databases, held by sdk/baseline.json; SUITE=python for one
	go run ./internal/sdk $(SUITE)

browser: ## the dashboard in a browser: walks, accessibility, sizes; brings its own Node, and as root on Debian chromium
	./dashboard/browser/run

screenshots: ## docs/img: the pages of the dashboard, light, dark and narrow, with the same data each time
	./dashboard/browser/run screenshots

grafana: ## deploy/grafana/pawl.json from generate.ts, checked by tsc; exit 1 if it was not fresh; brings its own Node
	./deploy/grafana/run

torture: ## the long runs: thousands of crashes, frozen workers and races
	PAWL_TORTURE=1 go run ./internal/testenv -timeout 4h ./...

bench: ## measure beside River, raw SQL and backlite; brings its own PostgreSQL; draws the curves
	cd bench && go run .

bench-short: ## the same, smaller, in under 6 minutes; exit 1 on a miss that is not a known one
	cd bench && go run . -short

bench-soak: ## 1,000 message streams for an hour on each database: memory must stay flat; SOAK=10m for less
	cd bench && go run . -only messages -soak $(or $(SOAK),1h)

demo: ## real work with a killed and a frozen worker; checks that the result is exact
	go run ./cmd/pawl demo

update: ## rewrite the generated documents and golden files
	go test . -update && go test ./cmd/pawl/internal/cli -update && go test ./server -run TheGoldenOne -update && go test ./api -run TestVectors -update
