package watch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// fakeNotices carries notices between hubs, like the channel of a database.
type fakeNotices struct {
	mu        sync.Mutex
	listeners map[*Hub]func(string)
	cut       map[*Hub]context.CancelFunc
	sent      int // calls of Notify
	silent    bool
}

func (b *fakeNotices) open(o Options) *Hub {
	var h *Hub
	o.Notify = func(_ context.Context, payloads []string) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.sent++
		for _, onNotice := range b.listeners {
			for _, p := range payloads {
				onNotice(p)
			}
		}
		return nil
	}
	o.Listen = func(ctx context.Context, ready func(), onNotice func(string)) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		b.mu.Lock()
		if b.silent {
			b.mu.Unlock()
			return errors.New("no connection")
		}
		b.listeners[h], b.cut[h] = onNotice, cancel
		b.mu.Unlock()
		ready()
		<-ctx.Done()
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.listeners, h)
		return errors.New("the connection is cut")
	}
	o.Log = discardLogger()
	h = New(o)
	return h
}

func newFakeNotices() *fakeNotices {
	return &fakeNotices{listeners: map[*Hub]func(string){}, cut: map[*Hub]context.CancelFunc{}}
}

// A change reaches those that wait for its topic in other processes. The hub's own process
// learns of it earlier and ignores its own notices.
func TestNoticesReachOtherProcesses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newFakeNotices()
		var elsewhere []Topic
		a := b.open(Options{OnRemote: func(topic Topic) { t.Errorf("its own notice: %v", topic) }})
		defer a.Close()
		c := b.open(Options{})
		c.options.OnRemote = func(topic Topic) {
			elsewhere = append(elsewhere, topic)
			if next := c.Next(topic); topic == Work("n") && fired(next) {
				t.Error("those who wait were woken before")
			}
		}
		defer c.Close()
		defer c.Attend()()
		synctest.Wait()
		if !c.Listening() || !slices.Equal(elsewhere, []Topic{{}}) {
			t.Fatalf("hears: %v; at first, any may have changed: %v", c.Listening(), elsewhere)
		}
		elsewhere = nil
		work, other, feed, commits := c.Next(Work("n")), c.Next(Work("m")), c.Next(Feed()), c.Next(Commits())
		a.Changed(Work("n"))
		advance(time.Second)
		if !fired(work) || fired(other) || fired(feed) || !fired(commits) || !slices.Equal(elsewhere, []Topic{Work("n")}) {
			t.Errorf("work: %v", elsewhere)
		}
		commits = c.Next(Commits())
		a.Notify(Feed())
		advance(time.Second)
		if fired(other) || fired(feed) || !fired(commits) || len(elsewhere) != 1 {
			t.Errorf("a feed that moved elsewhere is one of the commits: %v", elsewhere)
		}
		work = c.Next(Work("n"))
		a.Wake(Work("n"))
		advance(time.Second)
		if fired(work) {
			t.Error("Wake reached another process")
		}
	})
}

// Notices that arise while one is sent are one call.
func TestNoticesAreBatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newFakeNotices()
		h := b.open(Options{})
		for range 1000 {
			h.Changed(Work("n"))
			h.Changed(Work("m"))
		}
		advance(time.Second)
		if b.sent == 0 || b.sent > 3 {
			t.Errorf("%d calls for 2000 changes", b.sent)
		}
		h.Close()
		before := b.sent
		h.Changed(Work("n"))
		if advance(time.Second); b.sent != before {
			t.Error("a closed hub sends")
		}
	})
}

// A notice that was sent while the listener had no connection is lost. After it connects
// again, all waiting goroutines are woken.
func TestAListenerConnectsAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newFakeNotices()
		h := b.open(Options{})
		defer h.Close()
		defer h.Attend()()
		synctest.Wait()
		work := h.Next(Work("n"))
		b.mu.Lock()
		b.silent = true
		b.cut[h]()
		b.mu.Unlock()
		if advance(time.Minute); h.Listening() || fired(work) {
			t.Errorf("without a connection it hears: %v", h.Listening())
		}
		b.mu.Lock()
		b.silent = false
		b.mu.Unlock()
		if advance(maxPause); !h.Listening() || !fired(work) {
			t.Errorf("after the connection it hears: %v", h.Listening())
		}
	})
}
