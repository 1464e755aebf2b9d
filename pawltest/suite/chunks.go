package suite

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/pawl-work/pawl"
)

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

func (w *fixture) tryAppend(l pawl.Lease, id string, offset int64, chunks []pawl.Chunk) (int64, error) {
	w.Helper()
	a, err := first(w.svc.Append(w.ctx, []pawl.AppendCall{{MessageFence: writerOf(l, id), Offset: offset, Chunks: chunks}}))
	return a.Offset, err
}

func (w *fixture) append(l pawl.Lease, id string, offset int64, words ...string) int64 {
	w.Helper()
	n, err := w.tryAppend(l, id, offset, texts(words...))
	w.ok(err, "append")
	return n
}

var appends = noun{"appends", []promise{
	{"accepted chunks may be sent again; a wrong offset or other chunks get the expected offset", func(w *fixture) {
		_, l := w.claimedReply()
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
		w.same(w.contentOf(id), "text:abc/streaming", "the content")
		w.finish(l, id)
		_, err := w.tryAppend(l, id, 3, texts("d"))
		w.conflict(err, "complete")
	}},
	{"chunks of another attempt are not a repetition: the error has the offset to continue at", func(w *fixture) {
		_, l := w.claimedReply()
		id := l.OpenMessage.ID
		w.append(l, id, 0, "a", "b")
		w.expire(l)
		l = w.claim("w2")
		w.same(l.OpenMessage.Offset, int64(2), "the place of the new attempt")
		refused := func(offset, expected int64, words ...string) {
			w.Helper()
			_, err := w.tryAppend(l, id, offset, texts(words...))
			w.refused(err, pawl.CodeConflict)
			var e *pawl.Error
			if errors.As(err, &e); e.Expected == nil || *e.Expected != expected || !strings.Contains(e.Message, "attempt 1") {
				w.Errorf("%d %v: %v, expected %v", offset, words, err, e.Expected)
			}
		}
		refused(0, 2, "a", "b")
		refused(1, 2, "b")
		w.append(l, id, 2, "a", "b")
		refused(0, 4, "a")
		refused(1, 4, "b", "a")
		w.same(w.append(l, id, 2, "a"), int64(4), "a repeat of its own")
		w.same(w.contentOf(id), "text:ab/abandoned text:ab/streaming", "the content")
	}},
	{"only the worker that holds the lease can write", func(w *fixture) {
		_, l := w.claimedReply()
		id := l.OpenMessage.ID
		w.append(l, id, 0, "a")
		w.expire(l)
		stale := l
		l = w.claim("w2")
		for _, err := range w.writeAll(stale, id) {
			w.refused(err, pawl.CodeLeaseLost)
		}
		other := l
		other.WorkerID = "w3"
		for _, err := range w.writeAll(other, id) {
			w.refused(err, pawl.CodeLeaseLost)
		}
		for _, err := range w.writeAll(l, "msg_nope") {
			w.refused(err, pawl.CodeNotFound)
		}
		for _, err := range w.in("elsewhere").writeAll(l, id) {
			w.refused(err, pawl.CodeNotFound)
		}
		w.same(w.contentOf(id), "text:a/streaming", "nothing was written")
	}},
	{"the chunks of two writers are never mixed", func(w *fixture) {
		_, l := w.claimedReply()
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
	{"a character that is split between two chunks is read whole", func(w *fixture) {
		_, l := w.claimedReply()
		id := l.OpenMessage.ID
		high, low := "\xed\xa0\xbd", "\xed\xb8\x80" // halves of 😀, split as in UTF-16
		w.append(l, id, 0, "a"+high)
		w.same(w.contentOf(id), "text:a/streaming", "half of it")
		w.append(l, id, 1, low+"b"+high, low, "c"+high)
		w.same(w.append(l, id, 0, "a"+high), int64(4), "a repeat")
		w.finish(l, id)
		w.same(w.message(id).Text(), "a😀b😀c", "the text")
		w.same(w.follow(id, -1), "0:a 1:😀b 2:😀 3:c end:complete/4", "the stream")
		w.same(w.follow(id, 0), "1:😀b 2:😀 3:c end:complete/4", "from within")
	}},
	{"half a character of an abandoned chunk is not joined to its replacement", func(w *fixture) {
		_, l := w.claimedReply()
		id := l.OpenMessage.ID
		w.append(l, id, 0, "a\xed\xa0\xbd")
		w.expire(l)
		l = w.claim("w2")
		w.append(l, id, 1, "b")
		w.same(w.contentOf(id), "text:a/abandoned text:b/streaming", "content")
		w.finish(l, id)
		w.same(w.follow(id, -1), "0:a abandoned:0-1/1 1:b end:complete/2", "the stream")
		w.same(w.follow(id, 0), "abandoned:0-1/1 1:b end:complete/2", "from the cut on")
	}},
	{"bad input is refused with its pointer and writes nothing", func(w *fixture) {
		_, l := w.claimedReply()
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

// writeAll calls every verb of a message's writer.
func (w *fixture) writeAll(l pawl.Lease, id string) []error {
	_, append := w.tryAppend(l, id, 1, texts("b"))
	_, step := first(w.svc.StepMessages(w.ctx, []pawl.StepCall{{MessageFence: writerOf(l, id)}}))
	_, finish := first(w.svc.FinishMessages(w.ctx, []pawl.FinishCall{{MessageFence: writerOf(l, id)}}))
	return []error{append, step, finish}
}
