package engine_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// BenchmarkRetire measures the retention of tasks of one item, an operation each: their archives, with proofs that
// their events are in the signed log, and their removal. On PostgreSQL the processor time of this process is that of a
// profile; the server's is not in it.
func BenchmarkRetire(b *testing.B) {
	for _, which := range pawltest.Databases {
		b.Run(string(which), func(b *testing.B) {
			sweeps := pawl.DefaultSweepOptions()
			sweeps.RetainTasks = time.Microsecond
			p := pawltest.OpenReal(b, which, engine.Options{Sweep: &sweeps})
			calls := pawltest.NewCalls(b, p.Engine)
			for made := 0; made < b.N; made += 500 {
				tasks := make([]pawl.NewTask, 500)
				for i := range tasks {
					tasks[i] = pawl.NewTask{Type: "a", Payload: []byte(fmt.Sprintf(`{"n":%d}`, made+i))}
				}
				if _, err := p.Engine.CreateTasks(b.Context(), tasks); err != nil {
					b.Fatal(err)
				}
				ends := make([]pawl.CompleteCall, 500)
				for i, l := range calls.ClaimN(500, pawl.ClaimRequest{WorkerID: "w"}) {
					ends[i] = pawl.CompleteCall{Fence: l.Fence(), Result: []byte(`{"done":true}`)}
				}
				if _, err := p.Engine.Complete(b.Context(), ends); err != nil {
					b.Fatal(err)
				}
			}
			if err := p.Engine.Log(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.ResetTimer()
			for pruned := int64(0); pruned < int64(b.N); {
				s, err := p.Engine.Sweep(b.Context())
				if err != nil {
					b.Fatal(err)
				}
				if s.TasksPruned == 0 {
					b.Fatal("nothing is due")
				}
				pruned += s.TasksPruned
			}
		})
	}
}
