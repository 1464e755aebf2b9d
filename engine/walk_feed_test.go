package engine_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
)

// walkFeed is a follower that runs all the time. After an error it begins again where it
// was.
type walkFeed struct {
	mu     sync.Mutex
	at     pawl.FeedPosition
	seen   []uint64          // a bit for each event's number
	items  map[string]string // the state after the item's newest event
	tasks  map[string]string
	faults []walkFault
}

// walkFault is a fault of a feed, about one task.
type walkFault struct{ task, what string }

func (f *walkFeed) follow(ctx context.Context, e *engine.Engine) {
	for ctx.Err() == nil {
		after := f.at.Position
		from := pawl.EventFilter{After: &after, Epoch: f.at.Epoch}
		err := e.FollowEvents(ctx, from, func(through pawl.FeedPosition, events []pawl.Event) error {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.at = through
			for n := range events {
				f.take(&events[n])
			}
			return nil
		})
		if restart, turned := pawl.RestartOf(err); turned {
			f.mu.Lock()
			f.faults = append(f.faults, walkFault{"", fmt.Sprintf("the epoch rose, restart from %s: %v", restart, err)})
			f.at = restart
			f.mu.Unlock()
		}
	}
}

// take notes an event. It checks that the event continues from the one before of its task
// and item.
func (f *walkFeed) take(ev *pawl.Event) {
	id, _ := strconv.ParseInt(strings.TrimPrefix(ev.ID, "evt_"), 10, 64)
	for int(id/64) >= len(f.seen) {
		f.seen = append(f.seen, 0)
	}
	if f.seen[id/64]&(1<<(id%64)) != 0 {
		f.faults = append(f.faults, walkFault{ev.TaskID, "event " + ev.ID + " came twice"})
	}
	f.seen[id/64] |= 1 << (id % 64)
	taskFrom, taskTo := ev.TaskFrom, ev.TaskTo
	if ev.ItemID == "" {
		taskFrom, taskTo = ev.FromState, ev.ToState
	} else {
		f.step(f.items, ev, ev.ItemID, ev.FromState, ev.ToState)
	}
	f.step(f.tasks, ev, ev.TaskID, taskFrom, taskTo)
}

func (f *walkFeed) step(states map[string]string, ev *pawl.Event, id, from, to string) {
	if to == "" {
		return
	}
	if states[id] != from {
		f.faults = append(f.faults,
			walkFault{ev.TaskID, fmt.Sprintf("event %s (%s) takes %s from %q, it was %q", ev.ID, ev.Event, id, from, states[id])})
	}
	states[id] = to
}

func (f *walkFeed) missing(ids []int64) (out []int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, id := range ids {
		if int(id/64) >= len(f.seen) || f.seen[id/64]&(1<<(id%64)) == 0 {
			out = append(out, id)
		}
	}
	return out
}

func (f *walkFeed) takeFaults() (out []walkFault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	out, f.faults = f.faults, nil
	clear(f.items)
	clear(f.tasks)
	return out
}
