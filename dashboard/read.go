package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/internal/clock"
)

// Limits of rows on a page. They are low, since each row may carry a payload.
const (
	maxRows    = 10
	mediumRows = 25
	manyRows   = 50
)

// section is a list on a page; the page renders even when the list's read fails.
type section[T any] struct {
	pawl.List[T]
	Problem *api.Problem
}

func sectionOf[T any](l pawl.List[T], err error) section[T] {
	p := section[T]{List: l}
	if err != nil {
		problem := api.ProblemOf(err, "")
		p.Problem = &problem
	}
	return p
}

// sectionOfAll is sectionOf of a list that has no pages.
func sectionOfAll[T any](all []T, err error) section[T] {
	return sectionOf(pawl.List[T]{Items: all}, err)
}

// overviewReads is how many parts of the overview are read at once.
const overviewReads = 4

// overviewPage is the data of the first page: counts, and what needs a decision.
type overviewPage struct {
	Stats     pawl.Stats
	Tasks     map[string]int64 // by state
	Types     section[typeCounts]
	Stuck     section[stuckWork]
	Sparks    section[queueSparks]
	Span      sparkSpan
	Relays    section[pawl.Relay] // for callers who may see them
	States    []string            // with a count above zero in Types
	Submitted section[pawl.Task]
	Expired   section[pawl.Item]
	Late      itemTable // of Expired
	Failed    section[pawl.FailureGroup]
	Examples  names         // of Failed: the newest items
	Verbs     []failureVerb // that the caller may use on a group
	Decides   bool          // the caller may approve and reject
	Workers   section[pawl.WorkerInfo]
	Deleted   section[pawl.Event]
}

// AnyTasks reports whether the namespace has tasks.
func (o *overviewPage) AnyTasks() bool {
	for _, n := range o.Tasks {
		if n > 0 {
			return true
		}
	}
	return false
}

// Failures are the groups of failures on the page.
func (o *overviewPage) Failures() failureRows {
	return failureRows{Items: o.Failed.Items, Verbs: o.Verbs, Examples: o.Examples}
}

func (d *server) overview(v *request) (any, error) {
	o := &overviewPage{Tasks: map[string]int64{}, Span: sparkSpans[cmp.Or(v.param("span"), "hour")]}
	if o.Span.Name == "" {
		return nil, &pawl.Error{Code: pawl.CodeInvalid, Message: "the parameter span is hour or day"}
	}
	some := v.pageOf("", maxRows)
	all, ctx := errgroup.WithContext(v.Context())
	all.SetLimit(overviewReads)
	read := func(fn func()) { all.Go(func() error { fn(); return nil }) }
	read(func() {
		o.Types = sectionOf(d.counts.get(ctx, d.opts.Gauges))
		o.Stuck = sectionOfAll(d.stuck(ctx, o.Types.Items))
		o.Sparks = sectionOfAll(d.lines.get(o.Span.Name+" "+pawl.CallerOf(ctx).Namespace, func() ([]queueSparks, error) {
			return d.sparks(ctx, o.Span, o.Types.Items)
		}))
	})
	all.Go(func() error {
		stats, err := d.svc.Stats(ctx)
		o.Stats = v.pass.Own(stats)
		return err
	})
	read(func() {
		o.Submitted = sectionOf(d.svc.ListTasks(ctx, pawl.TaskFilter{States: []pawl.TaskState{pawl.TaskSubmitted}, Page: some}))
	})
	read(func() {
		o.Failed = sectionOf(d.svc.ListFailures(ctx, pawl.FailureFilter{State: pawl.ItemFailed, Page: some}))
		o.Examples = d.itemsNamed(ctx, distinct(o.Failed.Items, func(g pawl.FailureGroup) string { return g.ItemID }))
	})
	read(func() {
		o.Expired = sectionOf(d.svc.ListItems(ctx, pawl.ItemFilter{Statuses: []pawl.Status{pawl.StatusExpired}, Page: some}))
		o.Late = d.tableOf(ctx, o.Expired.Items)
	})
	read(func() { o.Workers = sectionOf(d.svc.ListWorkers(ctx, pawl.WorkerFilter{Page: some})) })
	read(func() { o.Deleted = sectionOf(d.svc.ListEvents(ctx, pawl.EventFilter{Event: "deleted", Page: some})) })
	o.Decides = v.pass.May("approver", false) == nil
	if v.pass.May("operator", false) == nil {
		o.Verbs = failedVerbs
	}
	if v.pass.May("operator", true) == nil {
		read(func() { o.Relays = sectionOf(d.svc.ListRelays(ctx)) })
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	v.shows("/v1/stats", pawlCommand("stats"))
	for state, n := range o.Stats.TasksByState {
		o.Tasks[string(state)] = n
	}
	for _, s := range append(slices.Clone(pawl.ItemStates), pawl.StateInfo{Name: string(pawl.StatusExpired)}) {
		if slices.ContainsFunc(o.Types.Items, func(t typeCounts) bool { return t.Counts[s.Name] > 0 }) {
			o.States = append(o.States, s.Name)
		}
	}
	return o, nil
}

// typeCounts counts the items of a type that have not ended, by state.
type typeCounts struct {
	Type   string
	Counts map[string]int64
	Oldest time.Time // queued; zero = none
}

// countCache caches the counts: counting reads all items that have not ended.
type countCache struct {
	mu   sync.Mutex
	read []pawl.Gauge
	at   time.Time
	next time.Time
}

func (k *countCache) get(ctx context.Context, gauges func(context.Context) ([]pawl.Gauge, error)) (pawl.List[typeCounts], error) {
	var out pawl.List[typeCounts]
	if gauges == nil {
		return out, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if began := clock.Now(); !began.Before(k.next) {
		read, err := gauges(ctx)
		if err != nil {
			return out, err
		}
		now := clock.Now()
		k.read, k.at, k.next = read, now, now.Add(20*now.Sub(began))
	}
	for _, g := range k.read {
		if len(g.Labels) != 6 || g.Labels[1] != pawl.CallerOf(ctx).Namespace { // namespace, type, state
			continue
		}
		typ, state := g.Labels[3], g.Labels[5]
		i := slices.IndexFunc(out.Items, func(t typeCounts) bool { return t.Type == typ })
		if i < 0 {
			i, out.Items = len(out.Items), append(out.Items, typeCounts{Type: typ, Counts: map[string]int64{}})
		}
		switch {
		case g.Name == "pawl_items":
			out.Items[i].Counts[state] = int64(g.Value)
		case state == string(pawl.ItemQueued):
			out.Items[i].Oldest = k.at.Add(-time.Duration(g.Value * float64(time.Second)))
		}
	}
	slices.SortFunc(out.Items, func(a, b typeCounts) int { return cmp.Compare(a.Type, b.Type) })
	return out, nil
}

// attempt is one claim of an item, reconstructed from its events.
type attempt struct {
	Number       int
	Worker       string
	From         time.Time
	To           *time.Time // nil = not ended
	How, Why     string
	Error        *pawl.Failure
	LeaseRunsOut *time.Time
}

// itemPage is an item with its attempts, parts, messages, checkpoints and events.
type itemPage struct {
	pawl.Item
	Title    string    // of its task
	Why      *pawl.Why // nil = it has ended
	Attempts []attempt
	Parts    section[pawl.ItemPart]
	Messages section[pawl.Message]
	Steps    steps
	Timeline *timeline
	Events   section[pawl.Event]
	Blobs    []pawl.Blob // that the input and the result refer to
}

func (d *server) item(v *request) (any, error) {
	ctx, id := v.Context(), v.PathValue("id")
	it, err := d.svc.GetItem(ctx, id)
	if err != nil {
		return nil, err
	}
	v.shows("/v1/items/"+escape(id), pawlCommand("item", "get").on(id), pawlCommand("event", "list", "--item="+id))
	l := &itemPage{
		Item:     it,
		Why:      d.why(v, id, it.State.Ended()),
		Parts:    sectionOf(d.svc.ListParts(ctx, pawl.PartFilter{ItemID: id, All: true, Page: v.pageOf("parts", mediumRows)})),
		Messages: sectionOf(d.svc.ListMessages(ctx, pawl.MessageFilter{ItemID: id, Page: v.pageOf("messages", mediumRows)})),
		Steps:    d.steps(v, pawl.CheckpointFilter{ItemID: id}),
		Events:   sectionOf(d.svc.ListEvents(ctx, pawl.EventFilter{ItemID: id, Page: v.pageOf("events", manyRows)})),
		Blobs:    d.blobs(v, it.Input, it.Result, it.AssembledResult),
	}
	if t, err := d.svc.GetTask(ctx, it.TaskID); err == nil { // otherwise its id is shown
		l.Title = t.Title
	}
	if l.Attempts, err = d.readAttempts(ctx, id); err != nil {
		return nil, err
	}
	if n := len(l.Attempts); n > 0 && l.Attempts[0].To == nil {
		l.Attempts[0].LeaseRunsOut = it.LeaseExpiresAt
	}
	l.Timeline = d.timeline(ctx, "", id, []pawl.Item{it}, l.Messages.Items, nil)
	return l, nil
}

// MessageTable and EventTable are lists of the page with the names of its item and task.
func (l *itemPage) MessageTable() messageTable {
	return messageTable{l.Messages.Items, names{l.TaskID: l.Title}}
}

func (l *itemPage) EventTable() eventTable {
	return eventTable{l.Events.Items, names{l.ID: labelOf(l.Item)}}
}

// attemptEnds lists the events that end an attempt: those of the moves from a state with a
// lease to states without one.
func attemptEnds() (names []string) {
	leased := func(state string) bool { return pawl.ItemState(state).Leased() }
	for _, m := range pawl.ItemMoves {
		switch {
		case !slices.ContainsFunc(m.From, leased) || slices.ContainsFunc(m.To, leased):
		case m.Event == "": // it is named for the new state
			names = append(names, m.To...)
		default:
			names = append(names, m.Event)
		}
	}
	return names
}

// attemptsFrom reconstructs the attempts from events, newest first.
func attemptsFrom(events []pawl.Event) []attempt {
	var out []attempt
	ends := attemptEnds()
	for _, e := range slices.Backward(events) {
		open := len(out) > 0 && out[0].To == nil
		switch {
		case e.Event == "leased":
			out = slices.Insert(out, 0, attempt{Number: e.Attempt, Worker: e.ActorID, From: e.CreatedAt})
		case open && slices.Contains(ends, e.Event):
			out[0].To, out[0].How, out[0].Why = &e.CreatedAt, e.Event, e.Message
			var data struct{ Error *pawl.Failure }
			if json.Unmarshal(e.Data, &data) == nil { // most have none
				out[0].Error = data.Error
			}
		}
	}
	return out
}

// messagePage is a message with the item that it belongs to.
type messagePage struct {
	pawl.Message
	Item   *pawl.Item // nil = it belongs to none
	Title  string     // of its task
	Hidden bool       // the caller may not read its content
}

func (d *server) message(v *request) (any, error) {
	m, err := d.svc.GetMessage(v.Context(), v.PathValue("id"))
	if err != nil {
		return nil, err
	}
	v.shows("/v1/messages/"+escape(m.ID), pawlCommand("message", "get").on(m.ID), pawlCommand("message", "tail", "--follow").on(m.ID))
	p := &messagePage{Message: m, Hidden: !v.pass.Payloads()}
	if m.TaskID != "" {
		p.Title = d.tasksNamed(v.Context(), []string{m.TaskID})[m.TaskID]
	}
	if m.ItemID != "" {
		if it, err := d.svc.GetItem(v.Context(), m.ItemID); err == nil { // otherwise the message is shown alone
			p.Item = &it
		}
	}
	return p, nil
}

// Used is what the message cost, in words.
func (p *messagePage) Used() string { return usageIn(p.Usage) }

// shownPart is a part of a message. Cut says that the writing broke off before it, or in the last
// part, and a later attempt goes on.
type shownPart struct {
	pawl.MessagePart
	Cut bool
}

// Shown are the parts of the message, with the cuts between them.
func (p *messagePage) Shown() (out []shownPart) {
	parts, _ := p.Parts() // a hidden message has none
	for i, part := range parts {
		cut := i > 0 && parts[i-1].Status == pawl.PartAbandoned && part.Status != pawl.PartAbandoned
		out = append(out, shownPart{part, cut})
	}
	return out
}

// CutOff reports whether the newest words were abandoned, and nothing follows them yet.
func (p *messagePage) CutOff() bool {
	parts, _ := p.Parts() // a hidden message has none
	return len(parts) > 0 && parts[len(parts)-1].Status == pawl.PartAbandoned
}

func (d *server) workers(v *request) (any, error) {
	v.shows("/v1/workers", pawlCommand("worker", "list"))
	list, err := d.svc.ListWorkers(v.Context(), pawl.WorkerFilter{Page: v.pageOf("cursor", manyRows)})
	return &list, err
}

// typesPage is the registered types, and the leases that would have avoided expiries.
type typesPage struct {
	pawl.List[pawl.Type]
	Leases section[pawl.LeaseAdvice]
}

func (d *server) types(v *request) (any, error) {
	v.shows("/v1/types", pawlCommand("type", "list"), pawlCommand("type", "suggest"))
	list, err := d.svc.ListTypes(v.Context(), pawl.TypeFilter{Page: v.pageOf("cursor", manyRows)})
	if err != nil {
		return nil, err
	}
	advice, err := d.leases.get(pawl.CallerOf(v.Context()).Namespace, func() ([]pawl.LeaseAdvice, error) {
		return d.svc.SuggestLeases(v.Context())
	})
	advice = slices.DeleteFunc(slices.Clone(advice), func(a pawl.LeaseAdvice) bool { return a.Command == "" })
	return &typesPage{list, sectionOf(pawl.List[pawl.LeaseAdvice]{Items: advice}, err)}, nil
}

// lifecycle is the table of states and moves of one kind of object.
type lifecycle struct {
	Of     string
	States []pawl.StateInfo
	Moves  []pawl.Move
}

func legend(*request) (any, error) {
	return &[]lifecycle{
		{"Task", pawl.TaskStates, pawl.TaskMoves},
		{"Item", pawl.ItemStates, pawl.ItemMoves},
		{"Message", pawl.MessageStates, pawl.MessageMoves},
	}, nil
}
