package engine_test

import (
	"context"
	"log/slog"
	"strings"
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
			for wait := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
				l, err := p.Service.ListSweeps(t.Context(), pawl.Page{})
				if err != nil {
					t.Fatal(err)
				}
				if len(l.Items) > 0 {
					break
				}
				if time.Now().After(wait) {
					t.Fatal("no pass after the start")
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

// Close may be called while Run is in progress: Run ends, and logs nothing about a closed
// database.
func TestCloseEndsRun(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			var log strings.Builder
			url, schema := pawltest.Place(t, which)
			eng, err := engine.OpenWith(t.Context(), url, engine.Options{Schema: schema, Log: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			r := eng.Start(t.Context())
			time.Sleep(5 * time.Millisecond) // somewhere in its first pass, as in a program that ends at once
			if err := eng.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
			for wait := time.Now().Add(time.Minute); r.Running(); time.Sleep(time.Millisecond) {
				if time.Now().After(wait) {
					t.Fatal("it runs on in a closed engine")
				}
			}
			if err := eng.Run(t.Context()); err != nil {
				t.Errorf("run after Close: %v", err)
			}
			if said := log.String(); said != "" {
				t.Errorf("it logged %q", said)
			}
		})
	}
}
