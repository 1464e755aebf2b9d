package suite

import (
	"encoding/json"

	"github.com/pawl-work/pawl"
)

func (w *fixture) step(l pawl.Lease, id string) pawl.CheckpointRef {
	w.Helper()
	ref, err := first(w.svc.StepMessages(w.ctx, []pawl.StepCall{{MessageFence: writerOf(l, id)}}))
	w.ok(err, "step")
	return ref
}

var steps = noun{"steps", []promise{
	{"a step is a checkpoint, and the next attempt continues after it", func(w *fixture) {
		t, l := w.claimedReply()
		id := l.OpenMessage.ID
		n, err := w.tryAppend(
			l,
			id,
			0,
			append(
				texts("one. "),
				pawl.Chunk{Type: pawl.ChunkToolCall, ToolCallID: "c1", ToolName: "look"},
				pawl.Chunk{Type: pawl.ChunkToolResult, ToolCallID: "c1", Output: raw(`1`)},
			),
		)
		w.ok(err, "append")
		w.step(l, id)
		_, err = w.tryAppend(l, id, n, append(texts("tw"), pawl.Chunk{Type: pawl.ChunkToolCall, ToolCallID: "c2", ToolName: "send"}))
		w.ok(err, "append")
		w.expire(l)
		l = w.claim("w2")
		w.same(*l.OpenMessage, pawl.OpenMessage{ID: id, Offset: 5, StepNumber: 1}, "the claim's")
		state, err := w.svc.Resume(w.ctx, l.ID)
		w.ok(err, "resume")
		w.same(
			*state.OpenMessage,
			pawl.OpenMessage{
				ID:         id,
				Offset:     5,
				StepNumber: 1,
				ToolCalls:  []pawl.ToolCall{{ToolCallID: "c1", ToolName: "look", Done: true}, {ToolCallID: "c2", ToolName: "send"}},
			},
			"the resume's",
		)
		var snap struct {
			StepNumber int          `json:"step_number"`
			Text       string       `json:"text"`
			ToolCalls  []pawl.Chunk `json:"tool_calls"`
			Model      string       `json:"model"`
			MaxSteps   int          `json:"max_steps"`
		}
		w.ok(json.Unmarshal(state.Steps["step:1"].Snapshot, &snap), "snapshot")
		w.same(
			[]any{snap.StepNumber, snap.Text, len(snap.ToolCalls), snap.Model, snap.MaxSteps, state.IterationEnd.Name},
			[]any{1, "one. ", 1, "m1", 10, "step:1"},
			"the snapshot",
		)
		w.append(l, id, 5, "two.")
		w.same(
			w.contentOf(id),
			"text:one.  tool-call:look tool-result text:tw/abandoned tool-call:send/abandoned text:two./streaming",
			"the cut is seen",
		)
		w.step(l, id)
		m := w.finish(l, id)
		w.same([]any{m.Text(), m.StepNumber}, []any{"one. two.", 2}, "the message")
		w.same(w.follow(id, -1), "0:one.  1:look 2: 3:tw 4:send abandoned:3-5/1 5:two. end:complete/6", "the stream")
		w.same(w.follow(id, 4), "abandoned:3-5/1 5:two. end:complete/6", "from the cut on")
		w.same(w.follow(id, 5), "end:complete/6", "from the end on")
		w.sequencesTo(t.ID, 3)
	}},
	{"a step with a name is saved under it, with what it returned", func(w *fixture) {
		_, l := w.claimedReply()
		id := l.OpenMessage.ID
		w.append(l, id, 0, "one. ")
		call := pawl.StepCall{MessageFence: writerOf(l, id), Name: "intro", ArgsHash: "h", Snapshot: raw(`{"said":true}`),
			Metadata: raw(`{"big":9007199254740993,"message_id":"msg_other"}`)}
		_, err := first(w.svc.StepMessages(w.ctx, []pawl.StepCall{call}))
		w.ok(err, "step")
		w.append(l, id, 1, "tw")
		w.expire(l)
		l = w.claim("w2")
		state, err := w.svc.Resume(w.ctx, l.ID)
		w.ok(err, "resume")
		saved := state.Steps["intro"]
		w.same(
			[]any{len(state.Steps), saved.Type, saved.ArgsHash, string(saved.Snapshot), string(saved.Metadata), state.OpenMessage.StepNumber},
			[]any{1, pawl.IterationEnd, "h", `{"said":true}`,
				`{"big":9007199254740993,"message_id":"` + id + `","offset":1,"step_number":1}`, 1},
			"the step",
		)
		call = pawl.StepCall{MessageFence: writerOf(l, id), Name: "end", Snapshot: raw(`null`)}
		_, err = first(w.svc.StepMessages(w.ctx, []pawl.StepCall{call})) // writes nothing, and takes the message over
		w.ok(err, "step")
		w.same(w.contentOf(id), "text:one.  text:tw/abandoned text:/streaming", "the content")
		state, err = w.svc.Resume(w.ctx, l.ID)
		w.ok(err, "resume")
		w.same(string(state.Steps["end"].Snapshot), "null", "a step that returned nothing")
		call.Snapshot = nil
		_, err = first(w.svc.StepMessages(w.ctx, []pawl.StepCall{call}))
		w.invalid(err, "/snapshot")
	}},
	{"when the budget is spent the message ends with its content; a retry opens it again", func(w *fixture) {
		t := w.create(pawl.NewTask{Type: "chat", MaxAttempts: 1, Reply: &pawl.Reply{}})
		l := w.claim("w1")
		id := l.OpenMessage.ID
		w.append(l, id, 0, "half")
		w.expire(l)
		w.same([]any{w.message(id).Status, w.contentOf(id)}, []any{pawl.MessageError, "text:half"}, "the message")
		w.same(w.follow(id, -1), "0:half end:error/1", "the stream")
		w.retry(t.ID)
		w.same([]any{w.message(id).Status, w.contentOf(id)}, []any{pawl.MessageStreaming, "text:half/streaming"}, "after the retry")
		l = w.claim("w2")
		w.same(*l.OpenMessage, pawl.OpenMessage{ID: id, Offset: 1}, "the claim's")
		w.append(l, id, 1, "whole")
		w.same(w.finish(l, id).Text(), "whole", "text")
		w.same(w.contentOf(id), "text:half/abandoned text:whole", "content")
		w.failNow(l, "no")
	}},
	{"a message cannot have more steps than max_steps", func(w *fixture) {
		t := w.create(pawl.NewTask{Type: "chat", Reply: &pawl.Reply{MaxSteps: 2}})
		l := w.claim("w1")
		id := l.OpenMessage.ID
		w.append(l, id, 0, "a")
		w.step(l, id)
		w.expire(l)
		l = w.claim("w2")
		w.append(l, id, 1, "b")
		w.step(l, id)
		w.append(l, id, 2, "c")
		_, err := first(w.svc.StepMessages(w.ctx, []pawl.StepCall{{MessageFence: writerOf(l, id)}}))
		w.conflict(err, "streaming", "finish", "stop")
		m := w.finish(l, id)
		w.same([]any{m.StepNumber, m.Text()}, []any{2, "abc"}, "the message has its last words")
		w.sequencesTo(t.ID, 3)
	}},
}}
