package pawl_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/cost"
)

// FuzzFailure and FuzzDedupe check that the encoded form of a decoded value decodes to the same
// value.
func FuzzFailure(f *testing.F) {
	for _, s := range []string{`"no"`, `{"message":"no","code":"c","detail":{"a":1}}`, `null`, `{}`, `1`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) { cost.Check(t, len(data), func() { again[pawl.Failure](t, data) }) })
}

func FuzzDedupe(f *testing.F) {
	for _, s := range []string{`true`, `false`, `["/a","/b/0"]`, `[]`, `null`, `"x"`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) { cost.Check(t, len(data), func() { again[pawl.Dedupe](t, data) }) })
}

func again[T any](t *testing.T, data []byte) {
	t.Helper()
	var once, twice T
	if json.Unmarshal(data, &once) != nil {
		return
	}
	written, err := json.Marshal(once)
	if err != nil {
		return // a detail that is no JSON by itself
	}
	if err := json.Unmarshal(written, &twice); err != nil {
		t.Fatalf("%q became %q, which is not read: %v", data, written, err)
	}
	rewritten, err := json.Marshal(twice)
	if err != nil || !reflect.DeepEqual(written, rewritten) {
		t.Fatalf("%q became %q, then %q", data, written, rewritten)
	}
}
