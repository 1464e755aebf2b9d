package suite

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
)

// follow reads a message to its end and returns its frames in short.
func (w *fixture) follow(id string, after int64) string {
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

var readers = noun{"readers", []promise{
	{"followers get every chunk once, as it is appended", func(w *fixture) {
		_, l := w.claimedReply()
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
	{"a day after its end a reader gets the message as a snapshot", func(w *fixture) {
		_, l := w.claimedReply()
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
		w.same(w.contentOf(id), "text:all of it", "the content")
	}},
}}
