package main

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
)

// record is a record whose events come to light in any order.
type record struct {
	pawl.RecordReader
	events []pawl.Event
}

func (r *record) commit(number int, at time.Duration) {
	r.events = append(r.events, pawl.Event{ID: fmt.Sprintf("evt_%d", number), CreatedAt: time.Unix(1e9, 0).Add(at)})
}

// ListEvents sorts by time, then number, and pages by three.
func (r *record) ListEvents(_ context.Context, f pawl.EventFilter) (pawl.List[pawl.Event], error) {
	found := slices.DeleteFunc(slices.Clone(r.events), func(e pawl.Event) bool { return e.CreatedAt.Before(f.Since) })
	slices.SortStableFunc(found, func(a, b pawl.Event) int { return a.CreatedAt.Compare(b.CreatedAt) })
	if !f.Asc {
		slices.Reverse(found)
	}
	var from int
	_, _ = fmt.Sscan(f.Cursor, &from)
	to := min(from+min(f.Limit, 3), len(found))
	out := pawl.List[pawl.Event]{Items: found[from:to]}
	if to < len(found) {
		out.Next = fmt.Sprint(to)
	}
	return out, nil
}

// On PostgreSQL a later number may be seen before an earlier one whose
// transaction was longer. Each is printed once, none is lost.
func TestTailLosesNothingThatCommitsLate(t *testing.T) {
	var printed []string
	r := &record{}
	f := tail{from: r, seen: map[string]time.Time{}, print: func(e pawl.Event) error {
		printed = append(printed, e.ID)
		return nil
	}}
	next := func(want ...string) {
		t.Helper()
		if err := f.next(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(printed, want) {
			t.Errorf("printed %v, want %v", printed, want)
		}
		printed = nil
	}
	for i := range 8 {
		r.commit(i, time.Duration(i)*time.Second)
	}
	if err := f.start(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	next("evt_6", "evt_7")
	next()
	r.commit(10, 20*time.Second)
	next("evt_10")
	r.commit(9, 8*time.Second) // its transaction was the longer one
	r.commit(11, 20*time.Second)
	next("evt_9", "evt_11")
	for i := range 7 {
		r.commit(20+i, time.Hour)
	}
	next("evt_20", "evt_21", "evt_22", "evt_23", "evt_24", "evt_25", "evt_26")
	next()
	if len(f.seen) != 7 {
		t.Errorf("%d ids are kept, want those of the last minutes", len(f.seen))
	}
}

func TestTailOfNothingPastFollowsWhatComes(t *testing.T) {
	var printed []string
	r := &record{}
	f := tail{from: r, seen: map[string]time.Time{}, print: func(e pawl.Event) error {
		printed = append(printed, e.ID)
		return nil
	}}
	for i := range 5 {
		r.commit(i, time.Duration(i)*time.Second)
	}
	if err := f.start(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	r.commit(5, time.Minute)
	if err := f.next(t.Context()); err != nil || !slices.Equal(printed, []string{"evt_5"}) {
		t.Errorf("printed %v, %v", printed, err)
	}
}

func TestTailOfAnEmptyRecord(t *testing.T) {
	var printed []string
	r := &record{}
	f := tail{from: r, seen: map[string]time.Time{}, print: func(e pawl.Event) error {
		printed = append(printed, e.ID)
		return nil
	}}
	if err := f.start(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	r.commit(1, 0)
	if err := f.next(t.Context()); err != nil || !slices.Equal(printed, []string{"evt_1"}) {
		t.Errorf("printed %v, %v", printed, err)
	}
}
