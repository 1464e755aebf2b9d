package mcp

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// A question is asked, and its answer found, however many checkpoints the task has before them.
func TestQuestionsBehindManyCheckpointsAreAsked(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		task, err := pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "c"})
		if err != nil {
			t.Fatal(err)
		}
		l, err := p.Engine.Claim(ctx, pawl.ClaimRequest{WorkerID: "w"})
		if err != nil || len(l) != 1 {
			t.Fatal(l, err)
		}
		s := New(p.Service, Options{})
		save := func(typ, name string, snapshot any) {
			t.Helper()
			raw, _ := json.Marshal(snapshot)
			rs, err := p.Engine.Checkpoint(ctx, []pawl.CheckpointCall{{Fence: l[0].Fence(),
				NewCheckpoint: pawl.NewCheckpoint{Type: typ, Name: name, Snapshot: raw}}})
			if err != nil || rs[0].Err != nil {
				t.Fatal(err, rs)
			}
		}
		asks := func(want string) {
			t.Helper()
			open, err := s.pending(ctx, task.ID)
			if _, there := open[want]; err != nil || there != (want != "") || len(open) > 1 {
				t.Errorf("questions %v, %v; want %q", open, err, want)
			}
		}
		question := func(key string) map[string]any { return map[string]any{key: map[string]any{"message": "Which one?"}} }
		full := strings.Repeat("word ", 180_000)
		for i := range 10 {
			save(pawl.CustomCheckpoint, fmt.Sprint("state", i), full)
		}
		save(pawl.ApprovalPoint, askPrefix+"q", question("q"))
		asks("q")
		if err := s.answer(ctx, task.ID, "q", json.RawMessage(`{}`)); err != nil {
			t.Fatal(err)
		}
		asks("")
		for i := range 10 { // each is longer than a page with the next
			save(pawl.ApprovalPoint, fmt.Sprint(askPrefix, "r", i), map[string]any{"message": full})
		}
		save(pawl.ApprovalPoint, askPrefix+"s", question("s"))
		asks("s")
	})
}
