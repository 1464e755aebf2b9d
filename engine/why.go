package engine

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/budgets"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

// maxCauses is how many items Why follows from one to the item that it waits for.
const maxCauses = 8

// whyItems is how many items of a task, of each group of states, Why compares.
const whyItems = 100

// Why explains the state of an item or task; see pawl.Explainer.
func (e *Engine) Why(ctx context.Context, id string) (pawl.Why, error) {
	id = idform.Item(id)
	if err := e.k.WriteSeen(ctx, e.k); err != nil {
		return pawl.Why{}, err
	}
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (pawl.Why, error) {
		now, err := tx.Now(ctx)
		if err != nil {
			return pawl.Why{}, err
		}
		sweeps, ages, err := e.sweeps(ctx, tx)
		if err != nil {
			return pawl.Why{}, err
		}
		x := &explainer{tx: tx, kids: e.k.Children, ns: ns, now: now, buryAfter: ages.BuryAfter, sweepsRest: !sweeps.IsRunning}
		if strings.HasPrefix(id, "tsk_") {
			why, err := x.task(ctx, id, 0)
			return why.Why, err
		}
		why, err := x.item(ctx, id, 0)
		if pawl.CodeOf(err) == pawl.CodeNotFound { // a UUID may be that of a task
			if of, missing := x.task(ctx, "tsk_"+strings.TrimPrefix(id, "itm_"), 0); pawl.CodeOf(missing) != pawl.CodeNotFound {
				why, err = of, missing
			}
		}
		return why.Why, err
	})
}

// explainer reads what explains the items of a namespace, in one snapshot.
type explainer struct {
	tx         store.Tx
	kids       kernel.Children
	ns         string
	now        int64
	buryAfter  time.Duration
	sweepsRest bool
}

// item explains an item. depth is how many items were followed to it.
func (x *explainer) item(ctx context.Context, id string, depth int) (explanation, error) {
	row, err := store.GetItem(ctx, x.tx, x.ns, id, x.now)
	if err != nil {
		return explanation{}, err
	}
	one := []pawl.Item{row.Item}
	if err := store.BlockItems(ctx, x.tx, x.ns, one, x.now); err != nil {
		return explanation{}, err
	}
	f := whyFacts{Now: store.Stamp(x.now), Item: one[0], BuryAfter: x.buryAfter, SweepsRest: x.sweepsRest}
	if f.Task, err = store.GetTask(ctx, x.tx, x.ns, f.Item.TaskID); err != nil {
		return explanation{}, err
	}
	switch f.Item.State {
	case pawl.ItemQueued:
		err = x.queued(ctx, &f, depth)
	case pawl.ItemWaiting:
		err = x.waiting(ctx, &f, depth)
	case pawl.ItemSubmitted, pawl.ItemAccepted:
		err = x.submitted(ctx, &f, depth)
	case pawl.ItemFailed, pawl.ItemDeadLettered:
		var id string
		if id, err = failedDependency(ctx, x.tx, f.Item.ID); err == nil {
			err = x.because(ctx, &f, id, depth)
		}
	}
	return explain(f), err
}

func (x *explainer) queued(ctx context.Context, f *whyFacts, depth int) error {
	b := f.Item.BlockedBy
	if b == nil {
		return nil
	}
	q, err := queueSettings(ctx, x.tx, x.ns, f.Item.Type)
	if err != nil && pawl.CodeOf(err) != pawl.CodeNotFound {
		return err
	} else if err == nil {
		f.Queue = &q
	}
	switch b.Reason {
	case pawl.BlockedByConcurrency:
		id, err := longestSilent(ctx, x.tx, f.Item.ID, limitOfQueue(b), x.now)
		if err != nil {
			return err
		}
		return x.because(ctx, f, id, depth)
	case pawl.BlockedByNoWorker:
		f.LastSeen, err = store.LastSeen(ctx, x.tx, x.ns, f.Item.Type)
		return err
	case pawl.BlockedByOrder:
		id, err := firstOfKey(ctx, x.tx, f.Item.ID)
		if err != nil {
			return err
		}
		return x.because(ctx, f, id, depth)
	}
	return nil
}

func (x *explainer) waiting(ctx context.Context, f *whyFacts, depth int) error {
	w, err := store.ReadWait(ctx, x.tx, f.Item.ID)
	if err != nil || f.Item.BlockedBy == nil {
		return err
	}
	switch f.Item.BlockedBy.Reason {
	case pawl.BlockedBySignal:
		f.Signal, f.SignalKey = w.Signal, w.Key
	case pawl.BlockedByBudget:
		b, err := budgets.Get(ctx, x.tx, x.ns, pawl.BudgetOfSignal(w.Key), x.now)
		if err != nil {
			return ignoreMissing(err)
		}
		budget := b.Budget()
		f.Budget = &budget
		if _, f.Question, _ = strings.Cut(w.Key[len(budget.Name):], "/"); f.Question != "" || b.Reserved == 0 {
			return nil // what is reserved would not be enough
		}
		id, err := b.LongestSilent(ctx, x.tx, x.now)
		if err != nil {
			return err
		}
		return x.because(ctx, f, id, depth)
	case pawl.BlockedByDependency:
		return x.because(ctx, f, w.First, depth)
	case pawl.BlockedByChildren:
		child, err := x.kids.Open(ctx, x.tx, f.Item.ID)
		if err != nil || child == "" || depth >= maxCauses {
			return err
		}
		cause, err := x.task(ctx, child, depth+1)
		f.Cause = &cause
		return err
	}
	return nil
}

func ignoreMissing(err error) error {
	if pawl.CodeOf(err) == pawl.CodeNotFound {
		return nil
	}
	return err
}

// because explains the item that f's item waits for.
func (x *explainer) because(ctx context.Context, f *whyFacts, id string, depth int) error {
	if id == "" || id == f.Item.ID || depth >= maxCauses {
		return nil
	}
	cause, err := x.item(ctx, id, depth+1)
	if err == nil {
		f.Cause = &cause
	}
	return ignoreMissing(err)
}

func (x *explainer) submitted(ctx context.Context, f *whyFacts, depth int) error {
	t := &f.Task
	if f.Item.State == pawl.ItemSubmitted && t.State == pawl.TaskSubmitted {
		var err error
		f.DecideBy, err = decideBy(ctx, x.tx, t.ID)
		return err
	}
	f.Pending = t.ItemsOpen
	if depth >= maxCauses {
		return nil
	}
	items, err := x.unfinished(ctx, t.ID)
	if err != nil {
		return err
	}
	items = slices.DeleteFunc(items, func(it pawl.Item) bool { return it.State == f.Item.State })
	return x.because(ctx, f, telling(items, f.Now), depth)
}

// task explains the item of a task that tells most about the task's state.
func (x *explainer) task(ctx context.Context, id string, depth int) (explanation, error) {
	if err := store.TaskExists(ctx, x.tx, x.ns, id); err != nil {
		return explanation{}, err
	}
	items, err := x.unfinished(ctx, id)
	if err == nil && len(items) == 0 {
		var all pawl.List[pawl.Item]
		all, err = store.ListItems(ctx, x.tx, x.ns, pawl.ItemFilter{TaskID: id, Fields: noValues, Page: pawl.Page{Limit: 1}}, x.now)
		items = all.Items
	}
	if err != nil {
		return explanation{}, err
	}
	if len(items) == 0 {
		return explanation{}, pawl.NotFound("item of task", id)
	}
	return x.item(ctx, telling(items, store.Stamp(x.now)), depth)
}

// noValues leaves out the members of items that may be large.
var noValues = []string{"id", "type", "state"}

// unfinished returns items of a task that have not ended, with what they wait for.
func (x *explainer) unfinished(ctx context.Context, task string) ([]pawl.Item, error) {
	var out []pawl.Item
	for _, states := range [][]pawl.ItemState{
		{pawl.ItemLeased, pawl.ItemInProgress},
		{pawl.ItemFailed, pawl.ItemDeadLettered, pawl.ItemSubmitted, pawl.ItemAccepted},
		{pawl.ItemQueued, pawl.ItemWaiting, pawl.ItemScheduled},
	} {
		l, err := store.ListItems(ctx, x.tx, x.ns, pawl.ItemFilter{TaskID: task, States: states, Fields: noValues,
			Page: pawl.Page{Limit: whyItems}}, x.now)
		if err != nil {
			return nil, err
		}
		out = append(out, l.Items...)
	}
	return out, store.BlockItems(ctx, x.tx, x.ns, out, x.now)
}

// telling returns the id of the item that tells most about the state of its task; "" of none.
func telling(items []pawl.Item, now time.Time) string {
	best, id := len(pawl.WhyReasons), ""
	for _, it := range items {
		reason := explain(whyFacts{Now: now, Item: it}).Reason
		if rank := slices.Index(mostTelling, reason); id == "" || rank < best {
			best, id = rank, it.ID
		}
	}
	return id
}

// failedDependency returns the first item that has not completed and for which a failed item did not run;
// "" = none.
func failedDependency(ctx context.Context, tx store.Tx, id string) (first string, err error) {
	_, err = store.Row(ctx, tx, []any{(*store.ItemID)(&first)}, blockedSQL["failed dependency"], store.ItemID(id))
	return first, err
}

// decideBy returns when the approval of a task expires; nil = it does not.
func decideBy(ctx context.Context, tx store.Tx, taskID string) (*time.Time, error) {
	var at *int64
	_, err := store.Row(ctx, tx, []any{&at}, blockedSQL["decide by"], store.TaskID(taskID))
	return store.StampOf(at), err
}

// firstOfKey returns the first item in the order of a queued item's key that has not ended; ""
// if the item has no key.
func firstOfKey(ctx context.Context, tx store.Tx, id string) (first string, err error) {
	var queue, gate int64
	found, err := store.Row(ctx, tx, []any{&queue, &gate}, blockedSQL["gate of item"], store.ItemID(id))
	if err == nil && found {
		_, err = store.Row(ctx, tx, []any{(*store.ItemID)(&first)}, blockedSQL["first of gate"], queue, gate)
	}
	return first, err
}

// longestSilent returns the item whose lease counts for the concurrency that a queued item waits
// for, of its queue or of its key, and whose worker is stalled or has been silent longest; "" if there is none.
func longestSilent(ctx context.Context, tx store.Tx, id string, ofQueue bool, now int64) (held string, err error) {
	var queue, gate int64
	found, err := store.Row(ctx, tx, []any{&queue, &gate}, blockedSQL["gate of item"], store.ItemID(id))
	if err != nil || !found {
		return "", err
	}
	from, to := gate, gate
	if ofQueue {
		from, to = 0, math.MaxInt32
	}
	_, err = store.Row(ctx, tx, []any{(*store.ItemID)(&held)}, blockedSQL["longest silent"], queue, from, to, now,
		pawl.HeartbeatsPerLease, pawl.DefaultStaleBeats)
	return held, err
}
