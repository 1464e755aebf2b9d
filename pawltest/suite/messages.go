package suite

import (
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

// claimedReply creates a task with a question and an open reply, and claims its item.
func (w *fixture) claimedReply() (pawl.Task, pawl.Lease) {
	w.Helper()
	t := w.create(
		pawl.NewTask{
			Type:     "chat",
			Thread:   "t1",
			Messages: []pawl.NewMessage{{Role: "user", Content: raw(`"Hello?"`)}},
			Reply:    &pawl.Reply{Model: "m1"},
		},
	)
	l := w.claim("w1")
	if l.OpenMessage == nil {
		w.Fatal("the claim does not name the open message")
	}
	return t, l
}

func (w *fixture) finish(l pawl.Lease, id string) pawl.Message {
	w.Helper()
	m, err := first(w.svc.FinishMessages(w.ctx, []pawl.FinishCall{{MessageFence: writerOf(l, id), Usage: raw(`{"output_tokens":2}`)}}))
	w.ok(err, "finish")
	return m
}

func (w *fixture) message(id string) pawl.Message {
	w.Helper()
	m, err := w.svc.GetMessage(w.ctx, id)
	w.ok(err, "get message")
	return m
}

// contentOf returns a message's content in a short form: its parts as type:text/status.
func (w *fixture) contentOf(id string) string {
	w.Helper()
	parts, err := w.message(id).Parts()
	w.ok(err, "parts")
	var out []string
	for _, p := range parts {
		s := p.Type
		if p.Text != nil {
			s += ":" + *p.Text
		}
		if p.ToolName != "" {
			s += ":" + p.ToolName
		}
		if p.Status != "" {
			s += "/" + p.Status
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

var messages = noun{"messages", []promise{
	{"a task is created with its messages and an open reply, in order", func(w *fixture) {
		t, l := w.claimedReply()
		w.same(t.Thread, "t1", "thread of the task")
		list, err := w.svc.ListMessages(w.ctx, pawl.MessageFilter{Thread: "t1"})
		w.ok(err, "list")
		w.same(len(list.Items), 2, "messages")
		newest, err := w.svc.ListMessages(w.ctx, pawl.MessageFilter{Thread: "t1", Desc: true, Page: pawl.Page{Limit: 1}})
		w.ok(err, "list, newest first")
		older, err := w.svc.ListMessages(w.ctx, pawl.MessageFilter{Thread: "t1", Desc: true, Page: pawl.Page{Limit: 1, Cursor: newest.Next}})
		w.ok(err, "the rest of it")
		w.same([]string{newest.Items[0].ID, older.Items[0].ID}, []string{list.Items[1].ID, list.Items[0].ID}, "newest first")
		user, reply := list.Items[0], list.Items[1]
		w.same(
			[]any{user.Role, user.Status, string(user.Content), user.TaskID, user.ItemID},
			[]any{"user", pawl.MessageComplete, `[{"type":"text","text":"Hello?"}]`, t.ID, l.ID},
			"the user's",
		)
		w.same(
			[]any{reply.Role, reply.Status, string(reply.Content), reply.Model, reply.MaxSteps, reply.Offset, reply.Thread},
			[]any{"assistant", pawl.MessageStreaming, `[{"type":"text","text":"","status":"streaming"}]`, "m1", 10, int64(0), "t1"},
			"the reply",
		)
		w.same(*l.OpenMessage, pawl.OpenMessage{ID: reply.ID}, "the claim's")
		list, err = w.svc.ListMessages(w.ctx, pawl.MessageFilter{TaskID: t.ID, Statuses: []pawl.MessageState{pawl.MessageStreaming}})
		w.ok(err, "list")
		w.same(len(list.Items), 1, "open ones")
	}},
	{"a message is readable as a whole at any time, and its chunks are folded when it ends", func(w *fixture) {
		t, l := w.claimedReply()
		id := l.OpenMessage.ID
		w.same(w.append(l, id, 0, "Hel", "lo"), int64(2), "offset")
		w.same(w.contentOf(id), "text:Hello/streaming", "mid-stream")
		n, err := w.tryAppend(l, id, 2, []pawl.Chunk{
			{Type: pawl.ChunkToolCall, ToolCallID: "c1", ToolName: "look", Input: raw(`{"q":12345678901234567890}`)},
			{Type: pawl.ChunkToolResult, ToolCallID: "c1", ToolName: "look", Output: raw(`[1]`)},
			{Type: pawl.ChunkReasoning, Text: "hm"}, {Type: pawl.ChunkText, Text: "!"},
		})
		w.ok(err, "append")
		w.same(n, int64(6), "offset")
		w.same(w.contentOf(id), "text:Hello tool-call:look tool-result:look reasoning:hm text:!/streaming", "mid-stream")
		m := w.finish(l, id)
		w.same(
			[]any{m.Status, m.Offset, string(m.Usage), m.Text()},
			[]any{pawl.MessageComplete, int64(6), `{"output_tokens":2}`, "Hello!"},
			"the end",
		)
		w.same(w.contentOf(id), "text:Hello tool-call:look tool-result:look reasoning:hm text:!", "the content")
		if !strings.Contains(string(m.Content), `{"type":"tool-call","toolCallId":"c1","toolName":"look","input":{"q":12345678901234567890}}`) {
			w.Errorf("content: %s", m.Content)
		}
		w.same(w.item(l.ID).State, pawl.ItemInProgress, "the item goes on")
		var got []string
		for _, e := range w.allEvents(pawl.EventFilter{TaskID: t.ID}) {
			if strings.HasPrefix(e.Event, "message_") {
				got = append(got, e.Event+" "+e.ActorType)
			}
		}
		w.same(got, []string{"message_started api", "message_started api", "message_ended worker"}, "events")
	}},
	{"a worker starts messages of its item, one open at a time", func(w *fixture) {
		t := w.create(pawl.NewTask{Type: "a", Thread: "mine"})
		l := w.claim("w1")
		m, err := first(
			w.svc.StartMessages(w.ctx, []pawl.StartCall{{Fence: l.Fence(), Role: "assistant", Model: "m2", MaxSteps: 3, Metadata: raw(`{"a":1}`)}}),
		)
		w.ok(err, "start")
		w.same(
			[]any{m.Status, m.Thread, m.Model, m.MaxSteps, string(m.Metadata), m.Attempt, m.TaskID},
			[]any{pawl.MessageStreaming, "mine", "m2", 3, `{"a":1}`, 1, t.ID},
			"the message",
		)
		_, err = first(w.svc.StartMessages(w.ctx, []pawl.StartCall{{Fence: l.Fence(), Role: "assistant"}}))
		w.conflict(err, "streaming", "finish", "stop")
		tool, err := first(
			w.svc.StartMessages(
				w.ctx,
				[]pawl.StartCall{{Fence: l.Fence(), Role: "tool", Content: raw(`[{"type":"tool-result","toolCallId":"x","custom":1}]`)}},
			),
		)
		w.ok(err, "start")
		w.same(
			[]any{tool.Status, string(tool.Content)},
			[]any{pawl.MessageComplete, `[{"type":"tool-result","toolCallId":"x","custom":1}]`},
			"one that is whole at once",
		)
		w.finish(l, m.ID)
		list, err := w.svc.ListMessages(w.ctx, pawl.MessageFilter{ItemID: l.ID})
		w.ok(err, "list")
		w.same([]any{len(list.Items), list.Items[0].ID, list.Items[1].ID}, []any{2, m.ID, tool.ID}, "the item's")
	}},
	{"a message says when it was written last, and is stalled while no worker writes it", func(w *fixture) {
		stalled := func(want int) {
			w.Helper()
			list, err := w.svc.ListMessages(w.ctx, pawl.MessageFilter{Stalled: true})
			w.ok(err, "list")
			s, err := w.svc.Stats(w.ctx)
			w.ok(err, "stats")
			w.same([]any{len(list.Items), s.Stalled, s.Streaming}, []any{want, int64(want), int64(1)}, "stalled messages")
		}
		read := func(id string) pawl.Message {
			w.Helper()
			m, err := w.svc.GetMessage(w.ctx, id)
			w.ok(err, "get")
			return m
		}
		_, l := w.claimedReply()
		id := l.OpenMessage.ID
		m := read(id)
		w.same([]any{m.UpdatedAt, m.CheckpointID}, []any{m.CreatedAt, ""}, "nothing is written")
		stalled(0)
		w.advance(30 * time.Second)
		w.append(l, id, 0, "one")
		step := w.step(l, id)
		m = read(id)
		w.same([]any{m.UpdatedAt.Sub(m.CreatedAt), m.CheckpointID}, []any{30 * time.Second, step.ID}, "a chunk and a step")
		w.advance(61 * time.Second)
		stalled(0) // its worker may be thinking
		w.advance(5 * time.Minute)
		stalled(1)
		w.sweep()
		stalled(1) // no other has taken it up
		l = w.claim("w2")
		stalled(0)
		w.finish(l, id)
		m = read(id)
		w.same(m.UpdatedAt, *m.EndedAt, "an end")
		list, err := w.svc.ListMessages(w.ctx, pawl.MessageFilter{Stalled: true})
		w.ok(err, "list")
		w.same(len(list.Items), 0, "stalled messages at the end")
	}},
	{"stop keeps the content, and the worker is told", func(w *fixture) {
		_, l := w.claimedReply()
		id := l.OpenMessage.ID
		w.append(l, id, 0, "so far")
		m, err := first(w.svc.StopMessages(w.ctx, []pawl.StopCall{{MessageID: id, Reason: "enough"}}))
		w.ok(err, "stop")
		w.same([]any{m.Status, m.Text()}, []any{pawl.MessageStopped, "so far"}, "the message")
		_, err = w.tryAppend(l, id, 1, texts("more"))
		w.conflict(err, "stopped")
		_, err = first(w.svc.StopMessages(w.ctx, []pawl.StopCall{{MessageID: id}}))
		w.conflict(err, "stopped")
		beat, err := first(w.svc.Heartbeat(w.ctx, []pawl.HeartbeatCall{{Fence: l.Fence()}}))
		w.ok(err, "heartbeat")
		w.same(beat.Stopped, []string{id}, "the heartbeat's")
		w.same(w.item(l.ID).State, pawl.ItemInProgress, "the item stays leased")
		w.complete(l, `1`)
		w.same(w.follow(id, -1), "0:so far end:stopped/1", "the stream")
		_, err = first(w.svc.StopMessages(w.ctx, []pawl.StopCall{{MessageID: "msg_nope"}}))
		w.refused(err, pawl.CodeNotFound)
	}},
	{"a worker that claims after a stop is told by the claim and by each heartbeat", func(w *fixture) {
		for _, when := range []string{"while nobody holds it", "before its holder learns"} {
			t := w.create(pawl.NewTask{Type: "chat", Reply: &pawl.Reply{}})
			l := w.claimItem("w1", w.onlyItem(t.ID).ID)
			w.same(len(l.Stopped), 0, "nothing was stopped")
			id := l.OpenMessage.ID
			w.append(l, id, 0, "so far")
			stop := func() {
				_, err := first(w.svc.StopMessages(w.ctx, []pawl.StopCall{{MessageID: id}}))
				w.ok(err, "stop")
			}
			if when == "while nobody holds it" {
				w.expire(l)
				stop()
			} else {
				stop()
				w.expire(l)
			}
			l = w.claimItem("w2", l.ID)
			w.same([]any{l.Stopped, l.OpenMessage == nil}, []any{[]string{id}, true}, "the claim, stopped "+when)
			beat, err := first(w.svc.Heartbeat(w.ctx, []pawl.HeartbeatCall{{Fence: l.Fence()}}))
			w.ok(err, "heartbeat")
			w.same(beat.Stopped, []string{id}, "the heartbeat's, stopped "+when)
			next, err := first(w.svc.StartMessages(w.ctx, []pawl.StartCall{{Fence: l.Fence(), Role: "assistant"}}))
			w.ok(err, "start")
			w.expire(l)
			l = w.claimItem("w3", l.ID)
			w.same([]any{l.OpenMessage.ID, len(l.Stopped)}, []any{next.ID, 0}, "the claim when another one is open")
			w.complete(l, `1`)
		}
	}},
	{"open messages end with their item", func(w *fixture) {
		w.claimedReply()
		done := w.onlyItem(w.create(pawl.NewTask{Type: "done", Reply: &pawl.Reply{}}).ID)
		l := w.claimItem("w1", done.ID)
		w.append(l, l.OpenMessage.ID, 0, "a")
		w.complete(l, `1`)
		w.same(w.message(l.OpenMessage.ID).Status, pawl.MessageComplete, "completed")
		t := w.create(pawl.NewTask{Type: "gone", Reply: &pawl.Reply{}})
		l = w.claimItem("w1", w.onlyItem(t.ID).ID)
		w.append(l, l.OpenMessage.ID, 0, "a")
		w.cancel(t.ID)
		w.same(w.message(l.OpenMessage.ID).Status, pawl.MessageStopped, "cancelled")
		t = w.create(pawl.NewTask{Type: "bad", MaxAttempts: 1, Reply: &pawl.Reply{}})
		l = w.claimItem("w1", w.onlyItem(t.ID).ID)
		w.failNow(l, "no")
		w.same(w.message(l.OpenMessage.ID).Status, pawl.MessageError, "failed")
	}},
}}
