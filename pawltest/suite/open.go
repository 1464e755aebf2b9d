package suite

import (
	"errors"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
)

// openOwn opens a message of a task itself.
func (w *fixture) openOwn(c pawl.OpenCall) (pawl.OpenedMessage, error) {
	if c.Role == "" {
		c.Role = pawl.RoleAssistant
	}
	return first(w.svc.OpenMessages(w.ctx, []pawl.OpenCall{c}))
}

func (w *fixture) tryWrite(m pawl.OpenedMessage, offset int64, texts ...string) (int64, error) {
	chunks := make([]pawl.Chunk, len(texts))
	for i, text := range texts {
		chunks[i] = pawl.Chunk{Type: pawl.ChunkText, Text: pawl.Words(text)}
	}
	fence := pawl.MessageFence{MessageID: m.ID, Writer: m.Writer}
	a, err := first(w.svc.Append(w.ctx, []pawl.AppendCall{{MessageFence: fence, Offset: offset, Chunks: chunks}}))
	return a.Offset, err
}

func (w *fixture) write(m pawl.OpenedMessage, offset int64, texts ...string) int64 {
	w.Helper()
	n, err := w.tryWrite(m, offset, texts...)
	w.ok(err, "append")
	return n
}

// expects wants a refusal that names the offset of the next chunk.
func (w *fixture) expects(err error, offset int64) {
	w.Helper()
	if e := w.refused(err, pawl.CodeConflict); e != nil && (e.Expected == nil || *e.Expected != offset) {
		w.Errorf("expected: %v, not %d", e.Expected, offset)
	}
}

func (w *fixture) tryFinishOwn(m pawl.OpenedMessage) (pawl.Message, error) {
	return first(w.svc.FinishMessages(w.ctx, []pawl.FinishCall{{MessageFence: pawl.MessageFence{MessageID: m.ID, Writer: m.Writer}}}))
}

// store is a task that is there for what it keeps; see pawl.Never.
func (w *fixture) store() pawl.Task {
	w.Helper()
	never := pawl.Never
	return w.create(pawl.NewTask{Type: "a", RunAt: &never, Thread: "mine"})
}

var ownMessages = noun{"messages of tasks", []promise{
	{"a task has a message that is written with a token, without a lease", func(w *fixture) {
		t := w.store()
		m, err := w.openOwn(pawl.OpenCall{TaskID: t.ID, Model: "m1", Metadata: raw(`{"a":1}`)})
		w.ok(err, "open")
		w.same([]any{m.TaskID, m.ItemID, m.Role, m.Status, m.Model, m.Thread, string(m.Metadata), m.Writer != ""},
			[]any{t.ID, "", "assistant", pawl.MessageStreaming, "m1", "mine", `{"a":1}`, true}, "the message")
		w.same(w.write(m, 0, "Hel", "lo"), int64(2), "offset")
		w.same(w.contentOf(m.ID), "text:Hello/streaming", "while it is written")
		w.same(w.write(m, 0, "Hel", "lo"), int64(2), "the same again")
		w.same(w.write(m, 1, "lo"), int64(2), "a part of it again")
		_, err = w.tryWrite(m, 1, "la")
		w.conflict(err, "streaming", "finish", "stop")
		w.expects(err, 2)
		_, err = w.tryWrite(m, 3, "!")
		w.expects(err, 2)
		w.write(m, 2, "!")
		done, err := w.tryFinishOwn(m)
		w.ok(err, "finish")
		w.same([]any{done.Status, done.Text(), done.Offset}, []any{pawl.MessageComplete, "Hello!", int64(3)}, "the end")
		_, err = w.tryWrite(m, 3, "?")
		w.conflict(err, "complete")
		_, err = w.tryFinishOwn(m)
		w.conflict(err, "complete")
		var got []string
		for _, e := range w.allEvents(pawl.EventFilter{TaskID: t.ID}) {
			got = append(got, e.Event)
		}
		w.same(got, []string{"proposed", "message_started", "message_ended"}, "events")
		w.same(w.task(t.ID).Status, t.Status, "the task")
	}},
	{"several programs write the message of a thread, each with a token of its own", func(w *fixture) {
		t := w.store()
		open := func() pawl.OpenedMessage {
			m, err := w.openOwn(pawl.OpenCall{TaskID: t.ID, Thread: "out", OnConflict: pawl.OnConflictReturn})
			w.ok(err, "open")
			return m
		}
		one, two := open(), open()
		w.same(one.ID, two.ID, "message")
		w.same(one.Writer == two.Writer, false, "one token for both")
		w.write(one, 0, "x")
		_, err := w.tryWrite(two, 0, "x") // the same text of another writer is another chunk
		w.expects(err, 1)
		w.write(two, 1, "x")
		w.write(one, 0, "x")
		w.same(w.contentOf(one.ID), "text:xx/streaming", "content")
		w.same(w.message(one.ID).Attempt, 2, "writers")
		_, err = w.tryFinishOwn(two)
		w.ok(err, "finish")
		ended := open()
		w.same([]any{ended.ID, ended.Status, ended.Writer}, []any{one.ID, pawl.MessageComplete, ""}, "opened after its end")
		other, err := w.openOwn(pawl.OpenCall{TaskID: t.ID, Thread: "out"})
		w.ok(err, "open")
		w.same(other.ID == one.ID, false, "without on_conflict it is the same message")
	}},
	{"writers at the same time lose and repeat nothing", func(w *fixture) {
		t := w.store()
		const writers, each = 4, 10
		var all sync.WaitGroup
		ids := make([]string, writers)
		for n := range writers {
			all.Go(func() {
				m, err := w.openOwn(pawl.OpenCall{TaskID: t.ID, Thread: "out", OnConflict: pawl.OnConflictReturn})
				if err != nil {
					w.Errorf("open: %v", err)
					return
				}
				ids[n] = m.ID
				at := int64(0)
				for range each {
					for {
						_, err := w.tryWrite(m, at, string(rune('a'+n)))
						if err == nil {
							break
						}
						var e *pawl.Error
						if !errors.As(err, &e) || e.Expected == nil {
							w.Errorf("append: %v", err)
							return
						}
						at = *e.Expected
					}
					at++
				}
			})
		}
		all.Wait()
		m := w.message(ids[0])
		counts := map[rune]int{}
		for _, r := range m.Text() {
			counts[r]++
		}
		w.same([]any{m.Offset, counts}, []any{int64(writers * each), map[rune]int{'a': each, 'b': each, 'c': each, 'd': each}}, "chunks")
		for _, id := range ids {
			w.same(id, m.ID, "one message")
		}
	}},
	{"a token is for one message, and one of a lease writes nothing", func(w *fixture) {
		t := w.store()
		one, err := w.openOwn(pawl.OpenCall{TaskID: t.ID})
		w.ok(err, "open")
		two, err := w.openOwn(pawl.OpenCall{TaskID: t.ID})
		w.ok(err, "open")
		for _, writer := range []string{two.Writer, "writer_1_00", "x", one.Writer + "0"} {
			wrong := one
			wrong.Writer = writer
			_, err := w.tryWrite(wrong, 0, "x")
			w.invalid(err, "/writer")
			_, err = w.tryFinishOwn(wrong)
			w.invalid(err, "/writer")
		}
		fence := pawl.MessageFence{MessageID: one.ID, WorkerID: "w1", Attempt: 1}
		chunks := []pawl.Chunk{{Type: pawl.ChunkText, Text: "x"}}
		_, err = first(w.svc.Append(w.ctx, []pawl.AppendCall{{MessageFence: fence, Chunks: chunks}}))
		w.invalid(err, "/writer")
		fence.Writer = one.Writer
		_, err = first(w.svc.Append(w.ctx, []pawl.AppendCall{{MessageFence: fence, Chunks: chunks}}))
		w.invalid(err, "/writer")
		fence.WorkerID, fence.Attempt = "", 0
		_, err = first(w.svc.StepMessages(w.ctx, []pawl.StepCall{{MessageFence: fence}}))
		w.invalid(err, "/writer")
		w.same(w.message(one.ID).Offset, int64(0), "chunks")
	}},
	{"it is refused for a task that has ended, is not there or has a wrong member", func(w *fixture) {
		t := w.create(pawl.NewTask{Type: "a"})
		w.complete(w.claim("w1"), `1`)
		_, err := w.openOwn(pawl.OpenCall{TaskID: t.ID})
		w.conflict(err, string(w.task(t.ID).State))
		_, err = w.openOwn(pawl.OpenCall{TaskID: "tsk_00000000000000000000000000"})
		w.same(pawl.CodeOf(err), pawl.CodeNotFound, "code")
		_, err = w.openOwn(pawl.OpenCall{TaskID: t.ID, Role: "robot"})
		w.invalid(err, "/role")
		_, err = w.openOwn(pawl.OpenCall{TaskID: t.ID, OnConflict: "reject"})
		w.invalid(err, "/on_conflict")
	}},
	{"a reader begins with the last chunks", func(w *fixture) {
		m, err := w.openOwn(pawl.OpenCall{TaskID: w.store().ID})
		w.ok(err, "open")
		w.write(m, 0, "a", "b")
		w.write(m, 2, "c")
		_, err = w.tryFinishOwn(m)
		w.ok(err, "finish")
		for _, c := range []struct {
			last int64
			want string
		}{{1, "2c"}, {2, "1b 2c"}, {3, "0a 1b 2c"}, {9, "0a 1b 2c"}} {
			got := ""
			err := w.svc.FollowMessage(w.ctx, m.ID, -1-c.last, func(f pawl.MessageFrame) error {
				for i, chunk := range f.Chunks {
					got += " " + string(rune('0'+f.Offset+int64(i))) + string(chunk.Text)
				}
				return nil
			})
			w.ok(err, "follow")
			w.same(got, " "+c.want, "the last chunks")
		}
	}},
	{"it is stopped by a user, and removed with its task", func(w *fixture) {
		t := w.store()
		m, err := w.openOwn(pawl.OpenCall{TaskID: t.ID})
		w.ok(err, "open")
		w.write(m, 0, "x")
		stopped, err := first(w.svc.StopMessages(w.ctx, []pawl.StopCall{{MessageID: m.ID, Reason: "enough"}}))
		w.ok(err, "stop")
		w.same([]any{stopped.Status, stopped.Text()}, []any{pawl.MessageStopped, "x"}, "stopped")
		_, err = w.tryWrite(m, 1, "y")
		w.conflict(err, "stopped")
		open, err := w.openOwn(pawl.OpenCall{TaskID: t.ID})
		w.ok(err, "open")
		w.write(open, 0, "z")
		_, err = first(w.svc.DeleteTasks(w.ctx, []pawl.TaskCall{{TaskID: t.ID}}))
		w.ok(err, "delete")
		_, err = w.tryWrite(open, 1, "y")
		w.same(pawl.CodeOf(err), pawl.CodeNotFound, "code")
	}},
	{"an open one is stopped ten minutes after the end of its task", func(w *fixture) {
		t := w.create(pawl.NewTask{Type: "a"})
		m, err := w.openOwn(pawl.OpenCall{TaskID: t.ID})
		w.ok(err, "open")
		w.complete(w.claim("w1"), `1`)
		w.write(m, 0, "x")
		w.advance(9 * time.Minute)
		w.sweep()
		w.write(m, 1, "y")
		w.advance(2 * time.Minute)
		w.sweep()
		got := w.message(m.ID)
		w.same([]any{got.Status, got.Text()}, []any{pawl.MessageStopped, "xy"}, "the message")
	}},
}}
