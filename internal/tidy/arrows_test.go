package tidy

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// arrows lists what each package may import of this module, besides internal/clock.
// "" is the root. A new package gets a row. A row "DIR/*" is for packages below DIR
// without a row of their own; as an import it stands for all packages below DIR.
var arrows = map[string][]string{
	"":                   {"internal/asked"},
	"internal/asked":     {},
	"api":                {""},
	"client":             {"", "api", "internal/asked"},
	"store":              {"", "store/objects", "internal/idform", "internal/jsonscan", "internal/shellwords"},
	"store/sqlite":       {"", "store", "store/sqlite/hot", "internal/durable", "internal/shellwords"},
	"store/sqlite/hot":   {"", "store"},
	"store/postgres":     {"", "store", "store/postgres/hot"},
	"store/postgres/hot": {"", "store"},
	"store/relocate":     {"", "store"},
	"store/objects":      {"internal/durable"},
	"store/objects/s3":   {"store/objects"},
	"sweep":              {"", "store", "store/objects"},
	"feed":               {"", "store", "internal/watch"},
	"schema":             {""},
	"tracing":            {""},
	"translog":           {"", "internal/durable", "internal/strictjson"},
	"engine": {
		"",
		"store",
		"store/objects",
		"store/sqlite",
		"store/postgres",
		"store/relocate",
		"sweep",
		"feed",
		"schema",
		"tracing",
		"translog",
		"engine/internal/apikeys",
		"engine/internal/archives",
		"engine/internal/blobs",
		"engine/internal/budgets",
		"engine/internal/bulk",
		"engine/internal/checkpoints",
		"engine/internal/children",
		"engine/internal/commit",
		"engine/internal/effects",
		"engine/internal/identity",
		"engine/internal/kernel",
		"engine/internal/keys",
		"engine/internal/logs",
		"engine/internal/queue",
		"engine/internal/relays",
		"engine/internal/rules",
		"engine/internal/schedules",
		"engine/internal/signals",
		"engine/internal/stats",
		"engine/internal/messages",
		"engine/internal/tasktypes",
		"engine/internal/taskwait",
		"engine/internal/unique",
		"internal/asked",
		"internal/idform",
		"internal/jsonscan",
		"internal/nearest",
		"internal/shellwords",
		"internal/watch",
	},
	"engine/archivetest":       {"", "engine/internal/archives", "store", "sweep"},
	"engine/internal/effects":  {"", "store", "engine/internal/budgets", "engine/internal/rules"},
	"engine/internal/identity": {"", "store"},
	"engine/internal/taskwait": {"", "store", "internal/watch"},
	"engine/internal/queue":    {"", "store", "internal/watch"},
	"engine/internal/commit":   {"", "store"},
	"engine/internal/rules":    {"", "internal/jsonscan", "internal/nearest", "internal/shellwords"},
	"worker":                   {"", "tracing"},
	"worker/rabbitmq":          {""},
	"agent":                    {"", "schema", "tracing"},
	"relay":                    {"", "internal/nearest", "tracing"},
	"relay/rabbitmq":           {"", "relay"},
	"relay/nats":               {"", "relay"},
	"relay/webhook":            {"", "relay"},
	"access":                   {"", "api", "internal/asked"}, // RequireTask answers with problems
	"access/signin":            {"", "access"},
	"inbound":                  {""},
	"internal/gate":            {"", "access", "api", "internal/nearest"},
	"internal/push":            {"", "relay/webhook"},
	"internal/testclock":       {"", "api", "internal/durable", "internal/strictjson", "store/sqlite"},
	"engine/metrics":           {""},
	"server": {"", "api", "access", "engine/metrics", "inbound", "internal/asked", "internal/htmlpage", "internal/idform", "internal/jsonscan",
		"internal/nearest", "internal/strictjson", "tracing"},
	"mcp": {"", "api", "access", "schema", "internal/idform", "internal/jsonscan", "internal/nearest",
		"internal/strictjson", "tracing"},
	"dashboard":              {"", "api", "access", "access/signin", "internal/htmlpage", "internal/jsonscan", "internal/shellwords"},
	"mcp/conformance":        {"", "engine", "internal/mcpgate", "mcp", "worker"},
	"cmd/pawl":               {"cmd/pawl/internal/*"},
	"cmd/pawl/internal/*":    {"", "cmd/pawl/internal/cli", "internal/terminal"}, // a noun without a row of its own
	"cmd/pawl/internal/bulk": {"", "cmd/pawl/internal/cli", "cmd/pawl/internal/task"},
	"cmd/pawl/internal/cli": {"", "access", "api", "access/signin", "client", "engine", "inbound", "mcp", "store/objects", "store/objects/s3",
		"internal/durable", "internal/jsonscan", "internal/nearest", "internal/strictjson", "internal/terminal", "tracing", "internal/gate",
		"internal/mcpgate", "internal/push", "translog"},
	"cmd/pawl/internal/task": {"", "cmd/pawl/internal/checkpoint", "cmd/pawl/internal/cli", "internal/terminal"},
	"cmd/pawl/internal/item": {"", "api", "cmd/pawl/internal/checkpoint", "cmd/pawl/internal/cli", "cmd/pawl/internal/task",
		"internal/terminal"},
	"cmd/pawl/internal/queue":  {"", "cmd/pawl/internal/cli", "internal/nearest", "internal/terminal"},
	"cmd/pawl/internal/effect": {"", "cmd/pawl/internal/cli", "internal/terminal", "translog"},
	"cmd/pawl/internal/gate":   {"", "cmd/pawl/internal/cli", "internal/gate", "internal/mcpgate"},
	"cmd/pawl/internal/demo":   {"", "cmd/pawl/internal/cli", "internal/demo"},
	"cmd/pawl/internal/worker": {"", "worker", "cmd/pawl/internal/cli", "internal/childproc", "internal/strictjson", "internal/terminal",
		"tracing"},
	"cmd/pawl/internal/db": {"", "engine", "store", "store/relocate", "translog", "cmd/pawl/internal/cli", "cmd/pawl/internal/task",
		"internal/measure", "internal/terminal", "internal/testserver"},
	"cmd/pawl/internal/serve": {
		"",
		"access",
		"access/signin",
		"client",
		"cmd/pawl/internal/db",
		"engine",
		"dashboard",
		"internal/gate",
		"internal/nearest",
		"internal/push",
		"internal/terminal",
		"internal/testclock",
		"mcp",
		"relay",
		"relay/nats",
		"relay/rabbitmq",
		"relay/webhook",
		"inbound",
		"server",
		"cmd/pawl/internal/cli",
		"cmd/pawl/internal/key",
		"cmd/pawl/internal/tasktype",
		"internal/gctune",
	},
	"internal/showcase": {"", "access", "dashboard", "engine", "server", "store", "store/sqlite"},
	"pawltest":          {"", "store", "engine", "worker"},
	"internal/release":  {},
	"pawltest/suite":    {"", "pawltest"},
	"pawltest/scenario": {"", "pawltest", "pawltest/suite"},
	"bench": {
		"",
		"dashboard",
		"engine",
		"schema",
		"store",
		"store/postgres",
		"worker",
		"internal/gate",
		"internal/gctune",
		"internal/testserver",
		"server",
		"mcp",
	}, // a module of its own
	"sdk/python/bench/goworker": {"client", "worker", "internal/clock"},

	"contrib/anthropic":   {"", "agent"},
	"contrib/keda":        {"", "client", "internal/clock"},
	"contrib/openai":      {"", "agent"},
	"contrib/traces":      {"", "client", "tracing", "worker"},
	"examples/coder":      {},
	"examples/nightly":    {"", "engine", "worker"},
	"examples/payments":   {"", "client", "worker"},
	"examples/terminal":   {"", "agent", "engine", "worker", "contrib/openai"},
	"internal/childproc":  {},
	"internal/demo":       {"", "worker", "internal/childproc", "internal/terminal"},
	"internal/terminal":   {""},
	"internal/clock":      {},
	"internal/durable":    {},
	"internal/gctune":     {},
	"internal/cost":       {},
	"internal/fuzz":       {},
	"internal/testbroker": {"internal/testserver"},
	"internal/idform":     {},
	"internal/jsonscan":   {},
	"internal/strictjson": {"", "internal/jsonscan", "internal/nearest"},
	"internal/mcpgate":    {"", "internal/clock", "internal/gate", "internal/strictjson"},
	"internal/htmlpage":   {},
	"internal/nearest":    {},
	"internal/sdk":        {"internal/testserver"},
	"internal/measure":    {""},
	"internal/mutants":    {"internal/clock", "internal/testserver"},
	"internal/tidy":       {},
	"internal/testagent":  {"", "engine"},
	"internal/testenv":    {"internal/testserver"},
	"internal/testidp":    {},
	"internal/testserver": {},
	"internal/testterm":   {},
	"internal/watch":      {},
	"internal/shellwords": {""},

	// The rooms of the engine, and what they stand on.
	"engine/internal/kernel": {"", "store", "store/objects", "store/relocate", "engine/internal/commit", "engine/internal/identity",
		"engine/internal/rules"},
	"engine/internal/apikeys": {"", "store", "engine/internal/kernel", "engine/internal/rules"},
	"engine/internal/archives": {"", "store", "translog", "engine/internal/kernel", "engine/internal/rules",
		"internal/durable", "internal/idform"},
	"engine/internal/blobs":    {"", "store", "store/objects", "engine/internal/kernel", "engine/internal/rules"},
	"engine/internal/budgets":  {"", "store", "engine/internal/kernel", "engine/internal/rules", "internal/idform"},
	"engine/internal/bulk":     {"", "store", "engine/internal/kernel", "engine/internal/rules", "internal/idform"},
	"engine/internal/children": {"", "store", "engine/internal/commit", "engine/internal/kernel", "engine/internal/rules", "internal/idform"},
	"engine/internal/keys":     {"", "store", "engine/internal/kernel", "engine/internal/rules", "internal/idform"},
	"engine/internal/logs":     {"", "store", "translog", "engine/internal/kernel", "engine/internal/rules", "internal/idform"},
	"engine/internal/messages": {"", "store", "engine/internal/kernel", "engine/internal/rules", "internal/asked", "internal/idform",
		"internal/watch"},
	"engine/internal/relays":  {"", "store", "engine/internal/kernel", "engine/internal/rules"},
	"engine/internal/signals": {"", "store", "engine/internal/kernel", "engine/internal/rules"},
	"engine/internal/stats":   {"", "store", "engine/internal/kernel", "engine/internal/rules"},
	"engine/internal/schedules": {"", "store", "engine/internal/commit", "engine/internal/kernel", "engine/internal/rules", ticks,
		"internal/shellwords"},
	"engine/internal/checkpoints": {"", "store", "engine/internal/kernel", "engine/internal/rules",
		"internal/idform"},
	"engine/internal/tasktypes": {"", "schema", "store", "engine/internal/kernel", "engine/internal/rules", "internal/jsonscan",
		"internal/nearest", "internal/shellwords"},
	"engine/internal/unique": {"", "store", "engine/internal/kernel", "engine/internal/rules"},
	ticks:                    {""},
}

const ticks = "engine/internal/schedules/ticks"

// plain packages have no dependencies besides the standard library.
var plain = []string{"", "api", "client"}

// pure packages take values and return values: they import nothing that waits, does
// I/O or reads the clock.
var (
	pure   = []string{"engine/internal/rules"}
	impure = []string{"context", "database/sql", "io", "net", "net/http", "os", "sync", module + "/internal/clock"}
)

func TestArrowsPointDown(t *testing.T) {
	each(t, (*file).code, func(f *file) {
		room := f.dir()
		if room == "." {
			room = ""
		}
		allowed, known := rowOf(room)
		if !known {
			t.Errorf("%s: the package %q has no row in internal/tidy/arrows_test.go", f.path, room)
			return
		}
		for _, spec := range f.ast.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			to, ours := strings.CutPrefix(name, module)
			to = strings.TrimPrefix(to, "/")
			if ours && to != "internal/clock" && !allows(allowed, to) {
				t.Errorf("%s:%d: %q may not import %q", f.path, line(spec), room, to)
			}
			if slices.Contains(pure, room) && slices.Contains(impure, name) {
				t.Errorf("%s:%d: %q is pure and may not import %q", f.path, line(spec), room, name)
			}
			first, _, _ := strings.Cut(name, "/")
			if !ours && strings.Contains(first, ".") && slices.Contains(plain, room) {
				t.Errorf("%s:%d: %q imports the standard library only, not %s", f.path, line(spec), room, name)
			}
		}
	})
}

// rooms are the features of the engine that have a package of their own.
var rooms = []string{
	"engine/internal/apikeys", "engine/internal/archives", "engine/internal/blobs", "engine/internal/budgets", "engine/internal/bulk",
	"engine/internal/checkpoints", "engine/internal/children", "engine/internal/keys", "engine/internal/logs", "engine/internal/messages",
	"engine/internal/relays", "engine/internal/schedules", "engine/internal/signals", "engine/internal/tasktypes",
	"engine/internal/stats", "engine/internal/unique",
}

// A room meets others by the kernel alone: neither it nor a package below it may import the engine or another room.
func TestRoomsMeetByTheKernel(t *testing.T) {
	for _, room := range rooms {
		if !slices.Contains(arrows[room], "engine/internal/kernel") {
			t.Errorf("%s has no kernel", room)
		}
		for from, row := range arrows {
			for _, to := range row {
				inside := from == room || strings.HasPrefix(from, room+"/")
				other := func(r string) bool { return r != room && (to == r || strings.HasPrefix(to, r+"/")) }
				if inside && (to == "engine" || slices.ContainsFunc(rooms, other)) {
					t.Errorf("%s may not import %s", from, to)
				}
			}
		}
	}
}

// rowOf returns the row of a package.
func rowOf(room string) ([]string, bool) {
	allowed, known := arrows[room]
	if !known {
		allowed, known = arrows[path.Dir(room)+"/*"]
	}
	return allowed, known
}

// allows reports whether a row names a package.
func allows(row []string, to string) bool {
	return slices.Contains(row, to) || slices.Contains(row, path.Dir(to)+"/*")
}

// An arrow that points back would be a cycle in the table. The rows must be an order that the
// imports can follow.
func TestPlanHasNoCycle(t *testing.T) {
	var walk func(room string, path []string)
	walk = func(room string, path []string) {
		if slices.Contains(path, room) {
			t.Fatalf("cycle: %v → %s", path, room)
		}
		for _, to := range arrows[room] {
			walk(to, append(slices.Clone(path), room))
		}
	}
	for room := range arrows {
		walk(room, nil)
	}
}
