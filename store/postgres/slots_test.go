package postgres

import (
	"context"
	"testing"
	"time"

	"github.com/pawl-work/pawl/store"
)

// With any number of connections, none of the uses is shut out by the others, and all of them together
// never have more than there are. Of three, one is for heartbeats, and the others wait for two.
func TestTheUsesShareTheSlots(t *testing.T) {
	for n := leastConns; n <= 20; n++ {
		listens := n >= listensFrom
		s := newSlots(n, listens)
		if listens {
			hold(t, s, useSession)
		}
		hanging := []use{usePatientCold, useCold, usePatientHot, useHot, usePatientBackground, useBackground, usePatientDue, useDue}
		free := n - s.held[useSession]
		if free == 3 { // what is due may have that of heartbeats
			hanging = hanging[:len(hanging)-2]
		}
		for _, u := range hanging {
			for range n {
				hold(t, s, u)
			}
		}
		held := s.inUse(useHot, usePatientHot, useCold, usePatientCold, useBackground, usePatientBackground, useDue, usePatientDue, useSession)
		if held > n {
			t.Errorf("%d connections: %d in use", n, held)
		}
		if n >= 3 && !hold(t, s, useHeartbeats) {
			t.Errorf("%d connections: none is left for a heartbeat: %v", n, s.held)
		}
		if free != 3 && s.inUse(useBackground, usePatientBackground) == 0 || s.inUse(useHot, usePatientHot, useCold, usePatientCold) == 0 {
			t.Errorf("%d connections: %v", n, s.held)
		}
		for u := range uses {
			if s.most(u) < 1 {
				t.Errorf("%d connections: use %d has none", n, u)
			}
		}
	}
}

// With three connections, calls and what is due do not keep each other out.
func TestCallsAndWhatIsDueHaveConnections(t *testing.T) {
	for _, n := range []int{3, 4} {
		for _, u := range []use{useHot, useDue} {
			s := newSlots(n, n >= listensFrom)
			if n >= listensFrom {
				hold(t, s, useSession)
			}
			others := []use{useBackground, useDue}
			if u == useDue {
				others = []use{usePatientHot, useHot, useHot, useHot}
			}
			for _, o := range others {
				hold(t, s, o)
			}
			if !hold(t, s, u) {
				t.Errorf("%d connections: none for use %d beside %v", n, u, s.held)
			}
		}
	}
}

// What is looked for and done at its time has connections of its own, however long it takes.
func TestWhatIsDueTakesNoConnectionOfHeartbeats(t *testing.T) {
	d := &db{hot: new(pool), heartbeats: new(pool), due: new(pool)}
	for purpose, want := range map[store.Purpose]*pool{store.Calls: d.hot, store.Heartbeats: d.heartbeats, store.Background: d.due} {
		if d.hotPool(store.For(t.Context(), purpose)) != want {
			t.Errorf("purpose %v has the connections of another", purpose)
		}
	}
	for n := 3; n <= 20; n++ {
		s := newSlots(n, n >= listensFrom)
		for range n {
			hold(t, s, usePatientDue)
			hold(t, s, useDue)
		}
		if !hold(t, s, useHeartbeats) {
			t.Errorf("%d connections: none is left for a heartbeat: %v", n, s.held)
		}
	}
}

// hold takes a slot if there is one.
func hold(t *testing.T, s *slots, u use) bool {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.take(ctx, u)
	return err == nil
}

// Who waits gets a slot in the order of arrival, a heartbeat before the others; who gives up leaves
// no trace.
func TestSlotsAreGrantedInOrder(t *testing.T) {
	s := newSlots(2, false)
	hold(t, s, useHot)
	hold(t, s, useBackground)
	got := make(chan use, 4)
	for i, u := range []use{useBackground, useHot, useDue, useHeartbeats} {
		go func() {
			if _, err := s.take(t.Context(), u); err == nil {
				got <- u
			}
		}()
		waitFor(t, func() bool { return s.queued() == i+1 })
	}
	gone, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { _, err := s.take(gone, useHot); ended <- err }()
	waitFor(t, func() bool { return s.queued() == 5 })
	cancel()
	if err := <-ended; err == nil {
		t.Error("a caller that gave up has a slot")
	}
	s.give(useHot)
	if u := <-got; u != useHeartbeats {
		t.Errorf("the first is %d", u)
	}
	s.give(useHeartbeats)
	if u := <-got; u != useDue {
		t.Errorf("the second is %d", u)
	}
	s.give(useDue)
	if u := <-got; u != useHot {
		t.Errorf("the third is %d", u) // background has its one
	}
	s.give(useBackground)
	if u := <-got; u != useBackground {
		t.Errorf("the fourth is %d", u)
	}
	s.give(useHot)
	s.give(useBackground)
	if n := s.inUse(useHeartbeats, useDue, useHot, useBackground); n != 0 || s.queued() != 0 {
		t.Errorf("%d in use, %d wait", n, s.queued())
	}
}

func (s *slots) queued() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.waiting {
		n += len(w)
	}
	return n
}

func waitFor(t *testing.T, is func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not happen")
		}
	}
}
