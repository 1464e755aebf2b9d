package watch

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// fired reports whether a channel of Next is closed.
func fired(next <-chan struct{}) bool {
	select {
	case <-next:
		return true
	default:
		return false
	}
}

// advance lets time pass, and everything happen that is due in it.
func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func discardLogger() *slog.Logger { return slog.New(slog.DiscardHandler) }

// A change between a check and the wait is not lost; otherwise a reader that missed the last
// change would wait for ever.
func TestNoChangeIsLost(t *testing.T) {
	t.Parallel()
	const writers, readers, rounds = 4, 8, 3000
	h := New(Options{})
	defer h.Close()
	topics := []Topic{Work("a"), Work("b"), Feed()}
	numbers := make([]atomic.Int64, len(topics))
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for range rounds {
				for at, topic := range topics {
					numbers[at].Add(1)
					h.Changed(topic)
				}
			}
		})
	}
	for r := range readers {
		all.Go(func() {
			at := r % len(topics)
			for last := int64(0); last < writers*rounds; {
				if err := h.Wait(t.Context(), topics[at], func() (bool, error) {
					now := numbers[at].Load()
					more := now > last
					last = now
					return more, nil
				}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// One change wakes all goroutines that wait for its topic, and no others.
func TestAChangeWakesAllOfItsTopic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := New(Options{})
		defer h.Close()
		const waiters = 5000
		var woken, others atomic.Int64
		changed := false
		ctx, cancel := context.WithCancel(t.Context())
		for range waiters {
			go func() {
				if err := h.Wait(ctx, Work("n"), func() (bool, error) { return changed, nil }); err != nil {
					t.Error(err)
				}
				woken.Add(1)
			}()
		}
		looks := 0
		for _, topic := range []Topic{Work("m"), Work(""), Feed(), Commits(), Messages(), Message("n")} {
			go func() {
				err := h.Wait(ctx, topic, func() (bool, error) { looks++; return false, nil })
				if !errors.Is(err, context.Canceled) {
					t.Errorf("%v: %v", topic, err)
				}
				others.Add(1)
			}()
			synctest.Wait()
		}
		changed = true
		h.Changed(Work("n"))
		synctest.Wait()
		if woken.Load() != waiters || looks != 6 || others.Load() != 0 {
			t.Errorf("%d of %d were woken; %d looks and %d ends of others", woken.Load(), waiters, looks, others.Load())
		}
		cancel()
		synctest.Wait()
		if others.Load() != 6 {
			t.Errorf("%d of 6 ended with their context", others.Load())
		}
	})
}

// Next is one channel until the change, and another one after it.
func TestNextIsTheNextChange(t *testing.T) {
	t.Parallel()
	h := New(Options{})
	defer h.Close()
	before := h.Next(Feed())
	if before != h.Next(Feed()) || fired(before) {
		t.Fatal("it changed by itself")
	}
	h.Wake(Feed())
	if after := h.Next(Feed()); !fired(before) || fired(after) {
		t.Error("the change is not the end of the first and the beginning of the second")
	}
	h.Wake(Message("nobody waits for it"))
	if len(h.waiting) != 1 {
		t.Errorf("it remembers %v", h.waiting)
	}
}

// Close ends all waits, also those that begin after it.
func TestCloseEndsEachWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := New(Options{})
		var ended atomic.Int64
		wait := func() {
			if err := h.Wait(t.Context(), Feed(), func() (bool, error) { return false, nil }); !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
			ended.Add(1)
		}
		for range 100 {
			go wait()
		}
		synctest.Wait()
		h.Close()
		h.Close()
		wait()
		if synctest.Wait(); ended.Load() != 101 {
			t.Errorf("%d of 101 ended", ended.Load())
		}
	})
}

// A check that fails ends the wait with its error.
func TestAFailedLookEndsTheWait(t *testing.T) {
	t.Parallel()
	h, failed := New(Options{}), errors.New("failed")
	defer h.Close()
	if err := h.Wait(t.Context(), Feed(), func() (bool, error) { return false, failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
}

// The version is read while there are callers of Attend. A different number wakes the
// goroutines that wait for changes by other processes.
func TestVersion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var version, asked, elsewhere atomic.Int64
		var broken atomic.Bool
		h := New(Options{
			Log: discardLogger(),
			Version: func(context.Context) (int64, error) {
				asked.Add(1)
				if broken.Load() {
					return 0, errors.New("broken")
				}
				return version.Load(), nil
			},
			OnRemote: func(Topic) { elsewhere.Add(1) },
		})
		defer h.Close()
		advance(time.Second)
		if asked.Load() != 0 || h.Complete() {
			t.Errorf("asked %d times for nobody; complete: %v", asked.Load(), h.Complete())
		}
		leave := h.Attend()
		h.Attend()()
		advance(time.Second)
		if n := asked.Load(); n < 49 || n > 51 || !h.Complete() || elsewhere.Load() != 0 {
			t.Errorf("asked %d times in a second; complete: %v; %d changes", n, h.Complete(), elsewhere.Load())
		}
		work, commits, messages := h.Next(Work("n")), h.Next(Commits()), h.Next(Messages())
		feed, message := h.Next(Feed()), h.Next(Message("m"))
		version.Add(1)
		advance(versionPoll)
		if !fired(work) || !fired(commits) || !fired(messages) || fired(feed) || fired(message) || elsewhere.Load() != 1 {
			t.Error("a commit of another process wakes the wrong ones")
		}
		broken.Store(true)
		if advance(versionPoll); h.Complete() {
			t.Error("complete without an answer")
		}
		broken.Store(false)
		if advance(versionPoll); !h.Complete() {
			t.Error("not complete again")
		}
		leave()
		advance(versionPoll)
		before := asked.Load()
		if advance(time.Second); asked.Load() != before || h.Complete() {
			t.Errorf("asked %d times after the last has left", asked.Load()-before)
		}
		h.Attend()
		if advance(time.Second); asked.Load() == before {
			t.Error("not asked again")
		}
	})
}
