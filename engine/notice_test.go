package engine_test

import (
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// A process gets notices of work that another process creates. So the claims that wait in
// it need not poll.
func TestWorkOfAnotherProcessIsHeardOf(t *testing.T) {
	t.Parallel()
	p := pawltest.OpenReal(t, pawltest.Postgres, engine.Options{})
	waiting := p.Another(engine.Options{PollInterval: time.Hour})
	until := func(what string, so func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !so(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal(what)
			}
		}
	}
	until("it does not listen", waiting.Hears)
	if waiting.Told() {
		t.Fatal("it was told of nothing")
	}
	task := need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "heard"}))
	until("no notice was heard", waiting.Told)
	ls := need[[]pawl.Lease](t)(waiting.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w", Types: []string{"heard"}}))
	if len(ls) != 1 || ls[0].TaskID != task.ID {
		t.Fatalf("claimed %v", ls)
	}
}
