package engine

import (
	"encoding/json"
	"testing"
)

// FuzzPointers: a JSON Pointer into anything finds JSON or nothing.
func FuzzPointers(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b~":2}],"":3}`), "/a/1/b~0")
	f.Add([]byte(`[[]]`), "/0/-1")
	f.Add([]byte(`{"a":1,"a":2}`), "/")
	f.Fuzz(func(t *testing.T, raw []byte, pointer string) {
		if !json.Valid(raw) {
			return
		}
		if v, ok := at(raw, pointer); ok && !json.Valid(v) {
			t.Fatalf("%q in %q is %q", pointer, raw, v)
		}
	})
}

// FuzzMerge: a merge patch of objects is an object, and the same again changes
// nothing.
func FuzzMerge(f *testing.F) {
	f.Add([]byte(`{"a":{"b":1}}`), []byte(`{"a":{"b":null},"c":[null]}`))
	f.Add([]byte(`{}`), []byte(`{"a":{"b":{"c":null}}}`))
	f.Fuzz(func(t *testing.T, target, patch []byte) {
		if !json.Valid(target) || !json.Valid(patch) {
			return
		}
		once := merge(target, patch)
		if !json.Valid(once) {
			t.Fatalf("%q with %q is %q", target, patch, once)
		}
		var object map[string]json.RawMessage
		if json.Unmarshal(patch, &object) == nil && object != nil && string(merge(once, patch)) != string(once) {
			t.Fatalf("%q with %q is %q, then %q", target, patch, once, merge(once, patch))
		}
	})
}

// FuzzText: a text with NUL, or that is not UTF-8, is found, and nothing else is.
func FuzzText(f *testing.F) {
	f.Add([]byte(`{"a":["\u0000"]}`))
	f.Add([]byte(`"\ud83d\ude00"`))
	f.Add([]byte("[\"\xff\"]"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if json.Valid(raw) {
			_, _ = badString(raw)
			_ = halved(raw)
		}
	})
}
