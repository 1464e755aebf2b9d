package postgres

import (
	"context"
	"sync"
)

// use is what a connection is used for. A patient one may wait long for a lock. Heartbeats come first, and then what is due.
type use int

const (
	useHeartbeats use = iota
	usePatientHeartbeats
	useDue // what is done at its time, beside retention, which may be at work for long
	usePatientDue
	useHot
	usePatientHot
	useCold
	usePatientCold
	useBackground
	usePatientBackground
	useSession // the listener and migrations, which hold their connection for long
	uses       // how many there are
)

// share says how many connections the uses of a set may have together.
type share struct {
	of   [uses]bool
	most int
}

// slots bounds the connections of a process. The uses share them: what a use may always have is what
// the others may not take. A heartbeat that waits is next, then what is due; the others follow in the order in
// which they came.
type slots struct {
	shares []share

	mu      sync.Mutex
	held    [uses]int
	waiting [uses][]*turn
	came    uint64 // counts the turns
}

// turn is a caller that waits.
type turn struct {
	came    uint64
	granted chan struct{} // closed when it has its slot
}

// listensFrom is the bound from which one connection is kept for LISTEN.
const listensFrom = 4

// newSlots returns the slots of a process with n connections. listens says that LISTEN has one of
// them.
func newSlots(n int, listens bool) *slots {
	shared := func(most int, of ...use) share {
		s := share{most: max(1, most)}
		for _, u := range of {
			s.of[u] = true
		}
		return s
	}
	free := n // of LISTEN
	if listens {
		free--
	}
	calls, heartbeats, background, due := free-1, min(2, free/2), min(3, free/3), min(2, free/3)
	if free > 3 {
		calls = free - 2
	}
	cold := (calls + 1) / 2
	s := &slots{shares: []share{
		shared(n, useHeartbeats, usePatientHeartbeats, useHot, usePatientHot, useCold, usePatientCold, useBackground, usePatientBackground,
			useDue, usePatientDue,
			useSession),
		shared(calls, useHot, usePatientHot, useCold, usePatientCold),
		shared(cold, useCold, usePatientCold),
		shared(background, useBackground, usePatientBackground),
		shared(heartbeats, useHeartbeats, usePatientHeartbeats),
		shared(due, useDue, usePatientDue),
	}}
	for u, most := range map[use]int{ // who is patient leaves a third, at least one, to the others
		usePatientHot: calls, usePatientCold: cold, usePatientBackground: background, usePatientHeartbeats: heartbeats,
		usePatientDue: due,
	} {
		s.shares = append(s.shares, shared(most-max(1, most/3), u))
	}
	if free >= 3 { // one is for heartbeats
		others := []use{useHot, usePatientHot, useCold, usePatientCold, useBackground, usePatientBackground, useSession}
		if free > 3 { // of three, what is due may have it, too: else it and calls keep each other out
			others = append(others, useDue, usePatientDue)
		}
		s.shares = append(s.shares, shared(n-1, others...))
	}
	return s
}

// most returns how many slots a use may have.
func (s *slots) most(u use) int {
	n := s.shares[0].most
	for _, sh := range s.shares {
		if sh.of[u] {
			n = min(n, sh.most)
		}
	}
	return n
}

// inUse returns how many slots some uses have.
func (s *slots) inUse(of ...use) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range of {
		n += s.held[u]
	}
	return n
}

// fits reports whether a use may take one more slot. mu is held.
func (s *slots) fits(u use) bool {
	for i := range s.shares {
		sh := &s.shares[i]
		if !sh.of[u] {
			continue
		}
		n := 0
		for v, held := range s.held {
			if sh.of[v] {
				n += held
			}
		}
		if n >= sh.most {
			return false
		}
	}
	return true
}

// take waits for a slot. waited says that there was none at once. The caller gives it back.
func (s *slots) take(ctx context.Context, u use) (waited bool, err error) {
	s.mu.Lock()
	if len(s.waiting[u]) == 0 && s.fits(u) {
		s.held[u]++
		s.mu.Unlock()
		return false, nil
	}
	t := &turn{came: s.came, granted: make(chan struct{})}
	s.came++
	s.waiting[u] = append(s.waiting[u], t)
	s.mu.Unlock()
	select {
	case <-t.granted:
		return true, nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range s.waiting[u] {
		if other == t {
			s.waiting[u] = append(s.waiting[u][:i], s.waiting[u][i+1:]...)
			return true, ctx.Err()
		}
	}
	return true, nil // it was granted at the same time
}

// try takes a slot if there is one at once.
func (s *slots) try(u use) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.waiting[u]) > 0 || !s.fits(u) {
		return false
	}
	s.held[u]++
	return true
}

// give gives a slot back, and grants what fits now.
func (s *slots) give(u use) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[u]--
	for {
		next := uses
		for v := range uses {
			if len(s.waiting[v]) == 0 || !s.fits(v) {
				continue
			}
			if next == uses || next > usePatientDue && s.waiting[v][0].came < s.waiting[next][0].came {
				next = v
			}
		}
		if next == uses {
			return
		}
		close(s.waiting[next][0].granted)
		s.waiting[next] = s.waiting[next][1:]
		s.held[next]++
	}
}
