package sqlite

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// readers is a bounded pool of connections that cannot write. The library's own pool opens
// all its connections at once, keeps broken ones, and starts a goroutine for each use.
type readers struct {
	open  func() (*conn, error)
	turns chan struct{} // one for each connection in use
	idle  chan *conn
	waits atomic.Int64 // calls that waited for a turn

	mu     sync.Mutex
	closed bool
}

func newReaders(open func() (*conn, error), most int) *readers {
	return &readers{open: open, turns: make(chan struct{}, most), idle: make(chan *conn, most)}
}

func (r *readers) acquire(ctx context.Context) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, classify(err)
	}
	select {
	case r.turns <- struct{}{}:
	default:
		r.waits.Add(1)
		select {
		case r.turns <- struct{}{}:
		case <-ctx.Done():
			return nil, classify(ctx.Err())
		}
	}
	r.mu.Lock()
	closed := r.closed
	r.mu.Unlock()
	if closed {
		<-r.turns
		return nil, errClosed
	}
	select {
	case c := <-r.idle:
		return c, nil
	default:
	}
	c, err := r.open()
	if err != nil {
		<-r.turns
		return nil, classify(err)
	}
	return c, nil
}

// release keeps a connection for the next reader, or closes it.
func (r *readers) release(c *conn, usable bool) {
	if usable {
		r.idle <- c // this does not block: idle has room for every connection
	} else {
		_ = c.close()
	}
	<-r.turns
}

// close waits until every connection has been released.
func (r *readers) close() (err error) {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	for range cap(r.turns) {
		r.turns <- struct{}{}
	}
	for len(r.idle) > 0 {
		err = errors.Join(err, (<-r.idle).close())
	}
	for range cap(r.turns) {
		<-r.turns
	}
	return err
}

// poolStates returns the state of the writing connection and of each pool of readers.
func (d *db) poolStates() []pawl.Pool {
	d.writer.mu.Lock()
	write := pawl.Pool{Name: "write", Max: 1, Idle: 1, Waits: d.writer.waits.Load()}
	if d.writer.taken {
		write.InUse, write.Idle = 1, 0
	}
	d.writer.mu.Unlock()
	out := []pawl.Pool{write}
	for _, p := range []struct {
		name string
		of   store.Purpose
	}{{"read", store.Calls}, {"heartbeats", store.Heartbeats}, {"background", store.Background}} {
		r := d.readers[p.of]
		out = append(out, pawl.Pool{Name: p.name, Max: cap(r.turns), InUse: len(r.turns), Idle: len(r.idle), Waits: r.waits.Load()})
	}
	return out
}

// View implements store.DB: one deferred transaction, whose snapshot is taken by its first
// statement. There are few connections, so a View inside a View may wait for itself.
func (d *db) View(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	if err := d.present(); err != nil {
		return err
	}
	readers := d.readers[store.PurposeOf(ctx)]
	c, err := readers.acquire(ctx)
	if err != nil {
		return err
	}
	t := &tx{conn: c, time: &txTime{clock: d.clock}, reads: true}
	usable := false
	defer func() { readers.release(c, usable) }()
	if _, err := c.exec("BEGIN"); err != nil {
		return classify(err)
	}
	defer func() { // also when fn panics
		c.closeRows()
		c.unwatch()
		_, err := c.exec("ROLLBACK")
		usable = err == nil && !broken(t.failed)
	}()
	err = fn(ctx, t)
	if err == nil {
		err = t.failed
	}
	return err
}
