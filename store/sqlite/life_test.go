package sqlite

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawl-work/pawl/store"
)

func TestLifeOfASoloTask(t *testing.T) {
	h := newDatabase(t)
	id := h.solo()
	h.want("task", h.table("SELECT state, version, items, open FROM pawl.task_rows"), "queued 0 1 1")
	h.advance(time.Second)
	got := h.claim("w1", 10)
	if len(got) != 1 || got[0].ItemID != id || got[0].Attempt != 1 ||
		string(got[0].Input) != `{"n":0}` || got[0].LeaseExpiresAt != h.stamp()+minute {
		t.Fatalf("claimed %+v", got)
	}
	h.want("task", h.table("SELECT state FROM pawl.task_rows"), "checked_out")
	beats := h.touch(store.Touch{Ord: 7, Fence: fence("w1", got[0]), Extend: true})
	if len(beats) != 1 || beats[0].Ord != 7 || beats[0].State != "in_progress" || beats[0].LeaseSeconds != 60 || beats[0].Now != h.stamp() {
		t.Fatalf("beats %+v", beats)
	}
	moved := h.complete("w1", got...)
	if len(moved) != 1 || !moved[0].Settled || moved[0].State != "completed" || moved[0].TaskID != got[0].TaskID {
		t.Fatalf("moved %+v", moved)
	}
	h.want("task", h.table("SELECT state, version, open FROM pawl.task_rows"), "completed 1 0")
	h.want("no counter row", h.table("SELECT COUNT(*) FROM pawl.task_counters"), "0")
	h.want("end", h.table("SELECT @state_name(state), attempt, failures, @name_of(worker), started_at, ended_at, result "+
		"FROM pawl.finished_items"),
		fmt.Sprintf(`completed 1 0 w1 %[1]d %[1]d "done"`, h.stamp()))
	h.want("events", h.events(id), `proposed - queued - open - api someone {"of":"task"}
leased queued leased - - 1 worker w1 -
in_progress leased in_progress - - 1 worker w1 -
completed in_progress completed open completed 1 worker w1 -`)
	h.want("again", fmt.Sprint(h.complete("w1", got...)), "[]")
}
