package engine_test

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

func TestStartAndStop(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			p := pawltest.OpenReal(t, which, engine.Options{})
			if s, err := p.Service.Stats(t.Context()); err != nil || s.Sweeps.IsRunning {
				t.Fatalf("before it was started: running %t, %v", s.Sweeps.IsRunning, err)
			}
			r := p.Engine.Start(context.Background())
			for wait := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
				l, err := p.Service.ListSweeps(t.Context(), pawl.Page{})
				if err != nil {
					t.Fatal(err)
				}
				if len(l.Items) > 0 {
					break
				}
				if time.Now().After(wait) {
					t.Fatal("no pass within 10 s of the start")
				}
			}
			if s, err := p.Service.Stats(t.Context()); err != nil || !s.Sweeps.IsRunning || !r.Running() {
				t.Errorf("while it runs: running %t and %t, %v", s.Sweeps.IsRunning, r.Running(), err)
			}
			if !r.Stop(true, 0) || r.Running() || !r.Stop(false, 0) {
				t.Error("it runs on after Stop")
			}
			if s, err := p.Service.Stats(t.Context()); err != nil || s.Sweeps.TotalScans < 1 || s.Sweeps.LastScan == nil {
				t.Errorf("after it: %+v, %v", s.Sweeps, err)
			}
		})
	}
}
