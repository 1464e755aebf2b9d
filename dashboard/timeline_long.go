package dashboard

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-work/pawl"
)

// maxLong is how many of the longest parts of a run are named.
const maxLong = 5

// long is a part of a run that took much of it: a step, a message, an effect, a wait, a child, a time in a queue, or an attempt
// of which no part is known.
type long struct {
	Kind, Name, Of, Link string
	Took                 string
	Percent              int // of the whole run
	GoesOn               bool
	length               time.Duration
}

// longest finds the parts that took most. A part that is less than a hundredth of the run is left out.
func (t *timeline) longest(now time.Time) (out []long) {
	whole := max(t.To.Sub(t.From), time.Millisecond)
	add := func(l long, from time.Time, to *time.Time) {
		if l.GoesOn = to == nil; l.GoesOn {
			to = &now
		}
		l.length = to.Sub(from)
		l.Percent, l.Took = int(100*float64(l.length)/float64(whole)), shortDuration(l.length)
		if l.Percent > 0 {
			out = append(out, l)
		}
	}
	for _, r := range t.Rows {
		if !r.Children {
			r.spansFor(add)
		}
		for _, b := range r.Bars {
			link := b.Link
			if link == "" {
				link = "/ui/items/" + escape(r.ID)
			}
			add(long{Kind: b.Kind, Name: b.Name, Of: r.Name, Link: link}, b.From, b.To)
		}
	}
	slices.SortStableFunc(out, func(a, b long) int { return cmp.Compare(b.length, a.length) })
	return out[:min(len(out), maxLong)]
}

// longKinds are the words for the kinds of spans that are told.
var longKinds = map[string]string{"attempt": "attempt", string(pawl.ItemQueued): "queued",
	string(pawl.ItemScheduled): "back-off or start time of", string(pawl.ItemSubmitted): "waits for approval:"}

// spansFor tells of the spans of an item that no bar shows: times in a queue, and attempts without a step.
func (r *timelineRow) spansFor(add func(l long, from time.Time, to *time.Time)) {
	for _, s := range r.Spans {
		within := func(b bar) bool {
			return !b.From.Before(s.From) && (s.To == nil || b.From.Before(*s.To)) && b.Kind != "wait" && b.Kind != "effect"
		}
		l := long{Kind: longKinds[s.Kind], Of: r.Name, Link: "/ui/items/" + escape(r.ID)}
		switch {
		case l.Kind == "": // a wait, which has a bar, or what it comes after is told by itself
		case !s.IsAttempt():
			add(l, s.From, s.To)
		case !slices.ContainsFunc(r.Bars, within):
			l.Name = strconv.Itoa(s.Attempt)
			add(l, s.From, s.To)
		}
	}
}
