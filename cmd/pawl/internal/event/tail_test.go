package event

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/pawl-work/pawl"
)

// record is a record in which something is committed while the past is read.
type record struct {
	pawl.RecordReader
	events []pawl.Event
	during func()
}

func (r *record) commit(number int) {
	r.events = append(r.events, pawl.Event{ID: fmt.Sprintf("evt_%d", number)})
}

func (r *record) ListEvents(_ context.Context, f pawl.EventFilter) (pawl.List[pawl.Event], error) {
	found := slices.Clone(r.events)
	slices.Reverse(found)
	return pawl.List[pawl.Event]{Items: found[:min(f.Limit, len(found))]}, nil
}

func (r *record) FollowEvents(_ context.Context, f pawl.EventFilter, fn func(pawl.FeedPosition, []pawl.Event) error) error {
	from := len(r.events)
	r.during()
	if err := fn(pawl.FeedPosition{Position: int64(from)}, nil); err != nil {
		return err
	}
	r.commit(100)
	return fn(pawl.FeedPosition{Position: int64(len(r.events))}, r.events[from:])
}

func TestTailPrintsEachOnce(t *testing.T) {
	for lines, want := range map[int][]string{
		0: {"evt_6", "evt_5", "evt_100"},
		1: {"evt_5", "evt_6", "evt_100"},
		3: {"evt_4", "evt_6", "evt_5", "evt_100"},
		9: {"evt_1", "evt_2", "evt_3", "evt_4", "evt_6", "evt_5", "evt_100"},
	} {
		r := &record{}
		for i := range 4 {
			r.commit(i + 1)
		}
		r.during = func() { r.commit(6); r.commit(5) }
		var printed []string
		f := tail{from: r, print: func(e pawl.Event) error {
			printed = append(printed, e.ID)
			return nil
		}}
		if err := f.follow(t.Context(), lines); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(printed, want) {
			t.Errorf("%d lines: printed %v, want %v", lines, printed, want)
		}
	}
}
