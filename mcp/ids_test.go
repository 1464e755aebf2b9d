package mcp

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// Every tool takes a UUID wherever its schema has the id of a task or an item.
func TestEveryToolTakesUUIDs(t *testing.T) {
	const uuid = "0198f0c2-7d41-7abc-8def-0123456789ab"
	for _, tool := range tools() {
		var ids []string
		for name, p := range tool.in.of.Properties {
			list := p.Items != nil && p.Items.Type == "string"
			if slices.Contains([]string{"task_id", "item_id", "item_ids", "task_ids", "id"}, name) || name == "items" && list {
				ids = append(ids, name)
			}
		}
		slices.Sort(ids)
		if got := tool.ids.Names(); !slices.Equal(got, ids) {
			t.Errorf("%s takes UUIDs in %v, its ids are %v", tool.Name, got, ids)
		}
		for _, name := range ids {
			args, _ := json.Marshal(map[string]any{name: uuid}) // texts always encode
			if got := string(tool.ids.JSON(args)); strings.Contains(got, uuid) {
				t.Errorf("%s: %s", tool.Name, got)
			}
		}
	}
}
