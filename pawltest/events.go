package pawltest

import (
	"slices"
	"testing"

	"github.com/pawl-work/pawl"
)

// Events returns the names of a task's events, in the order of the record.
func Events(t testing.TB, svc pawl.RecordReader, taskID string) []string {
	t.Helper()
	var out []string
	for f := (pawl.EventFilter{TaskID: taskID, Asc: true}); ; {
		list, err := svc.ListEvents(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list.Items {
			out = append(out, e.Event)
		}
		if f.Cursor = list.Next; f.Cursor == "" {
			return out
		}
	}
}

// WantEvents fails the test unless the events of a task have exactly these names, in this order.
func WantEvents(t testing.TB, svc pawl.RecordReader, taskID string, want ...string) {
	t.Helper()
	if got := Events(t, svc, taskID); !slices.Equal(got, want) {
		t.Errorf("the events of %s are\n\t%v\nwant\n\t%v", taskID, got, want)
	}
}
