package feed

import (
	"slices"
	"testing"

	"github.com/pawl-work/pawl/store"
)

// Lists of spans are the sets of their numbers: what is left of one without another, and what both have.
func TestSpansAreSets(t *testing.T) {
	const n = 7
	spans := func(set int) []store.Span {
		var seen []int64 // the numbers that are not in the set
		for i := range n {
			if set>>i&1 == 0 {
				seen = append(seen, int64(i))
			}
		}
		return missing(-1, n-1, seen)
	}
	for a := range 1 << n {
		for b := range 1 << n {
			if got, want := subtract(spans(a), spans(b)), spans(a&^b); !slices.Equal(got, want) {
				t.Fatalf("%v without %v is %v, want %v", spans(a), spans(b), got, want)
			}
			if got, want := intersect(spans(a), spans(b)), spans(a&b); !slices.Equal(got, want) {
				t.Fatalf("%v and %v have %v, want %v", spans(a), spans(b), got, want)
			}
		}
	}
}
