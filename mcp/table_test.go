package mcp

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// The page of the documents has the table of tools, row by row.
func TestPageHasTheTools(t *testing.T) {
	raw, err := os.ReadFile("../docs/mcp.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools() {
		row := fmt.Sprintf("| `%s` | %s | %s |", tool.name, api.RouteOf(tool.route).Role, tool.means)
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
		route := api.RouteOf(tool.route)
		if (tool.hints&reads != 0) == route.Mutates() {
			t.Errorf("%s says that it only reads: %v; its route mutates: %v", tool.name, tool.hints&reads != 0, route.Mutates())
		}
		if tool.hints&reads != 0 && tool.hints&destroys != 0 {
			t.Errorf("%s reads and destroys", tool.name)
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
