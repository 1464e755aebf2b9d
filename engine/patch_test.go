package engine

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/wI2L/jsondiff"
	"pgregory.net/rapid"

	"github.com/pawl-work/pawl/engine/internal/rules"
)

// jsonValue draws JSON values that share many members and elements.
func jsonValue(depth int) *rapid.Generator[any] {
	scalar := rapid.SampledFrom([]any{nil, true, "a", "b/~<", json.Number("1"), json.Number("1.0"), json.Number("12345678901234567890")})
	if depth == 0 {
		return scalar
	}
	inner := jsonValue(depth - 1)
	return rapid.OneOf(scalar,
		rapid.Map(rapid.SliceOfN(inner, 0, 4), func(v []any) any { return v }),
		rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"", "a", "b", "a/b", "~", "é"}), inner, 0, 4),
			func(v map[string]any) any { return v }))
}

// The operations between two values are those of a library that other programs use.
func TestOperationsAreThoseOfRFC6902(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := map[string]any{"x": jsonValue(3).Draw(t, "before")} // the library adds a whole document of another kind
		after := map[string]any{"x": jsonValue(3).Draw(t, "after")}
		want, err := jsondiff.CompareJSON([]byte(rules.Encode(before)), []byte(rules.Encode(after)), jsondiff.UnmarshalFunc(decodeExact))
		if err != nil {
			t.Fatal(err)
		}
		var a, b any
		if err := decodeExact([]byte(rules.Encode(before)), &a); err != nil {
			t.Fatal(err)
		}
		if err := decodeExact([]byte(rules.Encode(after)), &b); err != nil {
			t.Fatal(err)
		}
		got := operations(a, b)
		if len(got) != len(want) || len(got) > 0 && string(rules.Encode(got)) != string(rules.Encode(want)) {
			t.Fatalf("from %s to %s: %s, want %s", rules.Encode(before), rules.Encode(after), rules.Encode(got), rules.Encode(want))
		}
	})
}

// Operations repeat names: many below a long one would be far larger than both values.
func TestOperationsAreNotLargerThanAPayload(t *testing.T) {
	long := strings.Repeat("n", 10_000)
	zeros, ones := make([]any, 1000), make([]any, 1000)
	for i := range zeros {
		zeros[i], ones[i] = json.Number("0"), json.Number("1")
	}
	before, after := map[string]any{long: zeros}, map[string]any{long: ones}
	if got := operations(before, after); len(got) != 1 || got[0].Op != "replace" || got[0].Path != "" {
		t.Errorf("%d operations", len(got))
	}
	ones[0] = zeros[0]
	if got := operations(map[string]any{long: zeros[:9]}, map[string]any{long: ones[:9]}); len(got) != 8 || got[0].Path != "/"+long+"/1" {
		t.Errorf("%d operations", len(got))
	}
}
