package relay

import (
	"slices"
	"time"

	"github.com/pawl-work/pawl"
)

// entry is one event that was read and is not confirmed yet.
type entry struct {
	position  int64
	message   Message // empty once done
	done      bool    // confirmed, refused or filtered out
	failures  int     // failures while other events were accepted
	notBefore time.Time
}

// window holds, in feed order, the events that were read and are not all done. It is all
// that a relay keeps in memory.
type window struct {
	entries []*entry
	base    int64 // position up to which all events are done
	last    int64 // position of the newest event that was read
}

// nextBatch returns the events to send now: for each task its first event that is not done,
// unless its retry is not due, up to limit. A batch has at most one event of a task, so
// the order of a task holds whichever messages the sink accepts.
func (w *window) nextBatch(now time.Time, limit int) []*entry {
	var batch []*entry
	seen := map[string]bool{}
	for _, e := range w.entries {
		if e.done || seen[e.message.Event.TaskID] {
			continue
		}
		seen[e.message.Event.TaskID] = true
		if e.notBefore.After(now) {
			continue
		}
		if batch = append(batch, e); len(batch) == limit {
			break
		}
	}
	return batch
}

// nextRetry is the earliest time at which a delayed entry may be sent.
func (w *window) nextRetry() (at time.Time, ok bool) {
	for _, e := range w.entries {
		if !e.done && !e.notBefore.IsZero() && (!ok || e.notBefore.Before(at)) {
			at, ok = e.notBefore, true
		}
	}
	return at, ok
}

// finish marks an entry done and drops its message.
func (e *entry) finish() { e.done, e.message = true, Message{} }

// trim removes the done entries at the front and returns the position up to which all
// events are done.
func (w *window) trim() int64 {
	i := 0
	for ; i < len(w.entries) && w.entries[i].done; i++ {
		w.base = w.entries[i].position
	}
	w.entries = slices.Delete(w.entries, 0, i)
	return w.base
}

// add appends an event that was read.
func (w *window) add(origin string, e pawl.Event, wanted bool) error {
	w.last = e.Position
	x := &entry{position: e.Position, done: !wanted}
	if wanted {
		var err error
		if x.message, err = compose(origin, e); err != nil {
			return err
		}
	}
	w.entries = append(w.entries, x)
	return nil
}
