package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// maxTimelineEvents bounds the events that a timeline is drawn from: the newest of the task.
const maxTimelineEvents = 500

// The sizes of a timeline in pixels: its rows, and the axis above them. Across, all places are
// percentages, so that the picture fits every screen and its texts are not scaled.
const (
	timelineRowHeight = 34
	timelineAxis      = 22
)

// timeline is a Gantt picture of items: what each did from when to when.
type timeline struct {
	From, To time.Time
	Rows     []timelineRow
	Ticks    []timelineTick
	Longest  []long // what took most of it, the longest first
	Partial  bool   // older events were not read
}

// timelineRow is an item of a timeline, or with Children the children of its task.
type timelineRow struct {
	pawl.Item
	Children bool
	Name     string // among the items of its task
	Y        int
	Spans    []span
	Marks    []mark
	Bars     []bar
	Left     int // bars that are not drawn
}

// Height is that of the row, in pixels.
func (r timelineRow) Height() int {
	if len(r.Bars) == 0 {
		return timelineRowHeight
	}
	return timelineRowHeight + barHeight*len(r.Bars) + barHeight/2
}

// span is a time that an item spent in one state. An attempt is one span.
type span struct {
	Kind        string // attempt, or the state of the item
	Attempt     int
	Worker      string
	For         string // what it waits for
	From        time.Time
	To          *time.Time // nil = it goes on
	How, Why    string     // of an attempt that ended: the event that ended it
	Error       *pawl.Failure
	X, Width    float64 // percent
	HeartbeatAt *time.Time
}

// mark is a moment of an item: a step, a part, a message, or the last heartbeat.
type mark struct {
	Kind, Label string
	At          time.Time
	X           float64
}

type timelineTick struct {
	X      float64
	Label  string
	Anchor string // where the label is relative to the line
}

// Glyph is the sign of how an attempt ended, for those who see no colours.
func (s span) Glyph() string {
	switch s.How {
	case "":
		return ""
	case "completed", "submitted":
		return "✓"
	case "lease_expired":
		return "✕"
	case "failed":
		return "!"
	case "suspended":
		return "‖"
	}
	return "↩" // released, revoked, cancelled
}

// End is where the span ends, in percent.
func (s span) End() float64 { return round(s.X + s.Width) }

// IsAttempt reports whether a worker held the item.
func (s span) IsAttempt() bool { return s.Kind == "attempt" }

// Took is how long the span was, in words.
func (s span) Took() string { return shortDuration(s.To.Sub(s.From)) }

// Describe says what the span is, in words.
func (s span) Describe() string {
	var b strings.Builder
	if s.IsAttempt() {
		fmt.Fprintf(&b, "attempt %d by %s", s.Attempt, cut(60, cmp.Or(s.Worker, "a worker")))
	} else {
		b.WriteString(s.Kind)
		if s.For != "" {
			b.WriteString(" " + cut(80, s.For))
		}
	}
	fmt.Fprintf(&b, ", from %s", utc(s.From))
	if s.To == nil {
		return b.String() + ", goes on"
	}
	fmt.Fprintf(&b, ", for %s", s.Took())
	if s.How != "" {
		fmt.Fprintf(&b, ", ended by %s", s.How)
	}
	return b.String()
}

// Height is that of the picture, in pixels.
func (t *timeline) Height() int {
	height := timelineAxis
	for _, r := range t.Rows {
		height += r.Height()
	}
	return height
}

// Items is the number of rows that are items.
func (t *timeline) Items() (n int) {
	for _, r := range t.Rows {
		if !r.Children {
			n++
		}
	}
	return n
}

// timelineSign is a sign of a timeline and what it means.
type timelineSign struct {
	Kind, How, Means string
	Mark, Bar        bool
	Glyph            string
}

var timelineSigns = []timelineSign{
	{Kind: "attempt", How: "completed", Glyph: "✓", Means: "attempt that handed in a result"},
	{Kind: "attempt", How: "failed", Glyph: "!", Means: "attempt that failed"},
	{Kind: "attempt", How: "lease_expired", Glyph: "✕", Means: "lease expired: the worker crashed or hung"},
	{Kind: "attempt", How: "suspended", Glyph: "‖", Means: "suspended"},
	{Kind: "attempt", How: "released", Glyph: "↩", Means: "released, revoked or cancelled"},
	{Kind: "attempt", Means: "attempt that goes on"},
	{Kind: "queued", Means: "queued"},
	{Kind: "scheduled", Means: "back-off or start time"},
	{Kind: "waiting", Means: "sleeps or waits"},
	{Kind: "submitted", Means: "waits for approval"},
	{Kind: "accepted", Means: "approved"},
	{Kind: "checkpoint", Mark: true, Means: "step or checkpoint"},
	{Kind: "part", Mark: true, Means: "part"},
	{Kind: "message", Mark: true, Means: "message"},
	{Kind: "heartbeat", Mark: true, Means: "last heartbeat"},
	{Kind: "step", Bar: true, Means: "step"},
	{Kind: "model", Bar: true, Means: "answer of a model"},
	{Kind: "message", Bar: true, Means: "message being written"},
	{Kind: "effect", Bar: true, Means: "effect"},
	{Kind: "wait", Bar: true, Means: "wait"},
	{Kind: "child", Bar: true, Means: "child task"},
}

// Legend lists the signs that are in the picture.
func (t *timeline) Legend() (out []timelineSign) {
	for _, sign := range timelineSigns {
		shown := func(r timelineRow) bool {
			switch {
			case sign.Mark:
				return slices.ContainsFunc(r.Marks, func(m mark) bool { return m.Kind == sign.Kind })
			case sign.Bar:
				return slices.ContainsFunc(r.Bars, func(l bar) bool { return l.Kind == sign.Kind })
			}
			return slices.ContainsFunc(r.Spans, func(s span) bool { return s.Kind == sign.Kind && s.Glyph() == sign.Glyph })
		}
		if slices.ContainsFunc(t.Rows, shown) {
			out = append(out, sign)
		}
	}
	return out
}

// maxTimelineSteps bounds the checkpoints that a timeline is drawn from: the newest.
const maxTimelineSteps = 200

// timeline draws items of a task or, with an item id, that item, with the messages and children on the page. nil: the page is
// shown without it.
func (d *server) timeline(
	ctx context.Context, taskID, itemID string, items []pawl.Item, messages []pawl.Message, children *tree,
) *timeline {
	events, err := d.svc.ListEvents(ctx, pawl.EventFilter{TaskID: taskID, ItemID: itemID, Page: pawl.Page{Limit: maxTimelineEvents}})
	if err != nil {
		return nil
	}
	steps, err := d.svc.ListCheckpoints(ctx, pawl.CheckpointFilter{
		TaskID: taskID, ItemID: itemID, Desc: true, Brief: true, Page: pawl.Page{Limit: maxTimelineSteps}})
	if err != nil {
		return nil
	}
	effects, err := d.svc.ListEffects(ctx, pawl.EffectFilter{TaskID: taskID, ItemID: itemID, Page: pawl.Page{Limit: manyRows}})
	if err != nil {
		return nil
	}
	return timelineOf(drawn{items, events, steps.Items, messages, effects.Items, children})
}

// drawn is what a timeline is drawn from: items, and of their task the newest events and checkpoints, which are newest
// first, messages, effects and children.
type drawn struct {
	items    []pawl.Item
	events   pawl.List[pawl.Event]
	steps    []pawl.Checkpoint
	messages []pawl.Message
	effects  []pawl.EffectRecord
	children *tree
}

func timelineOf(d drawn) *timeline {
	items, events := d.items, d.events
	if len(items) == 0 {
		return nil
	}
	now := clock.Now()
	byItem := map[string][]pawl.Event{}
	for _, e := range slices.Backward(events.Items) {
		byItem[e.ItemID] = append(byItem[e.ItemID], e)
	}
	marks, steps, bars := map[string][]mark{}, map[string][]pawl.Checkpoint{}, map[string][]bar{}
	for _, c := range slices.Backward(d.steps) {
		steps[c.ItemID] = append(steps[c.ItemID], c)
		marks[c.ItemID] = append(marks[c.ItemID], mark{Kind: "checkpoint", Label: cmp.Or(c.Name, c.Type), At: c.CreatedAt})
	}
	for _, m := range d.messages {
		bars[m.ItemID] = append(bars[m.ItemID], messageBar(m))
		marks[m.ItemID] = append(marks[m.ItemID], mark{Kind: "message", Label: "of the " + m.Role, At: m.CreatedAt})
	}
	for _, f := range d.effects {
		bars[f.ItemID] = append(bars[f.ItemID], effectBar(f))
	}
	t := &timeline{From: items[0].CreatedAt, Partial: events.Next != ""}
	for _, it := range items {
		r := timelineRow{Item: it, Y: t.Height()}
		r.Name = labelOf(it)
		if len(items) == 1 && it.Key == "" {
			r.Name = it.Type
		}
		if of := byItem[it.ID]; len(of) > 0 {
			r.Spans, r.Marks = spansOf(it, of)
		} else {
			r.Spans = roughSpans(it)
		}
		r.Marks = append(marks[it.ID], r.Marks...)
		starts := map[int]time.Time{}
		for _, s := range r.Spans {
			starts[s.Attempt] = s.From
		}
		r.put(slices.Concat(stepBars(steps[it.ID], starts), bars[it.ID], waitBars(r.Spans)), now)
		t.Rows = append(t.Rows, r)
	}
	if d.children != nil && len(d.children.Tasks) > 0 {
		r := timelineRow{Children: true, Y: t.Height()}
		r.put(childBars(d.children.Tasks), now)
		t.Rows = append(t.Rows, r)
	}
	t.place(now)
	t.Longest = t.longest(now)
	return t
}

// place computes where everything is, for spans that go on until now.
func (t *timeline) place(now time.Time) {
	t.To = t.From
	each := func(do func(from time.Time, to *time.Time, x, width *float64)) {
		for i := range t.Rows {
			for j := range t.Rows[i].Spans {
				s := &t.Rows[i].Spans[j]
				do(s.From, s.To, &s.X, &s.Width)
			}
			for j := range t.Rows[i].Marks {
				m := &t.Rows[i].Marks[j]
				do(m.At, &m.At, &m.X, new(float64))
			}
			for j := range t.Rows[i].Bars {
				l := &t.Rows[i].Bars[j]
				do(l.From, l.To, &l.X, &l.Width)
			}
		}
	}
	each(func(from time.Time, to *time.Time, _, _ *float64) {
		if from.Before(t.From) {
			t.From = from
		}
		if to == nil {
			to = &now
		}
		if to.After(t.To) {
			t.To = *to
		}
	})
	whole := max(t.To.Sub(t.From), time.Millisecond)
	percent := func(d time.Duration) float64 { return round(min(100, 100*float64(max(0, d))/float64(whole))) }
	each(func(from time.Time, to *time.Time, x, width *float64) {
		if to == nil {
			to = &t.To
		}
		*x = percent(from.Sub(t.From))
		*width = round(max(0.4, percent(to.Sub(t.From))-*x)) // what is short is seen
	})
	for i, anchor := range []string{"start", "middle", "middle", "middle", "end"} {
		at := time.Duration(i) * whole / 4
		t.Ticks = append(t.Ticks, timelineTick{float64(25 * i), "+" + shortDuration(at), anchor})
	}
}

// round keeps two digits after the point.
func round(f float64) float64 { return math.Round(100*f) / 100 }

// inUnits is a number of seconds in all units that it has, such as 1 h 30 min.
func inUnits(seconds int64) string {
	var parts []string
	for i, size := range []int64{86_400, 3600, 60, 1} {
		if n := seconds / size; n > 0 || seconds == 0 && i == 3 && parts == nil {
			parts = append(parts, fmt.Sprintf("%d %s", n, []string{"d", "h", "min", "s"}[i]))
		}
		seconds %= size
	}
	return strings.Join(parts, " ")
}

// shortDuration is a duration in its two largest units.
func shortDuration(d time.Duration) string {
	switch {
	case d <= 0:
		return "0 s"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
	case d < 24*time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d d %d h", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}
