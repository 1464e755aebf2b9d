package engine

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The least time between two hints of this process: where much is made, nobody
// waits for the single item.
const (
	noticeGap = time.Millisecond
	busyGap   = 5 * time.Millisecond
	busy      = 8 // words about new work within a gap
)

// notices carry the news of claimable work between processes, where the
// database can: as hints, outside the hot transactions, gathered while one is on
// its way. Nothing depends on them: a lost one delays a waiting claim by its poll.
type notices struct {
	mu        sync.Mutex
	due       map[string]bool // namespaces to tell of
	count     int             // that went into due
	sending   bool
	listening bool
	connected atomic.Bool        // the listener is connected
	stop      context.CancelFunc // ends the listener
	work      sync.WaitGroup
}

// ready says that a namespace has claimable work: to waiting claims here, and
// to other processes.
func (e *Engine) ready(namespace string) {
	e.wake.wakeAll(namespace)
	e.notifyPeers(namespace)
}

// feedMoved is told instead of a namespace when the feed moves: no namespace has
// that name.
const feedMoved = "\x01"

// notifyPeers gathers a namespace to tell other processes of.
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

// sendNotices tells until there is nothing to tell.
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
		ctx, cancel := context.WithTimeout(context.Background(), flushLimit)
		if err := e.db.Dialect().Notify(ctx, payloads); err != nil {
			e.log.DebugContext(ctx, "other processes will find the work by polling", "error", err)
		}
		cancel()
		time.Sleep(gap)
	}
}

// listen begins to hear other processes' notices, when a claim first waits.
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
				e.heads.forget() // what was told before we heard
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

// close ends the listener and waits for what is being told.
func (n *notices) close() {
	n.mu.Lock()
	if n.stop != nil {
		n.stop()
	}
	n.mu.Unlock()
	n.work.Wait()
}
