package main

import (
	"sync"
)

// gate blocks its callers until need of them have arrived.
type gate struct {
	need int

	mu   sync.Mutex
	came int
	open chan struct{}
}

func (g *gate) pass() { g.passThen(func() {}) }

// passThen passes the gate; the last caller runs fn before the gate opens.
func (g *gate) passThen(fn func()) {
	g.mu.Lock()
	if g.open == nil {
		g.open = make(chan struct{})
	}
	g.came++
	if g.came == g.need {
		fn()
		close(g.open)
	}
	open := g.open
	g.mu.Unlock()
	<-open
}
