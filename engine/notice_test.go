package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// A claim that waits in one process hears of work made in another before it
// polls: its polls are seconds apart by then, and three in a row do not all
// happen to fall into the moment.
func TestWorkOfAnotherProcessIsHeardOf(t *testing.T) {
	p := pawltest.OpenReal(t, pawltest.Postgres, engine.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	waiting, err := engine.OpenWith(ctx, p.URL, engine.Options{PollInterval: time.Hour, Schema: p.Schema})
	if err != nil {
		t.Fatal(err)
	}
	defer waiting.Close()
	late := 0
	for range 3 {
		got := make(chan time.Time, 1)
		go func() {
			leases, err := waiting.Claim(ctx, pawl.ClaimRequest{WorkerID: "w1", Types: []string{"heard"}, WaitSeconds: 20})
			at := time.Now()
			if err == nil && len(leases) == 1 {
				_, err = pawl.Complete(ctx, waiting, leases[0].Fence(), nil)
			}
			if err != nil || len(leases) != 1 {
				t.Errorf("claimed %d, %v", len(leases), err)
			}
			got <- at
		}()
		time.Sleep(1500 * time.Millisecond)
		if _, err := pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "heard"}); err != nil {
			t.Fatal(err)
		}
		made := time.Now()
		if (<-got).Sub(made) > 400*time.Millisecond {
			late++
		}
	}
	if late == 3 {
		t.Error("no notice was heard: every claim waited for its poll")
	}
}
