package push

import (
	"sync"
	"time"
)

const (
	// openAfter is after how many failures in a row, of whatever items, a URL is left alone for a while.
	openAfter = 5
	openFirst = time.Second
	openMost  = time.Minute
)

// circuit keeps calls from a URL that does not answer, so that the items do not use up their
// attempts.
type circuit struct {
	mu     sync.Mutex
	failed int
	opened time.Time // when the last failure counted while the circuit was open, or opened it
	until  time.Time
}

// wait returns how long to leave the URL alone.
func (c *circuit) wait(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.until.Sub(now), 0)
}

// most bounds the calls that are begun together: one, while it is not known whether the URL answers again.
func (c *circuit) most(calls int) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed >= openAfter {
		return 1
	}
	return calls
}

// note records whether the URL answered a call. A failure of a call that began before the circuit opened says nothing new.
func (c *circuit) note(answered bool, begun, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if answered {
		c.failed, c.until = 0, time.Time{}
		return
	}
	if !begun.After(c.opened) {
		return
	}
	if c.failed++; c.failed >= openAfter {
		c.opened, c.until = now, now.Add(min(openFirst<<min(c.failed-openAfter, 10), openMost))
	}
}
