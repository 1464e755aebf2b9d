package engine_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
)

func benchEngine(b *testing.B) *engine.Engine {
	e, err := engine.Open(b.Context(), "sqlite:"+filepath.Join(b.TempDir(), "work.db"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { e.Close() })
	return e
}

func benchTasks(b *testing.B, e *engine.Engine, n, payload int) []pawl.Task {
	input, _ := json.Marshal(strings.Repeat("x", payload))
	tasks := make([]pawl.NewTask, n)
	for i := range tasks {
		tasks[i] = pawl.NewTask{Type: "bench", Payload: input, Metadata: []byte(`{"customer": "7"}`)}
	}
	made, err := e.CreateTasks(b.Context(), tasks)
	if err != nil {
		b.Fatal(err)
	}
	out := make([]pawl.Task, n)
	for i, m := range made {
		if m.Err != nil {
			b.Fatal(m.Err)
		}
		out[i] = m.Value
	}
	return out
}

// Reads on SQLite, with a context that can be cancelled, like that of a request.
func BenchmarkSQLiteReads(b *testing.B) {
	e := benchEngine(b)
	small := benchTasks(b, e, 1000, 200)
	large := benchTasks(b, e, 1, 512<<10)
	reads := map[string]func(ctx context.Context) error{
		"get":        func(ctx context.Context) error { _, err := e.GetTask(ctx, small[500].ID); return err },
		"get_512KiB": func(ctx context.Context) error { _, err := e.GetTask(ctx, large[0].ID); return err },
		"list_100": func(ctx context.Context) error {
			_, err := e.ListTasks(ctx, pawl.TaskFilter{Page: pawl.Page{Limit: 100}})
			return err
		},
		"events_100": func(ctx context.Context) error {
			_, err := e.ListEvents(ctx, pawl.EventFilter{Page: pawl.Page{Limit: 100}})
			return err
		},
		"empty_claim": func(ctx context.Context) error {
			_, err := e.Claim(ctx, pawl.ClaimRequest{WorkerID: "w", Types: []string{"none"}})
			return err
		},
	}
	for _, name := range []string{"get", "get_512KiB", "list_100", "events_100", "empty_claim"} {
		read := reads[name]
		b.Run(name, func(b *testing.B) {
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			b.ReportAllocs()
			for b.Loop() {
				if err := read(ctx); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"_parallel", func(b *testing.B) {
			ctx, cancel := context.WithCancel(b.Context())
			defer cancel()
			b.SetParallelism(4)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := read(ctx); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// Whole lifecycles on SQLite, with one call for each verb.
func BenchmarkSQLiteLife(b *testing.B) {
	life := func(ctx context.Context, e *engine.Engine, worker string) error {
		if _, err := pawl.Create(ctx, e, pawl.NewTask{Type: "bench", Payload: []byte(`{"n":1}`)}); err != nil {
			return err
		}
		got, err := e.Claim(ctx, pawl.ClaimRequest{WorkerID: worker})
		for _, l := range got {
			if _, err := pawl.Complete(ctx, e, l.Fence(), []byte(`"ok"`)); err != nil {
				return err
			}
		}
		return err
	}
	b.Run("one_caller", func(b *testing.B) {
		e := benchEngine(b)
		b.ReportAllocs()
		for b.Loop() {
			if err := life(b.Context(), e, "w"); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("16_callers", func(b *testing.B) {
		e := benchEngine(b)
		b.SetParallelism(8)
		b.ResetTimer()
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := life(b.Context(), e, "w"); err != nil {
					b.Error(err)
					return
				}
			}
		})
	})
}
