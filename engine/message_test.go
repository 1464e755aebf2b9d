package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// heard has the chunks that a reader got, by number, and whether a chunk came twice or
// out of order.
type heard struct {
	words []string
	fault string
	cuts  int
	end   pawl.MessageState
}

func listen(ctx context.Context, svc pawl.Service, id string, began chan<- struct{}) (heard, error) {
	var h heard
	err := svc.FollowMessage(ctx, id, -1, func(f pawl.MessageFrame) error {
		if began != nil {
			close(began)
			began = nil
			return nil
		}
		if f.Abandoned != nil {
			h.cuts++
		}
		if f.End != nil {
			h.end = f.End.Status
		}
		for i, c := range f.Chunks {
			if n := f.Offset + int64(i); n != int64(len(h.words)) {
				h.fault = fmt.Sprintf("chunk %d came when %d was due", n, len(h.words))
			}
			h.words = append(h.words, string(c.Text))
		}
		return nil
	})
	return h, err
}

func say(t testing.TB, svc pawl.Service, l pawl.Lease, offset int64, words ...string) {
	t.Helper()
	c := pawl.AppendCall{
		MessageFence: pawl.MessageFence{MessageID: l.OpenMessage.ID, WorkerID: l.WorkerID, Attempt: l.Attempt},
		Offset:       offset,
	}
	for _, w := range words {
		c.Chunks = append(c.Chunks, pawl.Chunk{Type: pawl.ChunkText, Text: pawl.Words(w)})
	}
	need[pawl.Appended](t)(first(svc.Append(context.Background(), []pawl.AppendCall{c})))
}

// The readers of one server get what another server accepts, including the cut when a
// writer is taken over.
func TestASecondServerReads(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		other := p.Another(engine.Options{})
		need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "chat", Reply: &pawl.Reply{}}))
		l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w"}, 1)[0]
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began, got := make(chan struct{}), make(chan heard, 1)
		go func() {
			h, err := listen(ctx, other, l.OpenMessage.ID, began)
			if err != nil {
				t.Error(err)
			}
			got <- h
		}()
		<-began
		say(t, p.Engine, l, 0, "a", "b")
		p.Advance(5 * time.Minute)
		need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
		l = leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w2"}, 1)[0]
		say(t, p.Engine, l, 2, "c")
		need[pawl.Message](t)(first(p.Engine.FinishMessages(t.Context(),
			[]pawl.FinishCall{{MessageFence: pawl.MessageFence{MessageID: l.OpenMessage.ID, WorkerID: "w2", Attempt: 2}}})))
		h := <-got
		if strings.Join(h.words, "") != "abc" || h.fault != "" || h.cuts != 1 || h.end != pawl.MessageComplete {
			t.Errorf("the reader heard %+v", h)
		}
	})
}

// A reader that takes nothing delays neither the writer nor other readers. It gets
// everything when it continues.
func TestASlowReaderGetsAllOfIt(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "chat", Reply: &pawl.Reply{}}))
		l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w"}, 1)[0]
		id := l.OpenMessage.ID
		stuck, goOn, got := make(chan struct{}), make(chan struct{}), make(chan int64, 1)
		go func() {
			next, waited := int64(0), false
			err := p.Engine.FollowMessage(t.Context(), id, -1, func(f pawl.MessageFrame) error {
				if len(f.Chunks) > 0 && !waited {
					waited = true
					close(stuck)
					<-goOn
				}
				if len(f.Chunks) > 0 && f.Offset != next {
					return fmt.Errorf("chunk %d came when %d was due", f.Offset, next)
				}
				next += int64(len(f.Chunks))
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			got <- next
		}()
		say(t, p.Engine, l, 0, "first")
		<-stuck
		const rows = 700 // more than the cache holds
		for n := range int64(rows) {
			say(t, p.Engine, l, 1+2*n, "x", "y")
		}
		need[pawl.Message](t)(first(
			p.Engine.FinishMessages(t.Context(), []pawl.FinishCall{{MessageFence: pawl.MessageFence{MessageID: id, WorkerID: "w", Attempt: 1}}})))
		close(goOn)
		if n := <-got; n != 1+2*rows {
			t.Errorf("the slow reader got %d chunks of %d", n, 1+2*rows)
		}
	})
}

// A reader also learns of a cut when it reads the chunks after the cut together with the
// chunks before it.
func TestASlowReaderLearnsOfACut(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "chat", Reply: &pawl.Reply{}}))
		l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w"}, 1)[0]
		id := l.OpenMessage.ID
		const rows = 510 // more than a reader takes from the database at once
		for n := range int64(rows) {
			say(t, p.Engine, l, n, "x")
		}
		stuck, goOn, got := make(chan struct{}), make(chan struct{}), make(chan []string, 1)
		go func() {
			var frames []string
			err := p.Engine.FollowMessage(t.Context(), id, -1, func(f pawl.MessageFrame) error {
				if len(f.Chunks) > 0 && f.Offset == 0 {
					close(stuck)
					<-goOn
				}
				if f.Abandoned != nil || f.Offset >= rows {
					frames = append(frames, fmt.Sprintf("%d:%v", f.Offset, f.Abandoned != nil))
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
			got <- frames
		}()
		<-stuck
		p.Advance(5 * time.Minute)
		need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
		l = leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w2"}, 1)[0]
		say(t, p.Engine, l, rows, "y")
		need[pawl.Message](t)(first(
			p.Engine.FinishMessages(t.Context(), []pawl.FinishCall{{MessageFence: pawl.MessageFence{MessageID: id, WorkerID: "w2", Attempt: 2}}})))
		close(goOn)
		if frames := <-got; !slices.Equal(frames, []string{"510:true", "510:false", "511:false"}) {
			t.Errorf("the reader got %v", frames)
		}
	})
}

// An attempt may take over a message before it appends anything, and then write through
// the server that a reader uses.
func TestAReaderLearnsOfACutBeforeTheFirstChunk(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "chat", Reply: &pawl.Reply{}}))
		l := leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w"}, 1)[0]
		say(t, p.Engine, l, 0, "a")
		p.Advance(5 * time.Minute)
		need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
		l = leases(t, p.Engine, pawl.ClaimRequest{WorkerID: "w2"}, 1)[0]
		began, got := make(chan struct{}), make(chan heard, 1)
		go func() {
			h, err := listen(t.Context(), p.Engine, l.OpenMessage.ID, began)
			if err != nil {
				t.Error(err)
			}
			got <- h
		}()
		<-began
		fence := pawl.MessageFence{MessageID: l.OpenMessage.ID, WorkerID: "w2", Attempt: 2}
		need[pawl.CheckpointRef](t)(first(p.Another(engine.Options{}).StepMessages(t.Context(), []pawl.StepCall{{MessageFence: fence}})))
		say(t, p.Engine, l, 1, "b")
		need[pawl.Message](t)(first(p.Engine.FinishMessages(t.Context(), []pawl.FinishCall{{MessageFence: fence}})))
		if h := <-got; strings.Join(h.words, "") != "ab" || h.cuts != 1 || h.fault != "" {
			t.Errorf("the reader heard %+v", h)
		}
	})
}

// Many workers at two servers take many pending messages at once. Each message is written
// once, by one worker.
func TestManyWorkersMakeEachMessageOnce(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		const messages, workers, words = 60, 8, 5
		asked := make([]pawl.NewTask, messages)
		for i := range asked {
			asked[i] = pawl.NewTask{Type: "chat", Thread: fmt.Sprint("t", i), Reply: &pawl.Reply{}}
		}
		for _, r := range need[[]pawl.Result[pawl.Task]](t)(p.Engine.CreateTasks(t.Context(), asked)) {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		servers := []*engine.Engine{p.Engine, p.Another(engine.Options{})}
		var working sync.WaitGroup
		for n := range workers {
			working.Go(func() {
				e, me := servers[n%len(servers)], fmt.Sprint("w", n)
				for {
					ls, err := e.Claim(t.Context(), pawl.ClaimRequest{WorkerID: me, WaitSeconds: 1})
					if err != nil {
						t.Error(err)
					}
					if len(ls) == 0 {
						return
					}
					l := ls[0]
					fence := pawl.MessageFence{MessageID: l.OpenMessage.ID, WorkerID: me, Attempt: l.Attempt}
					for i := range int64(words) {
						_, err := first(e.Append(t.Context(),
							[]pawl.AppendCall{{MessageFence: fence, Offset: i, Chunks: []pawl.Chunk{{Type: pawl.ChunkText, Text: pawl.Words(me + " ")}}}}))
						if err != nil {
							t.Errorf("%s is not alone in %s: %v", me, l.ID, err)
						}
					}
					if _, err := first(e.FinishMessages(t.Context(), []pawl.FinishCall{{MessageFence: fence}})); err != nil {
						t.Error(err)
					}
					if _, err := pawl.Complete(t.Context(), e, l.Fence(), nil); err != nil {
						t.Error(err)
					}
				}
			})
		}
		working.Wait()
		list := need[pawl.List[pawl.Message]](t)(p.Engine.ListMessages(t.Context(), pawl.MessageFilter{Page: pawl.Page{Limit: pawl.MaxPage}}))
		if len(list.Items) != messages {
			t.Fatalf("%d messages of %d", len(list.Items), messages)
		}
		for _, m := range list.Items {
			who, _, _ := strings.Cut(m.Text(), " ")
			if m.Status != pawl.MessageComplete || m.Attempt != 1 || m.Text() != strings.Repeat(who+" ", words) {
				t.Errorf("%s is %s after attempt %d: %q", m.ID, m.Status, m.Attempt, m.Text())
			}
		}
	})
}

// A message that is restored with its task has the size that it had, so that what a retry adds is bounded as before.
func TestARestoredMessageHasItsSize(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		ctx := t.Context()
		task := p.Create(pawl.NewTask{Type: "chat", Reply: &pawl.Reply{}})
		l := p.Claim()
		say(t, p.Engine, l, 0, "some", "words")
		ok(t, ruin(p.Engine, l.Fence()))
		size := func() int64 { return queried(t, p, "SELECT bytes FROM pawl.messages") }
		before := size()
		for range 2 { // the first one dead-letters it
			p.Advance(99 * 24 * time.Hour)
			need[pawl.SweepStats](t)(p.Engine.Sweep(ctx))
		}
		need[pawl.Task](t)(p.Engine.RestoreArchive(ctx, task.ID))
		if after := size(); before == 0 || after != before {
			t.Errorf("of %d bytes the restored message knows %d", before, after)
		}
	})
}
