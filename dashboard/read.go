package dashboard

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/internal/clock"
)

// Rows of a page: few, since each may bring a payload along.
const (
	few  = 10
	some = 25
	many = 50
)

// part is a piece of a page that may fail without the rest.
type part[T any] struct {
	pawl.List[T]
	Problem *api.Problem
}

func partOf[T any](l pawl.List[T], err error) part[T] {
	p := part[T]{List: l}
	if err != nil {
		problem := api.ProblemOf(err, "")
		p.Problem = &problem
	}
	return p
}

// overview is what somebody wants to know first, who needs to do something about it.
type overview struct {
	Stats     pawl.Stats
	Tasks     map[string]int64 // by state
	Types     part[depth]
	States    []string // that items of Types are in
	Submitted part[pawl.Task]
	Expired   part[pawl.Item]
	Failed    part[pawl.Item]
	Workers   part[pawl.WorkerInfo]
	Deleted   part[pawl.Event]
}

func (d *desk) overview(v *visit) (any, error) {
	ctx := v.Context()
	stats, err := d.svc.Stats(ctx)
	if err != nil {
		return nil, err
	}
	o := &overview{
		Stats:     v.pass.Own(stats),
		Types:     partOf(d.depths.of(ctx, d.o.Gauges)),
		Submitted: partOf(d.svc.ListTasks(ctx, pawl.TaskFilter{States: []pawl.TaskState{pawl.TaskSubmitted}, Page: v.page("", few)})),
		Expired:   partOf(d.svc.ListItems(ctx, pawl.ItemFilter{Statuses: []pawl.Status{pawl.StatusExpired}, Page: v.page("", few)})),
		Failed:    partOf(d.svc.ListItems(ctx, pawl.ItemFilter{States: []pawl.ItemState{pawl.ItemFailed}, Desc: true, Page: v.page("", few)})),
		Workers:   partOf(d.svc.ListWorkers(ctx, pawl.WorkerFilter{Page: v.page("", few)})),
		Deleted:   partOf(d.svc.ListEvents(ctx, pawl.EventFilter{Event: "deleted", Page: v.page("", few)})),
		Tasks:     map[string]int64{},
	}
	for state, n := range stats.TasksByState {
		o.Tasks[string(state)] = n
	}
	for _, s := range append(slices.Clone(pawl.ItemStates), pawl.StateInfo{Name: string(pawl.StatusExpired)}) {
		if slices.ContainsFunc(o.Types.Items, func(t depth) bool { return t.Counts[s.Name] > 0 }) {
			o.States = append(o.States, s.Name)
		}
	}
	return o, nil
}

// depth counts the items of a type that have not ended, by state.
type depth struct {
	Type   string
	Counts map[string]int64
	Oldest time.Time // queued; zero = none
}

// depths keeps what was counted: counting goes over all that has not ended.
type depths struct {
	mu   sync.Mutex
	read []pawl.Gauge
	at   time.Time
	next time.Time
}

func (k *depths) of(ctx context.Context, gauges func(context.Context) ([]pawl.Gauge, error)) (pawl.List[depth], error) {
	var out pawl.List[depth]
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
		i := slices.IndexFunc(out.Items, func(t depth) bool { return t.Type == typ })
		if i < 0 {
			i, out.Items = len(out.Items), append(out.Items, depth{Type: typ, Counts: map[string]int64{}})
		}
		switch {
		case g.Name == "pawl_items":
			out.Items[i].Counts[state] = int64(g.Value)
		case state == string(pawl.ItemQueued):
			out.Items[i].Oldest = k.at.Add(-time.Duration(g.Value * float64(time.Second)))
		}
	}
	slices.SortFunc(out.Items, func(a, b depth) int { return cmp.Compare(a.Type, b.Type) })
	return out, nil
}

func (d *desk) tasks(v *visit) (any, error) {
	f := pawl.TaskFilter{Page: v.page("cursor", many)}
	switch id := strings.TrimSpace(v.at("id")); {
	case strings.HasPrefix(id, "itm_"):
		return redirect("/ui/items/" + escape(id)), nil
	case strings.HasPrefix(id, "msg_"):
		return redirect("/ui/messages/" + escape(id)), nil
	case id != "":
		f.IDs = []string{id}
	}
	if typ := strings.TrimSpace(v.at("type")); typ != "" {
		f.Types = []string{typ}
	}
	if state := v.at("state"); state != "" {
		if !slices.ContainsFunc(pawl.TaskStates, func(s pawl.StateInfo) bool { return s.Shown && s.Name == state }) {
			return nil, pawl.Invalid("/state", "is no state of a task")
		}
		f.States = []pawl.TaskState{pawl.TaskState(state)}
	}
	list, err := d.svc.ListTasks(v.Context(), f)
	return &list, err
}

// story is a task and what hangs on it.
type story struct {
	pawl.Task
	Result      *pawl.TaskResult
	Work        part[pawl.Item]
	Messages    part[pawl.Message]
	Checkpoints part[pawl.Checkpoint]
	Events      part[pawl.Event]
}

func (d *desk) task(v *visit) (any, error) {
	ctx, id := v.Context(), v.PathValue("id")
	t, err := d.svc.GetTask(ctx, id)
	if err != nil {
		return nil, err
	}
	s := &story{
		Task:        t,
		Work:        partOf(d.svc.ListItems(ctx, pawl.ItemFilter{TaskID: id, Page: v.page("items", some)})),
		Messages:    partOf(d.svc.ListMessages(ctx, pawl.MessageFilter{TaskID: id, Page: v.page("messages", some)})),
		Checkpoints: partOf(d.svc.ListCheckpoints(ctx, pawl.CheckpointFilter{TaskID: id, Desc: true, Page: v.page("checkpoints", some)})),
		Events:      partOf(d.svc.ListEvents(ctx, pawl.EventFilter{TaskID: id, Page: v.page("events", many)})),
	}
	if r, err := d.svc.TaskResult(ctx, id); err == nil { // else it has none yet
		s.Result = &r
	}
	return s, nil
}

// attempt is one claim of an item, read from its events.
type attempt struct {
	Number       int
	Worker       string
	From         time.Time
	To           *time.Time // nil = it goes on
	How, Why     string
	Error        *pawl.Failure
	LeaseRunsOut *time.Time
}

// life is an item and what its attempts left.
type life struct {
	pawl.Item
	Attempts    []attempt
	Parts       part[pawl.ItemPart]
	Messages    part[pawl.Message]
	Checkpoints part[pawl.Checkpoint]
	Events      part[pawl.Event]
}

func (d *desk) item(v *visit) (any, error) {
	ctx, id := v.Context(), v.PathValue("id")
	it, err := d.svc.GetItem(ctx, id)
	if err != nil {
		return nil, err
	}
	l := &life{
		Item:        it,
		Parts:       partOf(d.svc.ListParts(ctx, pawl.PartFilter{ItemID: id, All: true, Page: v.page("parts", some)})),
		Messages:    partOf(d.svc.ListMessages(ctx, pawl.MessageFilter{ItemID: id, Page: v.page("messages", some)})),
		Checkpoints: partOf(d.svc.ListCheckpoints(ctx, pawl.CheckpointFilter{ItemID: id, Desc: true, Page: v.page("checkpoints", some)})),
		Events:      partOf(d.svc.ListEvents(ctx, pawl.EventFilter{ItemID: id, Page: v.page("events", many)})),
	}
	if l.Attempts, err = d.attemptsOf(ctx, id); err != nil {
		return nil, err
	}
	if n := len(l.Attempts); n > 0 && l.Attempts[0].To == nil {
		l.Attempts[0].LeaseRunsOut = it.LeaseExpiresAt
	}
	return l, nil
}

// left are the events by which an attempt ends.
var left = []string{"completed", "submitted", "failed", "lease_expired", "released", "suspended", "cancelled", "lease_revoked"}

// attempts reads what became of each claim from events, newest first.
func attempts(events []pawl.Event) []attempt {
	var out []attempt
	for _, e := range slices.Backward(events) {
		open := len(out) > 0 && out[0].To == nil
		switch {
		case e.Event == "leased":
			out = slices.Insert(out, 0, attempt{Number: e.Attempt, Worker: e.ActorID, From: e.CreatedAt})
		case open && slices.Contains(left, e.Event):
			out[0].To, out[0].How, out[0].Why = &e.CreatedAt, e.Event, e.Message
			var data struct{ Error *pawl.Failure }
			if json.Unmarshal(e.Data, &data) == nil { // most have none
				out[0].Error = data.Error
			}
		}
	}
	return out
}

func (d *desk) message(v *visit) (any, error) {
	m, err := d.svc.GetMessage(v.Context(), v.PathValue("id"))
	return &m, err
}

func (d *desk) workers(v *visit) (any, error) {
	list, err := d.svc.ListWorkers(v.Context(), pawl.WorkerFilter{Page: v.page("cursor", many)})
	return &list, err
}

func (d *desk) types(v *visit) (any, error) {
	list, err := d.svc.ListTypes(v.Context(), pawl.TypeFilter{Page: v.page("cursor", many)})
	return &list, err
}

// lifecycle is what the legend says of one kind of thing, from the tables.
type lifecycle struct {
	Of     string
	States []pawl.StateInfo
	Moves  []pawl.Move
}

func legend(*visit) (any, error) {
	return &[]lifecycle{{"Task", pawl.TaskStates, pawl.TaskMoves}, {"Item", pawl.ItemStates, pawl.ItemMoves}, {"Message", pawl.MessageStates, pawl.MessageMoves}}, nil
}
