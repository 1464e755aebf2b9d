package access

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-work/pawl"
)

// A read waits for other reads of its key for 30 s, also one whose context does not end.
func TestAReadWaitsForABoundedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r readers
		leave, err := r.enter(t.Context(), "k", 1)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := r.enter(t.Context(), "k", 1); pawl.CodeOf(err) != pawl.CodeLimit {
			t.Errorf("a second read: %v", err)
		}
		if d := time.Since(began); d != 30*time.Second {
			t.Errorf("it waited for %v", d)
		}
		time.AfterFunc(29*time.Second, leave)
		second, err := r.enter(t.Context(), "k", 1)
		if err != nil {
			t.Fatalf("a read that waits for less: %v", err)
		}
		second()
		if len(r.by) != 0 {
			t.Errorf("%d keys are kept", len(r.by))
		}
	})
}
