package tidy

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// arrows is the plan of the house: what each package may import of it, besides
// internal/clock. "" is the root. Nobody imports sideways; a new room gets a row.
var arrows = map[string][]string{
	"":                    {},
	"api":                 {""},
	"client":              {"", "api"},
	"store":               {""},
	"store/sqlite":        {"", "store", "store/sqlite/hot"},
	"store/sqlite/hot":    {"", "store"},
	"store/postgres":      {"", "store", "store/postgres/hot"},
	"store/postgres/hot":  {"", "store"},
	"sweep":               {"", "store"},
	"feed":                {"", "store"},
	"schema":              {""},
	"engine":              {"", "store", "store/sqlite", "store/postgres", "sweep", "feed", "schema", "internal/jsonscan"},
	"worker":              {""},
	"worker/rabbitmq":     {""},
	"agent":               {"", "schema"},
	"relay":               {""},
	"relay/rabbitmq":      {"", "relay"},
	"relay/nats":          {"", "relay"},
	"relay/webhook":       {"", "relay"},
	"access":              {"", "api"}, // RequireTask answers with problems
	"server":              {"", "api", "access", "internal/jsonscan"},
	"mcp":                 {"", "api", "access", "schema", "internal/jsonscan", "internal/nearest"},
	"dashboard":           {"", "api", "access"},
	"mcp/conformance":     {"", "engine", "mcp", "worker"},
	"cmd/pawl":            {"", "client", "store", "engine", "access", "server", "mcp", "dashboard", "worker", "relay", "relay/rabbitmq", "relay/nats", "relay/webhook", "internal/gctune", "internal/measure", "internal/nearest", "internal/testserver"},
	"pawltest":            {"", "store", "engine", "worker"},
	"internal/release":    {},
	"pawltest/suite":      {"", "pawltest"},
	"pawltest/scenario":   {"", "pawltest", "pawltest/suite"},
	"bench":               {"", "engine", "schema", "store", "store/postgres", "worker", "internal/gctune", "internal/testserver", "server", "mcp"}, // a module of its own
	"contrib/anthropic":   {"", "agent"},
	"contrib/openai":      {"", "agent"},
	"examples/chat":       {"", "agent", "engine", "worker", "contrib/openai"},
	"internal/clock":      {},
	"internal/gctune":     {},
	"internal/cost":       {},
	"internal/fuzz":       {},
	"internal/testbroker": {"internal/testserver"},
	"internal/jsonscan":   {},
	"internal/nearest":    {},
	"internal/measure":    {""},
	"internal/tidy":       {},
	"internal/testagent":  {"", "engine"},
	"internal/testenv":    {"internal/testserver"},
	"internal/testserver": {},
}

// plain packages are for everybody's program: they bring nothing along.
var plain = []string{"", "api", "client"}

func TestArrowsPointDown(t *testing.T) {
	each(t, (*file).code, func(f *file) {
		room := f.dir()
		if room == "." {
			room = ""
		}
		allowed, known := arrows[room]
		if !known {
			t.Errorf("%s: the room %q has no row in the plan (internal/tidy/arrows_test.go)", f.path, room)
			return
		}
		for _, spec := range f.ast.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			to, ours := strings.CutPrefix(name, module)
			to = strings.TrimPrefix(to, "/")
			if ours && to != "internal/clock" && !slices.Contains(allowed, to) {
				t.Errorf("%s:%d: %q may not import %q", f.path, line(spec), room, to)
			}
			first, _, _ := strings.Cut(name, "/")
			if !ours && strings.Contains(first, ".") && slices.Contains(plain, room) {
				t.Errorf("%s:%d: %q imports the standard library only, not %s", f.path, line(spec), room, name)
			}
		}
	})
}

// An arrow that points back would be a cycle through the table; the rows must
// be a plan, not a wish list.
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
