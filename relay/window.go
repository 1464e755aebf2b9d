package relay

import (
	"slices"
	"time"

	"github.com/pawl-work/pawl"
)

// entry is one event between the record and the sink.
type entry struct {
	position  int64
	message   Message // empty once done
	done      bool    // confirmed, set aside or not for this sink
	alone     int     // tries that failed while others succeeded
	notBefore time.Time
}

// window holds the events that have been read and are not all done, in order:
// all that a relay keeps in memory.
type window struct {
	entries []*entry
	base    int64 // position up to which all is done
	last    int64 // position of the newest that was read
}

// wave is what may be sent now: of each task the first event that is not done,
// unless it is to wait, up to limit. Since no task has two in it, whatever of it
// the sink takes and does not take, each task's order holds.
func (w *window) wave(now time.Time, limit int) []*entry {
	var wave []*entry
	seen := map[string]bool{}
	for _, e := range w.entries {
		if e.done || seen[e.message.Event.TaskID] {
			continue
		}
		seen[e.message.Event.TaskID] = true
		if e.notBefore.After(now) {
			continue
		}
		if wave = append(wave, e); len(wave) == limit {
			break
		}
	}
	return wave
}

// next is the earliest time at which an entry that waits may be sent.
func (w *window) next() (at time.Time, ok bool) {
	for _, e := range w.entries {
		if !e.done && !e.notBefore.IsZero() && (!ok || e.notBefore.Before(at)) {
			at, ok = e.notBefore, true
		}
	}
	return at, ok
}

// settle marks an entry done and lets go of its message.
func (e *entry) settle() { e.done, e.message = true, Message{} }

// trim drops what is done at the front and answers with the position up to which
// everything is.
func (w *window) trim() int64 {
	i := 0
	for ; i < len(w.entries) && w.entries[i].done; i++ {
		w.base = w.entries[i].position
	}
	w.entries = slices.Delete(w.entries, 0, i)
	return w.base
}

// add takes up an event that was read.
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
