package rules

import (
	"encoding/json"
	"testing"

	"github.com/pawl-work/pawl/internal/cost"
	"github.com/pawl-work/pawl/internal/jsonscan"
)

// FuzzMerge: a merge patch of objects gives an object, and applying it again changes
// nothing.
func FuzzMerge(f *testing.F) {
	f.Add([]byte(`{"a":{"b":1}}`), []byte(`{"a":{"b":null},"c":[null]}`))
	f.Add([]byte(`{}`), []byte(`{"a":{"b":{"c":null}}}`))
	f.Fuzz(func(t *testing.T, target, patch []byte) {
		if !json.Valid(target) || !json.Valid(patch) {
			return
		}
		var once json.RawMessage
		cost.Check(t, len(target)+len(patch), func() { once = MergePatch(target, patch) })
		if !json.Valid(once) {
			t.Fatalf("%q with %q is %q", target, patch, once)
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(patch, &object) == nil && object != nil && string(MergePatch(once, patch)) != string(once) {
			t.Fatalf("%q with %q is %q, then %q", target, patch, once, MergePatch(once, patch))
		}
	})
}

// FuzzText: any JSON can be searched for halves of surrogate pairs.
func FuzzText(f *testing.F) {
	f.Add([]byte(`{"a":["\u0000"]}`))
	f.Add([]byte(`"\ud83d\ude00"`))
	f.Add([]byte("[\"\xff\"]"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if json.Valid(raw) {
			cost.Check(t, len(raw), func() { _, _ = jsonscan.BadString(raw) })
		}
	})
}
