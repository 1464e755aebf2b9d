package dashboard

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

// maxBars bounds the bars of one row of a timeline.
const maxBars = 60

// barHeight is that of a bar, in pixels.
const barHeight = 22

// bar is something that took time inside of an item: a step, a message, an effect, or what it waited for. A child
// of the task is one, too.
type bar struct {
	Kind     string // step, message, effect, wait or child
	Name     string
	More     string // tokens, amounts, the state
	Link     string // its page, without the prefix
	From     time.Time
	To       *time.Time // nil = it goes on
	AtMost   bool       // its beginning was not recorded: it is the end of what came before
	X, Width float64    // percent
	Y        int        // pixels in the row
}

// TextY and LineY are where the text and the bar of a bar are in its row.
func (l bar) TextY() int { return l.Y + 10 }
func (l bar) LineY() int { return l.Y + 14 }

// At is where the text of a bar is, in percent: at the end of a bar that begins far on the right.
func (l bar) At() float64 {
	if l.Anchor() == "end" {
		return round(l.X + l.Width)
	}
	return l.X
}

// Anchor is how the text of a bar lies to its place.
func (l bar) Anchor() string {
	if l.X > 55 {
		return "end"
	}
	return "start"
}

// Took says how long it took.
func (l bar) Took() string {
	if l.To == nil {
		return "goes on"
	}
	took := shortDuration(l.To.Sub(l.From))
	if l.AtMost {
		return "at most " + took
	}
	return took
}

// Text is what stands at the bar.
func (l bar) Text() string {
	name := cut(60, l.Name)
	if l.Kind != "step" {
		name = strings.TrimSpace(l.Kind + " " + name)
	}
	text := name + " · " + l.Took()
	if l.More != "" {
		text += " · " + cut(80, l.More)
	}
	return text
}

// stepKept is what the metadata of a step's checkpoint says about its time.
type stepKept struct {
	TookMS *int64 `json:"took_ms"`
}

// stepBars are the steps of an item, whose checkpoints are oldest first. An attempt begins at the time that starts
// says. The checkpoint of a step that a program of ours ran says how long it took; of any other one it is
// known when the one before it was saved.
func stepBars(steps []pawl.Checkpoint, starts map[int]time.Time) (out []bar) {
	before, attempt := time.Time{}, 0
	for _, c := range steps {
		if c.Attempt != attempt {
			before, attempt = starts[c.Attempt], c.Attempt
		}
		end := c.CreatedAt
		l := bar{Kind: "step", Name: cmp.Or(c.Name, c.Type), To: &end}
		if c.Type == pawl.LLMResponse {
			l.Kind, l.More = "model", modelIn(c.Metadata)
		}
		var kept stepKept
		_ = json.Unmarshal(c.Metadata, &kept) // other programs keep what they like, and it may be hidden
		switch {
		case kept.TookMS != nil && *kept.TookMS > 0:
			l.From = end.Add(-time.Duration(*kept.TookMS) * time.Millisecond)
			out = append(out, l)
		case c.ArgsHash == "" && !before.IsZero() && end.Sub(before) >= time.Millisecond &&
			slices.Contains([]string{pawl.ToolExecuted, pawl.LLMResponse, pawl.IterationEnd}, c.Type):
			l.From, l.AtMost = before, true
			out = append(out, l)
		}
		before = end
	}
	return out
}

// modelIn says what the metadata of the checkpoint of a model's answer counts: the model, tokens and cost.
func modelIn(raw json.RawMessage) string {
	var m struct {
		Model string
		Usage json.RawMessage
	}
	_ = json.Unmarshal(raw, &m) // another shape says nothing
	return strings.Trim(m.Model+", "+cmp.Or(usageIn(m.Usage), usageIn(raw)), ", ")
}

// messageBar is a message of an item, with what its usage says.
func messageBar(m pawl.Message) bar {
	name := m.Model
	if name == "" {
		name = "of the " + m.Role
	}
	return bar{Kind: "message", Name: name, More: usageIn(m.Usage), Link: "/ui/messages/" + escape(m.ID), From: m.CreatedAt, To: m.EndedAt}
}

// usageIn says in words what the usage of a message counts, under the names that the usual libraries have.
func usageIn(raw json.RawMessage) string {
	var u map[string]any
	_ = json.Unmarshal(raw, &u) // another shape says nothing
	number := func(names ...string) (float64, bool) {
		for _, name := range names {
			if n, is := u[name].(float64); is {
				return n, true
			}
		}
		return 0, false
	}
	var out []string
	in, hasIn := number("input_tokens", "prompt_tokens", "inputTokens", "promptTokens")
	made, hasMade := number("output_tokens", "completion_tokens", "outputTokens", "completionTokens")
	switch all, has := number("total_tokens", "totalTokens"); {
	case hasIn && hasMade:
		out = append(out, fmt.Sprintf("%.0f + %.0f tokens", in, made))
	case has:
		out = append(out, fmt.Sprintf("%.0f tokens", all))
	}
	if cost, has := number("cost", "cost_usd", "total_cost", "totalCost"); has {
		out = append(out, fmt.Sprintf("cost %g", cost))
	}
	return strings.Join(out, ", ")
}

// effectBar is an effect of an item from its opening to its decision.
func effectBar(f pawl.EffectRecord) bar {
	more := string(f.State)
	if f.Budget != "" {
		more += fmt.Sprintf(", %d of %s", f.Amount, f.Budget)
	}
	l := bar{Kind: "effect", Name: f.Name, More: more, Link: "/ui/effects/" + escape(f.ID), From: f.CreatedAt, To: f.EndedAt}
	if f.OpenedAt != nil {
		l.From = *f.OpenedAt
	}
	return l
}

// waitBars are the waits among the spans of an item.
func waitBars(spans []span) (out []bar) {
	for _, s := range spans {
		if s.For != "" {
			out = append(out, bar{Kind: "wait", Name: s.For, From: s.From, To: s.To})
		}
	}
	return out
}

// waitIn says what the event of a suspension waits for.
func waitIn(data json.RawMessage) string {
	var d struct {
		Until       *time.Time
		Signal, Key string
		Children    *struct {
			Name  string
			Count int
		}
	}
	_ = json.Unmarshal(data, &d) // without them nothing is said
	switch {
	case d.Children != nil && d.Children.Name != "":
		return fmt.Sprintf("for %d children of %s", d.Children.Count, d.Children.Name)
	case d.Children != nil:
		return fmt.Sprintf("for %d children", d.Children.Count)
	case d.Signal != "":
		return strings.TrimSpace("for signal " + d.Signal + " " + d.Key)
	case d.Until != nil:
		return "until " + utc(*d.Until)
	}
	return ""
}

// childBars are the children of a task.
func childBars(tasks []treeTask) (out []bar) {
	for _, t := range tasks {
		if t.Depth > 1 {
			continue
		}
		l := bar{Kind: "child", Name: cmp.Or(t.Title, t.Type), More: string(t.State), Link: "/ui/tasks/" + escape(t.ID), From: t.CreatedAt,
			To: t.CompletedAt}
		if l.To == nil && t.State.Ended() {
			l.To = &t.UpdatedAt
		}
		out = append(out, l)
	}
	return out
}

// put puts bars into a row, in the order of their beginnings; the longest stay if there are too many.
func (r *timelineRow) put(bars []bar, now time.Time) {
	length := func(l bar) time.Duration {
		if l.To == nil {
			return now.Sub(l.From)
		}
		return l.To.Sub(l.From)
	}
	if r.Left = max(0, len(bars)-maxBars); r.Left > 0 {
		slices.SortStableFunc(bars, func(a, b bar) int { return cmp.Compare(length(b), length(a)) })
		bars = bars[:maxBars]
	}
	slices.SortStableFunc(bars, func(a, b bar) int { return a.From.Compare(b.From) })
	for i := range bars {
		bars[i].Y = timelineRowHeight + i*barHeight
	}
	r.Bars = bars
}
