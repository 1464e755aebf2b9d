package commit

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// Rows may be locked by other transactions. If a group met a lock within lockMemory,
// groups wait groupLock for each lock. A call that runs alone waits aloneLock.
const (
	groupLock  = 100 * time.Millisecond
	aloneLock  = 3 * time.Second
	lockMemory = 10 * time.Second
)

// separateItem is an item whose calls run alone, because another transaction holds a
// lock that they need.
type separateItem struct {
	until time.Time     // after this time calls join groups again
	done  chan struct{} // closed when the running call has ended; nil = none runs
	err   error         // the error of that call
}

// runAlone runs a request alone, with more time to wait for a lock. Only one call per
// item waits. If it does not get the lock, the calls that wait for it fail with the same
// error.
func (c *Committer[Row, Ans]) runAlone(ctx context.Context, req *request[Row, Ans]) {
	c.mu.Lock()
	req.alone = true
	c.flushes.Add(1)
	c.mu.Unlock()
	go func() {
		defer c.flushes.Done()
		group := []*request[Row, Ans]{req}
		a, err := c.enter(req)
		if err == nil {
			err = c.attempt(store.WithLockWait(ctx, aloneLock), group)
			c.leave(req, a, err)
		}
		if err != nil {
			req.out, req.err = nil, err
		}
		c.answer(ctx, group, true)
	}()
}

// enter waits until no other call for the request's items runs alone. It returns an error
// if that call did not get its lock.
func (c *Committer[Row, Ans]) enter(req *request[Row, Ans]) (*separateItem, error) {
	for {
		c.mu.Lock()
		other := c.separateOf(req)
		if other == nil || other.done == nil {
			a := &separateItem{done: make(chan struct{})}
			c.set(req, a)
			c.mu.Unlock()
			return a, nil
		}
		c.mu.Unlock()
		<-other.done
		if errors.Is(other.err, store.ErrLocked) {
			return nil, other.err
		}
	}
}

func (c *Committer[Row, Ans]) leave(req *request[Row, Ans], a *separateItem, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a.err = err
	close(a.done)
	if err == nil {
		c.set(req, nil)
	} else {
		c.set(req, &separateItem{until: clock.Now().Add(lockMemory)})
	}
}

// set stores the state of a request's items; nil = they join groups. c.mu is held.
func (c *Committer[Row, Ans]) set(req *request[Row, Ans], a *separateItem) {
	if c.options.Item == nil {
		return
	}
	if c.separate == nil {
		c.separate = map[string]*separateItem{}
	}
	maps.DeleteFunc(c.separate, func(_ string, a *separateItem) bool { return a.done == nil && clock.Now().After(a.until) })
	for i := range req.rows {
		if item := c.options.Item(&req.rows[i]); a == nil {
			delete(c.separate, item)
		} else {
			c.separate[item] = a
		}
	}
}

// separateOf returns the state of a request's items, a running one first; nil = the
// request may join a group. c.mu is held.
func (c *Committer[Row, Ans]) separateOf(req *request[Row, Ans]) (found *separateItem) {
	for i := 0; i < len(req.rows) && len(c.separate) > 0; i++ {
		switch a := c.separate[c.options.Item(&req.rows[i])]; {
		case a == nil:
		case a.done != nil:
			return a
		case clock.Now().Before(a.until):
			found = a
		}
	}
	return found
}
