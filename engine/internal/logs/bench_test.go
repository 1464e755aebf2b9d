package logs_test

import (
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// BenchmarkLog measures how fast a log that lags catches up: events that wait for their
// leaves, an operation each. On PostgreSQL the processor time of this process is that of a
// profile; the server's is not in it.
func BenchmarkLog(b *testing.B) {
	for _, which := range pawltest.Databases {
		b.Run(string(which), func(b *testing.B) {
			p := pawltest.OpenReal(b, which, engine.Options{})
			if err := p.Engine.Log(b.Context()); err != nil {
				b.Fatal(err)
			}
			for made := 0; made < b.N; made += 2000 { // an item's creation and claim
				calls := make([]pawl.NewTask, 1000)
				for i := range calls {
					calls[i] = pawl.NewTask{Type: "a", Payload: []byte(`{"n":1}`)}
				}
				if _, err := p.Engine.CreateTasks(b.Context(), calls); err != nil {
					b.Fatal(err)
				}
				if _, err := p.Engine.Claim(b.Context(), pawl.ClaimRequest{WorkerID: "w", Limit: 1000}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			b.ResetTimer()
			if err := p.Engine.Log(b.Context()); err != nil {
				b.Fatal(err)
			}
		})
	}
}
