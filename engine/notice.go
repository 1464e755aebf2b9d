package engine

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-work/pawl/engine/internal/commit"
)

// The minimum time between two notices of this process. Under load, single items need
// no fast notice.
const (
	noticeGap = time.Millisecond
	busyGap   = 5 * time.Millisecond
	busy      = 8 // calls of notifyPeers within a gap
)

// notices tell other processes of claimable work, where the database supports it. They
// are hints, sent outside the hot transactions; those that arise while one is being
// sent are batched. Nothing depends on them: if one is lost, a waiting claim finds the
// work at its next poll.
type notices struct {
	mu        sync.Mutex
	due       map[string]bool // namespaces to report
	count     int             // calls since the last send
	sending   bool
	listening bool
	connected atomic.Bool        // the listener is connected
	stop      context.CancelFunc // ends the listener
	work      sync.WaitGroup
}

// ready reports that a namespace has claimable work, to waiting claims of this process
// and to other processes.
func (e *Engine) ready(namespace string) {
	e.wake.wakeAll(namespace)
	e.notifyPeers(namespace)
}

// feedMoved stands for the feed in place of a namespace; no namespace has that name.
const feedMoved = "\x01"

// notifyPeers queues a notice about a namespace for other processes.
func (e *Engine) notifyPeers(namespace string) {
	if e.db.Dialect().Notify == nil {
		return
	}
	n := &e.notices
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.due == nil {
		n.due = map[string]bool{}
	}
	n.due[namespace] = true
	n.count++
	if !n.sending {
		n.sending = true
		n.work.Go(e.sendNotices)
	}
}

// sendNotices sends notices until none is due.
func (e *Engine) sendNotices() {
	n := &e.notices
	for {
		n.mu.Lock()
		var payloads []string
		for ns := range n.due {
			payloads = append(payloads, e.name+" "+ns)
		}
		gap := noticeGap
		if n.count > busy {
			gap = busyGap
		}
		clear(n.due)
		n.count = 0
		n.sending = len(payloads) > 0
		n.mu.Unlock()
		if len(payloads) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), commit.FlushLimit)
		if err := e.db.Dialect().Notify(ctx, payloads); err != nil {
			e.log.DebugContext(ctx, "other processes will find the work by polling", "error", err)
		}
		cancel()
		time.Sleep(gap)
	}
}

// listen starts the listener for other processes' notices, when a claim first waits.
func (e *Engine) listen() {
	n := &e.notices
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listening || e.db.Dialect().Listen == nil {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	n.listening, n.stop = true, stop
	n.work.Go(func() {
		for pause := 100 * time.Millisecond; ctx.Err() == nil; pause = min(2*pause, 10*time.Second) {
			err := e.db.Dialect().Listen(ctx, func() {
				pause = 100 * time.Millisecond
				n.connected.Store(true)
				e.heads.forget() // notices sent before the listener was connected are lost
				e.wake.wakeAll("")
				e.feed.Wake()
			}, e.onNotice)
			n.connected.Store(false)
			e.logError(ctx, "listening for other processes' work", err)
			select {
			case <-ctx.Done():
			case <-time.After(pause):
			}
		}
	})
}

func (e *Engine) onNotice(payload string) {
	from, ns, found := strings.Cut(payload, " ")
	if !found || from == e.name {
		return
	}
	e.feed.Wake()
	if ns != feedMoved {
		e.wake.wakeRemote(ns)
	}
}

// close ends the listener and waits for the notice that is being sent.
func (n *notices) close() {
	n.mu.Lock()
	if n.stop != nil {
		n.stop()
	}
	n.mu.Unlock()
	n.work.Wait()
}
