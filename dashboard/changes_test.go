package dashboard

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A difference is told by fields: no line of one field is between those of another.
func TestChangesAreByField(t *testing.T) {
	d := &diff{
		Before: json.RawMessage(`{"title":"A","tags":["x","y","end"],"hours":{"mon":8,"tue":9},"text":"one\ntwo\nthree","left":1,"a/b":1}`),
		After: json.RawMessage(`{"text":"one\n2\nthree","title":"B","tags":["x","z","w","end"],"hours":{"mon":8,"tue":10},` +
			`"new":{"deep":[1]},"a/b":2}`),
	}
	got := d.Compared()
	want := []change{
		{Path: "/a~1b", Op: "replace", Old: "1", New: "2"},
		{Path: "/hours/tue", Op: "replace", Old: "9", New: "10"},
		{Path: "/left", Op: "remove", Old: "1"},
		{Path: "/new", Op: "add", New: "{\n  \"deep\": [\n    1\n  ]\n}"},
		{Path: "/tags/1", Op: "replace", Old: "y", New: "z"},
		{Path: "/tags/2", Op: "add", New: "w"},
		{Path: "/text", Op: "replace", Lines: []diffLine{{"", "one"}, {"remove", "two"}, {"add", "2"}, {"", "three"}}},
		{Path: "/title", Op: "replace", Old: "A", New: "B"},
	}
	if differs := cmp.Diff(want, got.List); differs != "" {
		t.Error(differs)
	}
	same := &diff{Before: json.RawMessage(`{"a":1,"b":[1.0]}`), After: json.RawMessage(`{"b":[1.0],"a":1}`)}
	if len(same.Compared().List) > 0 {
		t.Error("another order of members is a difference")
	}
	for name, d := range map[string]*diff{
		"no JSON": {Before: json.RawMessage(`{`), After: json.RawMessage(`1`)},
		"a text whose end is not shown": {Before: json.RawMessage(`"` + strings.Repeat("x", maxPayloadInList) + `y"`),
			After: json.RawMessage(`"` + strings.Repeat("x", maxPayloadInList) + `z"`)},
		"too many lines": {Before: json.RawMessage(`["` + strings.Repeat(`x\n`, maxChangedLines) + `"]`), After: json.RawMessage(`["y"]`)},
		"nothing":        {After: json.RawMessage(`1`)},
		"too large":      {Before: json.RawMessage(`"` + strings.Repeat("x", maxChanged) + `"`), After: json.RawMessage(`1`)},
		"too deep":       {Before: json.RawMessage(strings.Repeat("[", 60) + strings.Repeat("]", 60)), After: json.RawMessage(`1`)},
		"too many": {Before: json.RawMessage(`[` + strings.Repeat("1,", 300) + `1]`),
			After: json.RawMessage(`[` + strings.Repeat("2,", 300) + `2]`)},
	} {
		if d.Compared() != nil {
			t.Errorf("%s is compared by field", name)
		}
	}
}
