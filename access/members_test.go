package access

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
)

// shown are the raw members that every reader may see: the caller's own notes, the names and
// states of parts, and counts of tokens.
var shown = []string{"metadata", "parts_required", "parts_state", "usage"}

// A member that holds raw JSON is hidden from keys without payloads, unless it is listed
// here: a new one is not shown by mistake.
func TestRawMembersAreHiddenOrListed(t *testing.T) {
	for _, v := range []any{
		pawl.Task{}, pawl.Item{}, pawl.Lease{}, pawl.ItemPart{}, pawl.Checkpoint{}, pawl.Event{}, pawl.Message{}, pawl.Key{},
	} {
		for _, f := range reflect.VisibleFields(reflect.TypeOf(v)) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Type == reflect.TypeFor[json.RawMessage]() && !slices.Contains(payloads, name) && !slices.Contains(shown, name) {
				t.Errorf("%T.%s: %q is neither hidden nor shown to every reader", v, f.Name, name)
			}
		}
	}
}
