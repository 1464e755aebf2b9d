package suite

import (
	"fmt"
	"strings"

	"github.com/pawl-work/pawl"
)

// answered checks that of the calls of a batch, whose answers have a mebibyte each, as many were
// carried out as fit into an answer, and that the others were refused.
func answered[V any](w *fixture, what string, rs []pawl.Result[V], err error) {
	w.Helper()
	w.ok(err, what)
	for i, r := range rs {
		if i < pawl.MaxAnswerBytes/pawl.MaxPayloadBytes {
			w.ok(r.Err, fmt.Sprintf("%s, call %d", what, i))
		} else if pawl.CodeOf(r.Err) != pawl.CodeTooLarge {
			w.Fatalf("%s, call %d: %v, want too_large", what, i, r.Err)
		}
	}
}

// times returns n calls.
func times[C any](n int, call func(i int) C) []C {
	out := make([]C, n)
	for i := range out {
		out[i] = call(i)
	}
	return out
}

var answersOfBatches = noun{"answers of batches", []promise{
	{"a batch about large tasks is answered up to 8 MiB, and does nothing for the rest", func(w *fixture) {
		const n = 12
		large := raw(stringOf(pawl.MaxPayloadBytes))
		t := w.create(pawl.NewTask{Type: "a", Payload: large, InputHash: "h"})
		key := &pawl.Unique{Key: "k", By: pawl.UniqueByKey, OnConflict: pawl.OnConflictReturn}
		w.create(pawl.NewTask{Type: "b", Payload: large, Unique: key})
		made, err := w.svc.CreateTasks(w.ctx, times(n, func(int) pawl.NewTask { return pawl.NewTask{Type: "a", InputHash: "h"} }))
		answered(w, "create with an input hash", made, err)
		made, err = w.svc.CreateTasks(w.ctx, times(n, func(int) pawl.NewTask { return pawl.NewTask{Type: "b", Unique: key} }))
		answered(w, "create with unique", made, err)
		rs, err := w.svc.UpdateTasks(w.ctx, times(n, func(i int) pawl.TaskUpdate {
			return pawl.TaskUpdate{TaskID: t.ID, Title: ptr(fmt.Sprint("title ", i))}
		}))
		answered(w, "update", rs, err)
		w.same(w.task(t.ID).Title, "title 7", "the title")
		rs, err = w.svc.AddItems(w.ctx, times(n, func(int) pawl.AddItems {
			return pawl.AddItems{TaskID: w.pair(large).ID, Items: []pawl.NewItem{{Input: raw(`1`)}}}
		}))
		answered(w, "add items", rs, err)
		rs, err = w.svc.CloneTasks(w.ctx, times(n, func(int) pawl.TaskClone { return pawl.TaskClone{TaskID: t.ID} }))
		answered(w, "clone", rs, err)
		ids := times(n, func(int) string { return w.pair(large).ID })
		rs, err = w.svc.CancelTasks(w.ctx, times(n, func(i int) pawl.TaskCall { return pawl.TaskCall{TaskID: ids[i]} }))
		answered(w, "cancel", rs, err)
		w.same(w.task(ids[n-1]).State, pawl.TaskQueued, "the state of the last task")
	}},
	{"a batch about idempotency keys is answered up to 8 MiB, and does nothing for the rest", func(w *fixture) {
		const n = 12
		name := pawl.KeyName{Scope: "s", Key: "k"}
		begun := w.beginRun(pawl.KeyBegin{Scope: "s", Key: "k", RequestHash: "h"})
		w.finishKey(pawl.KeyDone{Scope: "s", Key: "k", Token: begun.Token, Response: raw(stringOf(pawl.MaxPayloadBytes))})
		got, err := w.svc.GetKeys(w.ctx, times(n, func(int) pawl.KeyName { return name }))
		answered(w, "get", got, err)
		again, err := w.svc.BeginKeys(w.ctx, times(n, func(i int) pawl.KeyBegin {
			if i == n-1 {
				return pawl.KeyBegin{Scope: "s", Key: "new", RequestHash: "h"}
			}
			return pawl.KeyBegin{Scope: "s", Key: "k", RequestHash: "h"}
		}))
		answered(w, "begin", again, err)
		w.beginRun(pawl.KeyBegin{Scope: "s", Key: "new", RequestHash: "h"})
	}},
	{"a batch about messages is answered up to 8 MiB", func(w *fixture) {
		t := w.oneItem()
		open := func(int) pawl.OpenCall {
			return pawl.OpenCall{TaskID: t.ID, Role: "assistant", Thread: "th", OnConflict: pawl.OnConflictReturn}
		}
		m, err := first(w.svc.OpenMessages(w.ctx, times(1, open)))
		w.ok(err, "open")
		text := pawl.Chunk{Type: pawl.ChunkText, Text: pawl.Words(strings.Repeat("x", pawl.MaxPayloadBytes-100))}
		for i := range 3 {
			_, err = first(w.svc.Append(w.ctx, []pawl.AppendCall{{MessageFence: pawl.MessageFence{MessageID: m.ID, Writer: m.Writer},
				Offset: int64(i), Chunks: []pawl.Chunk{text}}}))
			w.ok(err, "append")
		}
		rs, err := w.svc.OpenMessages(w.ctx, times(5, open))
		w.ok(err, "open again")
		for i, r := range rs {
			if large := pawl.CodeOf(r.Err) == pawl.CodeTooLarge; large != (i > 2) {
				w.Fatalf("call %d: %v, %d bytes", i, r.Err, len(r.Value.Content))
			}
		}
	}},
}}

// pair creates a task of two items with a payload.
func (w *fixture) pair(payload []byte) pawl.Task {
	return w.create(pawl.NewTask{Type: "c", Payload: payload, Items: []pawl.NewItem{{Input: raw(`1`)}, {Input: raw(`2`)}}})
}
