package engine

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
)

// The sizes that end pages are no smaller than what is written.
func TestSizesOfResumeRows(t *testing.T) {
	id, at := "itm_01M7YH9A2PCVZ30GRS0J6YB1ZD", time.Date(2026, 1, 29, 10, 0, 0, 123456000, time.UTC)
	for _, name := range []string{"a", strings.Repeat("é", pawl.MaxStepNameLen/2), strings.Repeat(`"`, pawl.MaxStepNameLen)} {
		for _, snapshot := range []string{`1`, `"` + strings.Repeat("x", 1000) + `"`} {
			c := pawl.Checkpoint{ID: id, TaskID: id, ItemID: id, Attempt: 1000, Sequence: 1_000_000_000, Type: pawl.StateTransition, Name: name,
				ArgsHash: strings.Repeat("f", 64), Snapshot: json.RawMessage(snapshot), Metadata: json.RawMessage(snapshot), CreatedAt: at}
			whole, err := json.Marshal(map[string]pawl.Checkpoint{name: c})
			if err != nil {
				t.Fatal(err)
			}
			most := len(whole) + 1536 + len(name) // as if each byte of the name were escaped
			if n := sizeOfCheckpoint(&c, len(c.Snapshot)) + 2*len(name); n < len(whole) || n > most {
				t.Errorf("a step of %d bytes counts as %d", len(whole), n)
			}
		}
	}
}
