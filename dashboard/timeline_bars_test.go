package dashboard_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// The picture of a run says which step took how long, what was waited for, what a message cost, what became of
// an effect, and which children ran meanwhile.
func TestThePictureOfARun(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, false)
		task := p.Create(pawl.NewTask{Type: "work", Title: "the parent", Items: []pawl.NewItem{
			{Key: "write", After: []string{"read"}}, {Key: "read"}}})
		l := h.claim("work")
		usage := `{"input_tokens":120,"output_tokens":30,"cost":0.02}`
		save := func(c pawl.NewCheckpoint) {
			c.Snapshot = json.RawMessage(`1`)
			only[pawl.CheckpointRef](t)(p.Service.Checkpoint(t.Context(), []pawl.CheckpointCall{{Fence: l.Fence(), NewCheckpoint: c}}))
		}
		p.Advance(3 * time.Second)
		save(pawl.NewCheckpoint{Type: pawl.ToolExecuted, Name: "download", ArgsHash: "ab", Metadata: json.RawMessage(`{"took_ms":2500}`)})
		p.Advance(4 * time.Second)
		save(pawl.NewCheckpoint{Type: pawl.LLMResponse, Name: "by another program"})
		p.Advance(time.Second)
		for n := range 30 { // more than the list of steps on the page has
			save(pawl.NewCheckpoint{Type: pawl.ToolExecuted, Name: fmt.Sprintf("fast %d", n), ArgsHash: "ab"})
		}

		m := only[pawl.Message](t)(p.Service.StartMessages(t.Context(), []pawl.StartCall{{Fence: l.Fence(), Role: "assistant", Model: "gemma"}}))
		p.Advance(2 * time.Second)
		only[pawl.Message](t)(p.Service.FinishMessages(t.Context(), []pawl.FinishCall{
			{MessageFence: pawl.MessageFence{MessageID: m.ID, WorkerID: l.WorkerID, Attempt: l.Attempt}, Usage: json.RawMessage(usage)}}))
		f, err := p.Service.OpenEffect(t.Context(), pawl.OpenEffectCall{
			ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt, Name: "charge", RequestHash: "cd"})
		if err != nil {
			t.Fatal(err)
		}
		p.Advance(time.Second)
		call := pawl.EffectDoneCall{ItemID: l.ID, WorkerID: l.WorkerID, Attempt: l.Attempt}
		if _, err := p.Service.EffectDone(t.Context(), f.ID, call); err != nil {
			t.Fatal(err)
		}
		p.Create(pawl.NewTask{Type: "child", Title: "look it up", ParentID: task.ID})
		only[pawl.Moved](t)(p.Service.Suspend(t.Context(), []pawl.SuspendCall{{Fence: l.Fence(), Signal: "answer", Key: "42"}}))
		p.Advance(time.Minute)

		got := h.get("/ui/tasks/" + task.ID)
		h.has(got, 200, "Timeline of 2 items", "download · 2.5 s", "by another program · at most 4.0 s",
			"message gemma · 2.0 s · 120 + 30 tokens, cost 0.02", "effect charge · 1.0 s · done", "wait for signal answer 42 · goes on",
			"child look it up · goes on · ", `<g class="length step">`, "<h2>Order</h2>", `<path d="M170 `, "4 items and tasks", "data-zoom")
		h.hasNot(got, "fast 29 · ", "style=")
		h.has(h.get("/ui/items/"+l.ID), 200, "download · 2.5 s", "effect charge", "the parent")
	})
}
