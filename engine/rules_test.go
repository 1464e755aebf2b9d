package engine

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
)

// faults returns the pointers of an error's fields, or the code of another error.
func faults(err error) string {
	if err == nil {
		return ""
	}
	var out []string
	for _, f := range pawl.FieldsOf(err) {
		out = append(out, f.Pointer)
	}
	if len(out) == 0 {
		return string(pawl.CodeOf(err))
	}
	return strings.Join(out, " ")
}

func TestOrder(t *testing.T) {
	item := func(key string, after ...string) pawl.NewItem { return pawl.NewItem{Key: key, After: after} }
	for _, c := range []struct {
		name  string
		items []pawl.NewItem
		known map[string]string
		want  []dependency
		err   string
	}{
		{name: "none", items: []pawl.NewItem{item(""), item("")}},
		{name: "a chain", items: []pawl.NewItem{item("c", "b"), item("b", "a"), item("a")}, want: []dependency{{Item: 0, On: 1}, {Item: 1,
			On: 2}}},
		{name: "an older item", items: []pawl.NewItem{item("b", "a")}, known: map[string]string{"a": "itm_1"}, want: []dependency{{Item: 0,
			On: -1, ID: "itm_1"}}},
		{name: "an unknown key", items: []pawl.NewItem{item("a"), item("b", "a", "x")}, err: "/items/1/after/1"},
		{name: "a repeated key", items: []pawl.NewItem{item("a"), item("a")}, err: "/items/1/key"},
		{name: "the key of an older item", items: []pawl.NewItem{item("a")}, known: map[string]string{"a": "itm_1"}, err: "/items/0/key"},
		{name: "itself", items: []pawl.NewItem{item("a", "a")}, err: "/items/0/after"},
		{name: "a cycle behind a chain", items: []pawl.NewItem{item("a"), item("b", "a", "c"), item("c", "b")}, err: "/items/1/after"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := orderItems(c.items, c.known)
			if faults(err) != c.err || err == nil && !slices.Equal(got, c.want) {
				t.Errorf("got %v, %v; want %v, %q", got, err, c.want, c.err)
			}
		})
	}
}

func TestCompleteDiff(t *testing.T) {
	d := completeDiff(pawl.Diff{Before: json.RawMessage(`{"n":12345678901234567890}`), After: json.RawMessage(`{"n":12345678901234567891}`)})
	if !strings.Contains(string(d.Operations), "12345678901234567891") || d.Counts["replace"] != 1 {
		t.Errorf("operations: %s, %v", d.Operations, d.Counts)
	}
	if err := checkApplied(json.RawMessage(`{"diff":{"operations":[{"op":"add","path":"a","value":1}]}}`)); faults(
		err) != "/result/diff/operations/0" {
		t.Errorf("an operation that is none: %v", err)
	}
	if err := checkApplied(nil); err != nil {
		t.Errorf("no result: %v", err)
	}
}

func TestPartsState(t *testing.T) {
	parts := []pawl.ItemPart{{Key: "rows", Status: pawl.PartValidated}, {Key: "rows", Status: pawl.PartDraft}}
	if got := string(partsState(parts)); got != `{"rows":{"status":"draft","count":2}}` {
		t.Errorf("state: %s", got)
	}
}
