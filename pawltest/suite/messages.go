package suite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
)

// asked is a task made with a question and an open reply, claimed.
func (w *world) asked() (pawl.Task, pawl.Lease) {
	w.Helper()
	t := w.create(pawl.NewTask{Type: "chat", Thread: "t1", Messages: []pawl.NewMessage{{Role: "user", Content: raw(`"Hello?"`)}}, Reply: &pawl.Reply{Model: "m1"}})
	l := w.claim("w1")
	if l.OpenMessage == nil {
		w.Fatal("the claim does not name the open message")
	}
	return t, l
}

func writerOf(l pawl.Lease, id string) pawl.MessageFence {
	return pawl.MessageFence{MessageID: id, WorkerID: l.WorkerID, Attempt: l.Attempt}
}

func texts(words ...string) []pawl.Chunk {
	var out []pawl.Chunk
	for _, s := range words {
		out = append(out, pawl.Chunk{Type: pawl.ChunkText, Text: pawl.Words(s)})
	}
	return out
}

func (w *world) tryAppend(l pawl.Lease, id string, offset int64, chunks []pawl.Chunk) (int64, error) {
	w.Helper()
	a, err := first(w.svc.Append(w.ctx, []pawl.AppendCall{{MessageFence: writerOf(l, id), Offset: offset, Chunks: chunks}}))
	return a.Offset, err
}

func (w *world) append(l pawl.Lease, id string, offset int64, words ...string) int64 {
	w.Helper()
	n, err := w.tryAppend(l, id, offset, texts(words...))
	w.ok(err, "append")
	return n
}

func (w *world) step(l pawl.Lease, id string) pawl.CheckpointRef {
	w.Helper()
	ref, err := first(w.svc.StepMessages(w.ctx, []pawl.StepCall{{MessageFence: writerOf(l, id)}}))
	w.ok(err, "step")
	return ref
}

func (w *world) finish(l pawl.Lease, id string) pawl.Message {
	w.Helper()
	m, err := first(w.svc.FinishMessages(w.ctx, []pawl.FinishCall{{MessageFence: writerOf(l, id), Usage: raw(`{"output_tokens":2}`)}}))
	w.ok(err, "finish")
	return m
}

func (w *world) message(id string) pawl.Message {
	w.Helper()
	m, err := w.svc.GetMessage(w.ctx, id)
	w.ok(err, "get message")
	return m
}

// said is a message's content in short: the parts as type:text/status.
func (w *world) said(id string) string {
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

// follow reads a message to its end, in short.
func (w *world) follow(id string, after int64) string {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, 30*time.Second)
	defer cancel()
	var out []string
	err := w.svc.FollowMessage(ctx, id, after, func(f pawl.MessageFrame) error {
		out = append(out, frame(f)...)
		return nil
	})
	w.ok(err, "follow")
	return strings.Join(out, " ")
}

func frame(f pawl.MessageFrame) (out []string) {
	switch {
	case f.Abandoned != nil:
		return []string{fmt.Sprintf("abandoned:%d-%d/%d", f.Abandoned.From, f.Abandoned.To, f.Abandoned.Attempt)}
	case f.Snapshot != nil:
		return []string{"snapshot:" + f.Snapshot.Text()}
	case f.End != nil:
		return []string{fmt.Sprintf("end:%s/%d", f.End.Status, f.End.Offset)}
	}
	for i, c := range f.Chunks {
		out = append(out, fmt.Sprintf("%d:%s%s", f.Offset+int64(i), c.Text, c.ToolName))
	}
	return out
}

var messages = noun{"messages", []promise{
	{"a task is made with what was said and an open reply, in order", func(w *world) {
		t, l := w.asked()
		w.same(t.Thread, "t1", "thread of the task")
		list, err := w.svc.ListMessages(w.ctx, pawl.MessageFilter{Thread: "t1"})
		w.ok(err, "list")
		w.same(len(list.Items), 2, "messages")
		user, reply := list.Items[0], list.Items[1]
		w.same([]any{user.Role, user.Status, string(user.Content), user.TaskID, user.ItemID}, []any{"user", pawl.MessageComplete, `[{"type":"text","text":"Hello?"}]`, t.ID, l.ID}, "the user's")
		w.same([]any{reply.Role, reply.Status, string(reply.Content), reply.Model, reply.MaxSteps, reply.Offset, reply.Thread}, []any{"assistant", pawl.MessageStreaming, `[{"type":"text","text":"","status":"streaming"}]`, "m1", 10, int64(0), "t1"}, "the reply")
		w.same(*l.OpenMessage, pawl.OpenMessage{ID: reply.ID}, "the claim's")
		list, err = w.svc.ListMessages(w.ctx, pawl.MessageFilter{TaskID: t.ID, Statuses: []pawl.MessageState{pawl.MessageStreaming}})
		w.ok(err, "list")
		w.same(len(list.Items), 1, "open ones")
	}},
	{"a message is whole at any moment, and folded when it ends", func(w *world) {
		t, l := w.asked()
		id := l.OpenMessage.ID
		w.same(w.append(l, id, 0, "Hel", "lo"), int64(2), "offset")
		w.same(w.said(id), "text:Hello/streaming", "mid-stream")
		n, err := w.tryAppend(l, id, 2, []pawl.Chunk{
			{Type: pawl.ChunkToolCall, ToolCallID: "c1", ToolName: "look", Input: raw(`{"q":12345678901234567890}`)},
			{Type: pawl.ChunkToolResult, ToolCallID: "c1", ToolName: "look", Output: raw(`[1]`)},
			{Type: pawl.ChunkReasoning, Text: "hm"}, {Type: pawl.ChunkText, Text: "!"},
		})
		w.ok(err, "append")
		w.same(n, int64(6), "offset")
		w.same(w.said(id), "text:Hello tool-call:look tool-result:look reasoning:hm text:!/streaming", "mid-stream")
		m := w.finish(l, id)
		w.same([]any{m.Status, m.Offset, string(m.Usage), m.Text()}, []any{pawl.MessageComplete, int64(6), `{"output_tokens":2}`, "Hello!"}, "the end")
		w.same(w.said(id), "text:Hello tool-call:look tool-result:look reasoning:hm text:!", "the content")
		if !strings.Contains(string(m.Content), `{"type":"tool-call","toolCallId":"c1","toolName":"look","input":{"q":12345678901234567890}}`) {
			w.Errorf("content: %s", m.Content)
		}
		w.same(w.item(l.ID).State, pawl.ItemInProgress, "the item goes on")
		var got []string
		for _, e := range w.record(pawl.EventFilter{TaskID: t.ID}) {
			if strings.HasPrefix(e.Event, "message_") {
				got = append(got, e.Event+" "+e.ActorType)
			}
		}
		w.same(got, []string{"message_started api", "message_started api", "message_ended worker"}, "events")
	}},
	{"what was accepted may be sent again; gaps and lies say what is expected", func(w *world) {
		_, l := w.asked()
		id := l.OpenMessage.ID
		w.append(l, id, 0, "a", "b")
		w.append(l, id, 2, "c")
		w.same(w.append(l, id, 0, "a", "b"), int64(3), "a repeat")
		w.same(w.append(l, id, 1, "b", "c"), int64(3), "a repeat over two calls")
		for offset, words := range map[int64][]string{0: {"x"}, 1: {"b", "x"}, 2: {"c", "d"}, 4: {"e"}, 900: {"e"}} {
			_, err := w.tryAppend(l, id, offset, texts(words...))
			w.refused(err, pawl.CodeConflict)
			var e *pawl.Error
			if errors.As(err, &e); e.Expected == nil || *e.Expected != 3 {
				w.Errorf("%d %v: expected is %v", offset, words, e.Expected)
			}
		}
		w.same(w.said(id), "text:abc/streaming", "the content")
		w.finish(l, id)
		_, err := w.tryAppend(l, id, 3, texts("d"))
		w.conflict(err, "complete")
	}},
	{"only the holder of the lease writes", func(w *world) {
		_, l := w.asked()
		id := l.OpenMessage.ID
		w.append(l, id, 0, "a")
		w.expire(l)
		stale := l
		l = w.claim("w2")
		for _, err := range w.writes(stale, id) {
			w.refused(err, pawl.CodeLeaseLost)
		}
		other := l
		other.WorkerID = "w3"
		for _, err := range w.writes(other, id) {
			w.refused(err, pawl.CodeLeaseLost)
		}
		for _, err := range w.writes(l, "msg_nope") {
			w.refused(err, pawl.CodeNotFound)
		}
		for _, err := range w.in("elsewhere").writes(l, id) {
			w.refused(err, pawl.CodeNotFound)
		}
		w.same(w.said(id), "text:a/streaming", "nothing was written")
	}},
	{"two writers of one stream never mix", func(w *world) {
		_, l := w.asked()
		id := l.OpenMessage.ID
		var wg sync.WaitGroup
		for _, name := range []string{"x", "y", "z"} {
			wg.Go(func() {
				for offset := int64(0); offset < 20; {
					n, err := w.tryAppend(l, id, offset, texts(name+fmt.Sprint(offset)))
					var e *pawl.Error
					switch {
					case err == nil:
						offset = n
					case errors.As(err, &e) && e.Expected != nil:
						offset = *e.Expected
					default:
						w.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		parts, err := w.message(id).Parts()
		w.ok(err, "parts")
		rest := *parts[0].Text
		for n := range 20 {
			number := fmt.Sprint(n)
			if len(rest) < 1+len(number) || rest[1:1+len(number)] != number {
				w.Fatalf("chunk %d is missing in %s", n, *parts[0].Text)
			}
			rest = rest[1+len(number):]
		}
		w.finish(l, id)
	}},
	{"stop keeps what was said, and its worker learns", func(w *world) {
		_, l := w.asked()
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
	{"a step is a checkpoint, and the next attempt goes on after it", func(w *world) {
		t, l := w.asked()
		id := l.OpenMessage.ID
		n, err := w.tryAppend(l, id, 0, append(texts("one. "), pawl.Chunk{Type: pawl.ChunkToolCall, ToolCallID: "c1", ToolName: "look"}, pawl.Chunk{Type: pawl.ChunkToolResult, ToolCallID: "c1", Output: raw(`1`)}))
		w.ok(err, "append")
		w.step(l, id)
		_, err = w.tryAppend(l, id, n, append(texts("tw"), pawl.Chunk{Type: pawl.ChunkToolCall, ToolCallID: "c2", ToolName: "send"}))
		w.ok(err, "append")
		w.expire(l)
		l = w.claim("w2")
		w.same(*l.OpenMessage, pawl.OpenMessage{ID: id, Offset: 5, StepNumber: 1}, "the claim's")
		state, err := w.svc.Resume(w.ctx, l.ID)
		w.ok(err, "resume")
		w.same(*state.OpenMessage, pawl.OpenMessage{ID: id, Offset: 5, StepNumber: 1, ToolCalls: []pawl.ToolCall{{ToolCallID: "c1", ToolName: "look", Done: true}, {ToolCallID: "c2", ToolName: "send"}}}, "the resume's")
		var snap struct {
			StepNumber int          `json:"step_number"`
			Text       string       `json:"text"`
			ToolCalls  []pawl.Chunk `json:"tool_calls"`
			Model      string       `json:"model"`
			MaxSteps   int          `json:"max_steps"`
		}
		w.ok(json.Unmarshal(state.Steps["step:1"].Snapshot, &snap), "snapshot")
		w.same([]any{snap.StepNumber, snap.Text, len(snap.ToolCalls), snap.Model, snap.MaxSteps, state.IterationEnd.Name}, []any{1, "one. ", 1, "m1", 10, "step:1"}, "the snapshot")
		w.append(l, id, 5, "two.")
		w.same(w.said(id), "text:one.  tool-call:look tool-result text:tw/abandoned tool-call:send/abandoned text:two./streaming", "the cut is seen")
		w.step(l, id)
		m := w.finish(l, id)
		w.same([]any{m.Text(), m.StepNumber}, []any{"one. two.", 2}, "the message")
		w.same(w.follow(id, -1), "0:one.  1:look 2: 3:tw 4:send abandoned:3-5/1 5:two. end:complete/6", "the stream")
		w.same(w.follow(id, 4), "abandoned:3-5/1 5:two. end:complete/6", "from the cut on")
		w.same(w.follow(id, 5), "end:complete/6", "from the end on")
		w.dense(t.ID, 3)
	}},
	{"when the budget is spent the message ends with all that was said; a retry opens it again", func(w *world) {
		t := w.create(pawl.NewTask{Type: "chat", MaxAttempts: 1, Reply: &pawl.Reply{}})
		l := w.claim("w1")
		id := l.OpenMessage.ID
		w.append(l, id, 0, "half")
		w.expire(l)
		w.same([]any{w.message(id).Status, w.said(id)}, []any{pawl.MessageError, "text:half"}, "the message")
		w.same(w.follow(id, -1), "0:half end:error/1", "the stream")
		w.retry(t.ID)
		w.same([]any{w.message(id).Status, w.said(id)}, []any{pawl.MessageStreaming, "text:half/streaming"}, "after the retry")
		l = w.claim("w2")
		w.same(*l.OpenMessage, pawl.OpenMessage{ID: id, Offset: 1}, "the claim's")
		w.append(l, id, 1, "whole")
		w.same(w.finish(l, id).Text(), "whole", "text")
		w.same(w.said(id), "text:half/abandoned text:whole", "content")
		w.failNow(l, "no")
	}},
	{"what an item leaves open ends with it", func(w *world) {
		w.asked()
		done := w.only(w.create(pawl.NewTask{Type: "done", Reply: &pawl.Reply{}}).ID)
		l := w.claimItem("w1", done.ID)
		w.append(l, l.OpenMessage.ID, 0, "a")
		w.complete(l, `1`)
		w.same(w.message(l.OpenMessage.ID).Status, pawl.MessageComplete, "completed")
		t := w.create(pawl.NewTask{Type: "gone", Reply: &pawl.Reply{}})
		l = w.claimItem("w1", w.only(t.ID).ID)
		w.append(l, l.OpenMessage.ID, 0, "a")
		w.cancel(t.ID)
		w.same(w.message(l.OpenMessage.ID).Status, pawl.MessageStopped, "cancelled")
		t = w.create(pawl.NewTask{Type: "bad", MaxAttempts: 1, Reply: &pawl.Reply{}})
		l = w.claimItem("w1", w.only(t.ID).ID)
		w.failNow(l, "no")
		w.same(w.message(l.OpenMessage.ID).Status, pawl.MessageError, "failed")
	}},
	{"an item begins messages itself, one open at a time", func(w *world) {
		t := w.create(pawl.NewTask{Type: "a", Thread: "mine"})
		l := w.claim("w1")
		m, err := first(w.svc.StartMessages(w.ctx, []pawl.StartCall{{Fence: l.Fence(), Role: "assistant", Model: "m2", MaxSteps: 3, Metadata: raw(`{"a":1}`)}}))
		w.ok(err, "start")
		w.same([]any{m.Status, m.Thread, m.Model, m.MaxSteps, string(m.Metadata), m.Attempt, m.TaskID}, []any{pawl.MessageStreaming, "mine", "m2", 3, `{"a":1}`, 1, t.ID}, "the message")
		_, err = first(w.svc.StartMessages(w.ctx, []pawl.StartCall{{Fence: l.Fence(), Role: "assistant"}}))
		w.conflict(err, "streaming", "finish", "stop")
		tool, err := first(w.svc.StartMessages(w.ctx, []pawl.StartCall{{Fence: l.Fence(), Role: "tool", Content: raw(`[{"type":"tool-result","toolCallId":"x","custom":1}]`)}}))
		w.ok(err, "start")
		w.same([]any{tool.Status, string(tool.Content)}, []any{pawl.MessageComplete, `[{"type":"tool-result","toolCallId":"x","custom":1}]`}, "one that is whole at once")
		w.finish(l, m.ID)
		list, err := w.svc.ListMessages(w.ctx, pawl.MessageFilter{ItemID: l.ID})
		w.ok(err, "list")
		w.same([]any{len(list.Items), list.Items[0].ID, list.Items[1].ID}, []any{2, m.ID, tool.ID}, "the item's")
	}},
	{"a character cut in two comes out whole", func(w *world) {
		_, l := w.asked()
		id := l.OpenMessage.ID
		high, low := "\xed\xa0\xbd", "\xed\xb8\x80" // halves of 😀, as UTF-16 cuts it
		w.append(l, id, 0, "a"+high)
		w.same(w.said(id), "text:a/streaming", "half of it")
		w.append(l, id, 1, low+"b"+high, low, "c"+high)
		w.same(w.append(l, id, 0, "a"+high), int64(4), "a repeat")
		w.finish(l, id)
		w.same(w.message(id).Text(), "a😀b😀c", "the text")
		w.same(w.follow(id, -1), "0:a 1:😀b 2:😀 3:c end:complete/4", "the stream")
		w.same(w.follow(id, 0), "1:😀b 2:😀 3:c end:complete/4", "from within")
	}},
	{"half of a character that was cut off does not go over to what is said in its place", func(w *world) {
		_, l := w.asked()
		id := l.OpenMessage.ID
		w.append(l, id, 0, "a\xed\xa0\xbd")
		w.expire(l)
		l = w.claim("w2")
		w.append(l, id, 1, "b")
		w.same(w.said(id), "text:a/abandoned text:b/streaming", "content")
		w.finish(l, id)
		w.same(w.follow(id, -1), "0:a abandoned:0-1/1 1:b end:complete/2", "the stream")
		w.same(w.follow(id, 0), "abandoned:0-1/1 1:b end:complete/2", "from the cut on")
	}},
	{"readers who stay see every chunk once, as it is said", func(w *world) {
		_, l := w.asked()
		id := l.OpenMessage.ID
		const readers = 20
		got := make([]string, readers)
		var wg, begun sync.WaitGroup
		begun.Add(readers)
		for i := range readers {
			wg.Go(func() {
				once := false
				var out []string
				err := w.svc.FollowMessage(w.ctx, id, -1, func(f pawl.MessageFrame) error {
					if !once {
						once = true
						begun.Done()
					}
					out = append(out, frame(f)...)
					return nil
				})
				if err != nil {
					w.Error(err)
				}
				got[i] = strings.Join(out, " ")
			})
		}
		begun.Wait()
		var want []string
		for n := range int64(30) {
			w.append(l, id, n, fmt.Sprint("w", n))
			want = append(want, fmt.Sprintf("%d:w%d", n, n))
		}
		w.finish(l, id)
		wg.Wait()
		for i := range got {
			w.same(got[i], strings.Join(append(want, "end:complete/30"), " "), "a reader's")
		}
	}},
	{"a day after its end a reader gets the whole at once", func(w *world) {
		_, l := w.asked()
		id := l.OpenMessage.ID
		w.append(l, id, 0, "all", " of it")
		w.finish(l, id)
		w.complete(l, `1`)
		w.advance(24*time.Hour - time.Second)
		w.sweep()
		w.same(w.follow(id, 0), "1: of it end:complete/2", "until then")
		w.advance(2 * time.Second)
		w.sweep()
		w.same(w.follow(id, 0), "snapshot:all of it end:complete/2", "after that")
		w.same(w.follow(id, 1), "end:complete/2", "one who has it all")
		w.same(w.said(id), "text:all of it", "the content")
	}},
	{"bad input is refused with its place and writes nothing", func(w *world) {
		_, l := w.asked()
		id := l.OpenMessage.ID
		for pointer, chunk := range map[string]pawl.Chunk{
			"/chunks/1/text":         {Type: "text", Text: pawl.Words(strings.Repeat("x", 5<<20))},
			"/chunks/1/type":         {Type: "tool-call"},
			"/chunks/1/tool_call_id": {Type: "tool_call", ToolName: "a"},
			"/chunks/1/input":        {Type: "text", Text: "a", Input: raw(`1`)},
			"/chunks/1/url":          {Type: "file", MediaType: "image/png"},
		} {
			_, err := w.tryAppend(l, id, 0, append(texts("fine"), chunk))
			w.invalid(err, pointer)
		}
		for _, bad := range []string{"a\xffb", "\xf0\x9f\x98", "a\x00"} {
			_, err := w.tryAppend(l, id, 0, append(texts("fine"), texts(bad)...))
			w.invalid(err, "/chunks/1/text")
		}
		_, err := w.tryAppend(l, id, 0, nil)
		w.invalid(err, "/chunks")
		_, err = w.tryAppend(l, id, -1, texts("a"))
		w.invalid(err, "/offset")
		w.same(w.message(id).Offset, int64(0), "offset")
		w.invalid(w.svc.FollowMessage(w.ctx, id, 7, func(pawl.MessageFrame) error { return nil }), "/after")
		w.refused(w.svc.FollowMessage(w.ctx, "msg_nope", -1, func(pawl.MessageFrame) error { return nil }), pawl.CodeNotFound)
		for pointer, t := range map[string]pawl.NewTask{
			"/messages/0/role":    {Type: "a", Messages: []pawl.NewMessage{{Role: "boss", Content: raw(`"x"`)}}},
			"/messages/0/content": {Type: "a", Messages: []pawl.NewMessage{{Role: "user", Content: raw(`7`)}}},
			"/reply":              {Type: "a", Items: []pawl.NewItem{{Input: raw(`1`)}, {Input: raw(`2`)}}, Reply: &pawl.Reply{}},
		} {
			_, err := pawl.Create(w.ctx, w.svc, t)
			w.invalid(err, pointer)
		}
	}},
}}

// writes tries every verb of a message's writer.
func (w *world) writes(l pawl.Lease, id string) []error {
	_, append := w.tryAppend(l, id, 1, texts("b"))
	_, step := first(w.svc.StepMessages(w.ctx, []pawl.StepCall{{MessageFence: writerOf(l, id)}}))
	_, finish := first(w.svc.FinishMessages(w.ctx, []pawl.FinishCall{{MessageFence: writerOf(l, id)}}))
	return []error{append, step, finish}
}
