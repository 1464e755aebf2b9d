package queue

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/pawl-work/pawl/internal/watch"
)

// A claim that got less than it asked for has seen all work until the next notice. After
// a notice of another process it has seen only the work after the heads.
func TestAnEmptyHintEndsWithTheNextNotice(t *testing.T) {
	q := New(Options{Hub: watch.New(watch.Options{})})
	defer q.options.Hub.Close()
	types := []string{"a", "b"}
	is := func(what, namespace string, types []string, empty, look bool) {
		t.Helper()
		if l, k := q.IsEmpty(namespace, types, q.Next(namespace)); l != empty || k != look {
			t.Errorf("%s: empty %v, look %v; want %v, %v", what, l, k, empty, look)
		}
	}
	is("at first", "n", types, false, false)
	q.SetEmpty("n", types, q.Next("n"))
	is("after a short claim", "n", slices.Clone(types), true, false)
	is("for other types", "n", types[:1], false, false)
	is("in another namespace", "m", types, false, false)
	q.Ready("n")
	is("after a word", "n", types, false, false)

	began := q.Next("n")
	q.Ready("n")
	q.SetEmpty("n", types, began)
	is("after a word during the claim", "n", types, false, false)

	q.Elsewhere(watch.Work("n"))
	q.Ready("n")
	q.SetEmpty("n", types, q.Next("n"))
	is("after another process's word", "n", types, true, true)
	q.waits.clearRemote("n")
	is("after a look from the start", "n", types, true, false)
}

// Of the claims that wait for the same work one polls. When it leaves, the next one
// polls.
func TestOneOfThoseWhoWaitPolls(t *testing.T) {
	var w waits
	takes := func(turn *sharedPoll) bool {
		select {
		case <-turn.free:
			return true
		default:
			return false
		}
	}
	a, b, other := w.join("same"), w.join("same"), w.join("other")
	if !takes(a) || takes(b) || !takes(other) {
		t.Fatal("not one of each looks")
	}
	w.leave("same", a, true)
	c := w.join("same")
	if !takes(c) || takes(b) {
		t.Fatal("the turn was not passed on")
	}
	w.leave("same", b, false)
	if w.leave("same", c, true); w.polls["same"] != nil || w.polls["other"] == nil {
		t.Errorf("left behind: %v", w.polls)
	}
	if d := w.join("same"); !takes(d) {
		t.Error("nobody looks after all have left")
	}
}

// Work that has no notice, and that the polling claim's own worker must not have, is tried by the
// other claims that wait.
func TestOthersTryWhatTheOneThatPollsMustNotHave(t *testing.T) {
	q := New(Options{Hub: watch.New(watch.Options{}), PollInterval: 20 * time.Millisecond})
	defer q.options.Hub.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	polls, ended := make(chan struct{}, 1000), make(chan error, 1)
	full, stop := context.WithCancel(ctx)
	go func() {
		ended <- q.Wait(full, "n", "same", time.Hour, func(<-chan struct{}) Tried {
			select {
			case polls <- struct{}{}:
			default:
			}
			return Tried{Others: true}
		})
	}()
	alone := q.Next("n")
	for range 3 {
		<-polls // it is the one that polls
	}
	select {
	case <-alone:
		t.Error("a claim that waits alone wakes claims for other work")
	default:
	}
	tries := 0
	err := q.Wait(ctx, "n", "same", time.Hour, func(<-chan struct{}) Tried {
		tries++
		return Tried{Done: tries == 2}
	})
	stop()
	if <-ended; err != nil {
		t.Errorf("after %d tries: %v", tries, err)
	}
}
