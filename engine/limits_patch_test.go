package engine

import (
	"testing"

	"github.com/pawl-work/pawl"
)

func TestALimitThatIsNotKnown(t *testing.T) {
	for patch, want := range map[string]pawl.Field{
		`{"concurency": 1}`:                  {Pointer: "/concurency", Message: "is not known here; did you mean concurrency?"},
		`{"per_key": {"rate": {"brst": 1}}}`: {Pointer: "/per_key/rate/brst", Message: "is not known here; did you mean burst?"},
		`{"colour": 1}`:                      {Pointer: "/colour", Message: "is not known here"},
	} {
		_, _, err := patchLimits("{}", pawl.QueuePatch(patch))
		if got := pawl.FieldsOf(err); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %v, want %v", patch, got, want)
		}
	}
}
