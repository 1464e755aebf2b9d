package schedules

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// restingSchedules are the schedules that this process could not fire, by id, with the time of
// the database at which it tried.
type restingSchedules struct {
	mu    sync.Mutex
	tried map[string]resting
}

// resting is when a schedule was tried, and for how long it rests, in microseconds.
type resting struct{ at, lasts int64 }

func (r *restingSchedules) add(id string, now int64, lasts time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.tried == nil {
		r.tried = map[string]resting{}
	}
	r.tried[id] = resting{now, lasts.Microseconds()}
}

// ids returns the schedules that still rest. A clock that went back does not prolong their rest.
func (r *restingSchedules) ids(now int64) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.tried, func(_ string, t resting) bool { return max(now-t.at, t.at-now) >= t.lasts })
	return slices.Collect(maps.Keys(r.tried))
}

// until is when the first rest ends; nil = nothing rests.
func (r *restingSchedules) until(now int64) (first *int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.tried {
		if end := t.at + t.lasts; end > now && (first == nil || end < *first) {
			first = &end
		}
	}
	return first
}
