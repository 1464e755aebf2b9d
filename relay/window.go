package relay

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
)

// entry is one event that was read and is not confirmed yet.
type entry struct {
	before    int64 // position of the event that was read before it
	index     int   // how many were read before it
	message   Message
	done      bool  // confirmed or refused
	tried     int   // number of the newest batch that had it; 0 = none
	failed    bool  // at least once
	accepted  int64 // how many events the sink had accepted when this one was last tried
	failures  int   // failures while other events were accepted
	notBefore time.Time
}

// window holds, in feed order, the events that were read and are not done. It is all that a relay keeps in memory.
type window struct {
	entries []*entry
	last    int64 // position of the newest event that was read
	read    int   // how many events were read
}

// nextBatch returns the events to send now: for each task its first event that is not done,
// unless its retry is not due, up to limit. A batch has at most one event of a task, so
// the order of a task holds whichever messages the sink accepts. While the sink fails, those that were tried longest ago
// come first, so that a few events that it always refuses do not keep the others from it.
func (w *window) nextBatch(now time.Time, limit int, failing bool) []*entry {
	var batch []*entry
	seen := map[string]bool{}
	for _, e := range w.entries {
		if seen[e.message.Event.TaskID] {
			continue
		}
		seen[e.message.Event.TaskID] = true
		if e.notBefore.After(now) {
			continue
		}
		if batch = append(batch, e); len(batch) == limit && !failing {
			break
		}
	}
	if failing {
		slices.SortStableFunc(batch, func(a, b *entry) int { return cmp.Compare(a.tried, b.tried) })
		batch = batch[:min(len(batch), limit)]
	}
	return batch
}

// nextRetry is the earliest time at which a delayed entry may be sent.
func (w *window) nextRetry() (at time.Time, ok bool) {
	for _, e := range w.entries {
		if !e.notBefore.IsZero() && (!ok || e.notBefore.Before(at)) {
			at, ok = e.notBefore, true
		}
	}
	return at, ok
}

// trim removes the done entries and returns the position up to which all events are done.
func (w *window) trim() int64 {
	w.entries = slices.DeleteFunc(w.entries, func(e *entry) bool { return e.done })
	if len(w.entries) > 0 {
		return w.entries[0].before
	}
	return w.last
}

// room is how many events may be read now. For a sink that gives up events (MaxTries), each counted failure of the first
// one makes room for more: they show whether the sink accepts others.
func (w *window) room(givesUp bool) int {
	if len(w.entries) == 0 {
		return windowSize
	}
	first := w.entries[0]
	held, read := windowSize, windowSize
	if givesUp {
		held *= 1 + first.failures
		read = maxOvertaken * (1 + first.failures)
	}
	return min(windowSize, held-len(w.entries), read-(w.read-first.index))
}

// add notes an event that was read, and holds it if it is wanted.
func (w *window) add(origin string, e pawl.Event, wanted bool) error {
	if wanted {
		m, err := compose(origin, e)
		if err != nil {
			return err
		}
		w.entries = append(w.entries, &entry{before: w.last, index: w.read, message: m})
	}
	w.last, w.read = e.Position, w.read+1
	return nil
}
