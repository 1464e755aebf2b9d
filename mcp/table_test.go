package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// Every tool of the table is implemented in one list, and is served in the order of the table.
func TestEveryToolIsImplementedOnce(t *testing.T) {
	var want, got []string
	for _, r := range api.Routes {
		for _, tool := range r.Tools {
			want = append(want, tool.Name)
		}
	}
	for _, tool := range tools() {
		got = append(got, tool.Name)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the tools are %v, the table has %v", got, want)
	}
	routes := []api.Route{{Name: "x", Tools: []api.Tool{{Name: "work_a"}, {Name: "work_b"}}}}
	a, b := map[string]verb{"work_a": {}}, map[string]verb{"work_b": {}}
	for _, c := range []struct {
		routes []api.Route
		lists  []map[string]verb
		want   string
	}{
		{routes, []map[string]verb{a, b}, ""},
		{routes, []map[string]verb{a}, "work_b has no implementation"},
		{routes, []map[string]verb{a, b, a}, "work_a is implemented twice"},
		{routes, []map[string]verb{a, b, {"work_c": {}}}, "work_c is not in the table"},
		{append(routes, routes...), []map[string]verb{a, b}, "twice in the table"},
	} {
		_, err := implemented(c.routes, c.lists...)
		if got := fmt.Sprint(err); (err != nil) != (c.want != "") || !strings.Contains(got, c.want) && err != nil {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
}

// The page of the documents has the table of tools, row by row.
func TestPageHasTheTools(t *testing.T) {
	raw, err := os.ReadFile("../docs/mcp.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools() {
		row := fmt.Sprintf("| `%s` | %s | %s |", tool.Name, tool.route.Role, tool.Means)
		if !strings.Contains(string(raw), row+"\n") {
			t.Errorf("docs/mcp.md lacks\n%s", row)
		}
	}
	for _, name := range []string{KeyMeta, ReplayedMeta, PayloadsMeta} {
		if !strings.Contains(string(raw), name) {
			t.Errorf("docs/mcp.md lacks %s", name)
		}
	}
}

// What a tool may presume of itself follows from what it does.
func TestHintsAreTrue(t *testing.T) {
	for _, tool := range tools() {
		route := tool.route
		if (tool.Hints&api.ToolReads != 0) == route.Mutates() {
			t.Errorf("%s says that it only reads: %v; its route mutates: %v", tool.Name, tool.Hints&api.ToolReads != 0, route.Mutates())
		}
		if tool.Hints&api.ToolReads != 0 && tool.Hints&api.ToolDestroys != 0 {
			t.Errorf("%s reads and destroys", tool.Name)
		}
	}
}

// A task is never expired, an item may be.
func TestStatusesAreTheTables(t *testing.T) {
	for of, c := range map[string][2]any{
		"tasks":       {schemaOf[pawl.Task]().Properties["status"].Enum, pawl.TaskStatuses},
		"items":       {schemaOf[itemOut]().Properties["item"].Properties["status"].Enum, pawl.ItemStatuses},
		"a work_list": {schemaOf[listIn]().Properties["status"].Items.Enum, pawl.TaskStatuses},
	} {
		if fmt.Sprint(c[0]) != fmt.Sprint(c[1]) {
			t.Errorf("%s: %v, the table has %v", of, c[0], c[1])
		}
	}
}

// How to connect: each snippet is JSON that names a server, by a command of ours or
// a URL.
func TestSnippetsOfClients(t *testing.T) {
	raw, err := os.ReadFile("../docs/mcp.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page, _ := strings.Cut(string(raw), "## Connect\n")
	page, _, _ = strings.Cut(page, "\n## ")
	type server struct {
		Type, Command, URL string
		Args               []string
		Headers            map[string]string
	}
	count := 0
	for _, block := range strings.Split(page, "```json\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		var config struct {
			MCPServers, Servers map[string]server
			Inputs              []map[string]any
		}
		in := json.NewDecoder(strings.NewReader(block))
		if in.DisallowUnknownFields(); in.Decode(&config) != nil {
			t.Errorf("no settings of a client: %s", block)
		}
		s := config.MCPServers["pawl"]
		if config.Servers != nil {
			s = config.Servers["pawl"]
		}
		url := s.URL == "http://127.0.0.1:7033/mcp" && strings.HasPrefix(s.Headers["Authorization"], "Bearer ${")
		command := strings.HasSuffix(s.Command, "/pawl") && len(s.Args) == 3 && s.Args[0] == "mcp" && s.Args[1] == "--db"
		if count++; url == command {
			t.Errorf("it names no server: %s", block)
		}
	}
	if count != 4 {
		t.Errorf("%d snippets", count)
	}
}

// A name that is nearly right is answered with the right one.
func TestNearMisses(t *testing.T) {
	for _, c := range []struct{ tool, args, want string }{
		{"work_list", `{"type":["a"]}`, "did you mean types?"},
		{"work_checkout", `{"worker":"w"}`, "did you mean worker_id?"},
		{"work_propose", `{"type":"a","items":[{"inptu":1}]}`, "did you mean input?"},
		{"work_get", `{"taskId":"a"}`, "did you mean task_id?"},
		{"work_get", `{"elsewhere":"a"}`, ""},
	} {
		i := slices.IndexFunc(tools(), func(t tool) bool { return t.Name == c.tool })
		err := tools()[i].in.read(json.RawMessage(c.args), &struct{}{})
		var e *pawl.Error
		if !errors.As(err, &e) || len(e.Fields) == 0 {
			t.Fatalf("%s %s: %v", c.tool, c.args, err)
		}
		if got := fmt.Sprint(e.Fields); !strings.Contains(got, c.want) || c.want == "" && strings.Contains(got, "did you mean") {
			t.Errorf("%s %s: %s", c.tool, c.args, got)
		}
	}
}

// What is cut from the answer of any tool is read by a tool that work_read takes. A page of namespaces is never cut.
func TestAllThatIsCutCanBeRead(t *testing.T) {
	small := []string{"problem", "note", "id", "lease_expires_at", "server_time", "stopped"} // never large enough
	for _, tool := range tools() {
		var schema struct {
			Properties map[string]struct {
				Type any `json:"type"`
			} `json:"properties"`
		}
		if err := json.Unmarshal(tool.out.raw, &schema); err != nil {
			t.Fatal(err)
		}
		for name, p := range schema.Properties {
			if slices.Contains(small, name) || p.Type == "integer" || p.Type == "boolean" ||
				tool.Name == readTool || tool.Name == "work_namespaces" {
				continue
			}
			if in := restOf(tool, nil, json.RawMessage("{}"), []string{name, "0", "x"}); !slices.Contains(readable(), in.Tool) {
				t.Errorf("%s: %s is read by %s", tool.Name, name, in.Tool)
			}
		}
	}
}
