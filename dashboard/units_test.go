package dashboard_test

import (
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// Durations are in the units that people say, and what stands side by side is kept apart.
func TestDurationsAndProgressAreReadable(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	h := open(t, p, false)
	for name, seconds := range map[string]int{"often": 1800, "seldom": 90_061, "now": 5} {
		_, err := p.Service.CreateSchedule(t.Context(), pawl.NewSchedule{Name: name, EverySeconds: seconds, Task: pawl.NewTask{Type: "a"}})
		if err != nil {
			t.Fatal(err)
		}
	}
	h.has(h.get("/ui/schedules"), 200, ">every 30 min<", ">every 1 d 1 h 1 min 1 s<", ">every 5 s<")
	it := p.Create(pawl.NewTask{Type: "b"})
	p.Advance(67 * time.Second)
	h.has(h.get("/ui/queues"), 200, ">1 min 7 s<")
	if _, err := p.Service.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w", Types: []string{"b"}, LeaseSeconds: 3600}); err != nil {
		t.Fatal(err)
	}
	p.Advance(5 * time.Minute)
	h.has(h.get("/ui/tasks/"+it.ID), 200, "it last called 5m0s ago", "0 %, Leased")
}
