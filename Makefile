# make [help] lists what there is. Everything but the Go toolchain is brought up
# by `make test` itself: a throw-away PostgreSQL, RabbitMQ and NATS, and as root
# on Debian the packages that are missing.

.DEFAULT_GOAL := help
.PHONY: help build release test check fuzz conformance mcp-clients api-lint api-proxy sdk torture bench bench-short bench-soak demo update

help: ## what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## ./pawl, one file without C
	CGO_ENABLED=0 go build -trimpath -o pawl ./cmd/pawl

release: ## dist: archives for five platforms, lists of their modules, checksums; the same commit gives the same bytes
	go run ./internal/release -out dist

# SQLite is C translated to Go, called by one goroutine at a time: to watch its
# insides too makes its tests four to eight times as slow.
UNWATCHED = -gcflags=modernc.org/...='-race=false -d=checkptr=0'

test: ## every test, with the race detector, on SQLite and PostgreSQL
	go run ./internal/testenv -race $(UNWATCHED) -timeout 1h ./...

check: ## what CI runs: format, vet, staticcheck, house rules, build without C, test
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "not gofmt'd:"; echo "$$unformatted"; exit 1; }
	go vet ./...
	@for m in contrib/*/go.mod examples/*/go.mod; do echo "go vet $${m%/go.mod}" && (cd "$${m%/go.mod}" && go vet ./...) || exit 1; done
	go tool -modfile=tools.mod staticcheck ./...
	go test -count=1 ./internal/tidy
	CGO_ENABLED=0 go build ./...
	$(MAKE) --no-print-directory test

fuzz: ## every fuzz target for 20 s, one after the other; TIME=5m for longer
	go run ./internal/fuzz -time $(or $(TIME),20s)

api-lint: ## the API's description by the rules of others; brings its own Node
	./server/lint/run

api-proxy: ## api-lint, and every answer to the client's suite held against the description by Prism
	./server/lint/run proxy

conformance: ## the MCP suite against the MCP layer, both revisions; brings its own Node
	./mcp/conformance/suite.sh

mcp-clients: ## a work order through two MCP clients that are not ours; brings its own Node
	./mcp/foreign/run

sdk: ## the TypeScript package, and the AI SDK's stock client, against real servers; brings its own Node
	./sdk/typescript/run

torture: ## the long runs: crashes, frozen workers, races, by the thousand
	PAWL_TORTURE=1 go run ./internal/testenv -timeout 4h ./...

bench: ## every target beside River, raw SQL and backlite; brings its own PostgreSQL; draws the curves
	cd bench && go run .

bench-short: ## the same, smaller, in under 6 minutes; exit 1 on a miss that is not a known one
	cd bench && go run . -short

bench-soak: ## 1,000 streams of words for an hour on each database: memory stays flat; SOAK=10m for less
	cd bench && go run . -only messages -soak $(or $(SOAK),1h)

demo: ## real work with a killed and a frozen worker, proved exact
	go run ./cmd/pawl demo

update: ## write the generated documents and golden files anew
	go test . -update && go test ./cmd/pawl/internal/cli -update
