package watch

import (
	"context"
	"strings"
	"time"
)

// minNoticeInterval and busyGap are the minimum time between two notices of this process. Under load,
// a single change needs no fast notice.
const (
	minNoticeInterval  = time.Millisecond
	busyNoticeInterval = 5 * time.Millisecond
	busyCalls          = 8 // calls of Notify within a gap
	noticeLimit        = 30 * time.Second
)

// notices tell other processes of changes, if the database supports it. They are hints and are
// sent outside the hot transactions. Those that arise while one is being sent are batched.
// Nothing depends on them: if one is lost, a waiting goroutine finds the change at its next
// poll.
type notices struct {
	due     map[string]bool // subjects to report
	count   int             // calls since the last send
	sending bool
}

// feedSubject is used for Feed in place of a namespace; no namespace has that name.
const feedSubject = "\x01"

// Notify wakes only the goroutines of other processes that wait for a topic of Work or Feed.
func (h *Hub) Notify(t Topic) {
	if h.options.Notify == nil {
		return
	}
	subject := t.name
	if t.kind == feed {
		subject = feedSubject
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	n := &h.notices
	if n.due == nil {
		n.due = map[string]bool{}
	}
	n.due[subject] = true
	n.count++
	if !n.sending && h.ctx.Err() == nil {
		n.sending = true
		h.work.Go(h.send)
	}
}

// send sends notices until none is due.
func (h *Hub) send() {
	n := &h.notices
	for {
		h.mu.Lock()
		var payloads []string
		for subject := range n.due {
			payloads = append(payloads, h.name+" "+subject)
		}
		gap := minNoticeInterval
		if n.count > busyCalls {
			gap = busyNoticeInterval
		}
		clear(n.due)
		n.count = 0
		n.sending = len(payloads) > 0
		h.mu.Unlock()
		if len(payloads) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), noticeLimit)
		if err := h.options.Notify(ctx, payloads); err != nil {
			h.options.Log.DebugContext(ctx, "other processes will find the work by polling", "error", err)
		}
		cancel()
		time.Sleep(gap)
	}
}

// onNotice handles a notice of another process, and ignores notices of this one.
func (h *Hub) onNotice(payload string) {
	from, subject, found := strings.Cut(payload, " ")
	if !found || from == h.name {
		return
	}
	h.Wake(Commits())
	if subject != feedSubject {
		h.options.OnRemote(Work(subject))
		h.Wake(Work(subject))
	}
}
