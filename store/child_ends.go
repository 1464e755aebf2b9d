package store

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/pawl-work/pawl"
)

// ChildrenEnded is what the end of children has moved. The answer to each row but the first is
// empty.
type ChildrenEnded struct {
	Ord     int
	Woken   []DueItem
	Failed  []Dependent // items that waited, and failed
	Cancels bool        // other children are to be cancelled
}

// awaitedEnd is the end of a child that an item of a task waits for.
type awaitedEnd struct {
	child, item string
	task        string
	state       string
	failure     Text
}

// EndTasks counts the tasks that have ended in the waits for them, each once. It queues the items that have what they need, and
// fails those that cannot get it. It locks the waits, in the order of items. leftOut = nil leaves out no item.
func EndTasks(ctx context.Context, tx Tx, ids []string, leftOut func(item string) bool) (out ChildrenEnded, err error) {
	ends, err := awaitedEnds(ctx, tx, ids)
	if leftOut != nil {
		ends = slices.DeleteFunc(ends, func(a awaitedEnd) bool { return leftOut(a.item) })
	}
	if err != nil || len(ends) == 0 {
		return out, err
	}
	of := map[string][]awaitedEnd{}
	var failing []string
	for _, a := range ends {
		of[a.item] = append(of[a.item], a)
		if a.state != completed {
			failing = append(failing, a.task)
		}
	}
	locked, err := lockTasks(ctx, tx, failing)
	if err != nil {
		return out, err
	}
	waits, err := lockWaits(ctx, tx, slices.Sorted(maps.Keys(of)))
	if err != nil {
		return out, err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return out, err
	}
	for i := range waits {
		waits[i].mayFail = slices.Contains(locked, waits[i].TaskID)
		if err := waits[i].end(ctx, tx, now, of[waits[i].ItemID], &out); err != nil {
			return out, err
		}
	}
	return out, nil
}

// lockTasks locks tasks, each named once or more, in the order of their ids. It returns those that
// are there.
func lockTasks(ctx context.Context, tx Tx, ids []string) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	slices.Sort(ids)
	return TaskIDs(ctx, tx, childrenSQL["lock tasks"], TaskList(slices.Compact(ids)))
}

// EndRemoved is EndTasks for tasks that this transaction removes afterwards. It locks them with
// their parents, and then their links: a wait that is stored later does not find them. Where no
// task has a parent it locks nothing.
func EndRemoved(ctx context.Context, tx Tx, ids []string) (out ChildrenEnded, err error) {
	parents, err := TaskIDs(ctx, tx, childrenSQL["parents of tasks"], TaskList(ids))
	if err != nil || len(parents) == 0 {
		return out, err
	}
	if _, err := lockTasks(ctx, tx, append(parents, ids...)); err != nil {
		return out, err
	}
	children, err := TaskIDs(ctx, tx, childrenSQL["lock links"], TaskList(ids))
	if err != nil || len(children) == 0 {
		return out, err
	}
	return EndTasks(ctx, tx, children, nil)
}

// awaitedEnds returns the ends of tasks that items wait for. A removal counts its task first; a
// child that is not there all the same counts as cancelled.
func awaitedEnds(ctx context.Context, tx Tx, ids []string) ([]awaitedEnd, error) {
	rows, err := tx.Query(ctx, childrenSQL["open waits for children"], TaskList(ids))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var open []awaitedEnd
	for rows.Next() {
		var a awaitedEnd
		if err := rows.Scan((*TaskID)(&a.child), (*ItemID)(&a.item), (*TaskID)(&a.task)); err != nil {
			return nil, err
		}
		open = append(open, a)
	}
	if err := rows.Err(); err != nil || len(open) == 0 {
		return nil, err
	}
	rows.Close()
	children := make([]string, len(open))
	for i, a := range open {
		children[i] = a.child
	}
	states, err := StatesOfChildren(ctx, tx, children)
	if err != nil {
		return nil, err
	}
	out := open[:0]
	for _, a := range open {
		s, there := states[a.child]
		if a.state, a.failure = string(s.State), s.failure; !there {
			a.state = string(pawl.TaskCancelled)
		}
		if childOver(pawl.TaskState(a.state)) {
			out = append(out, a)
		}
	}
	return out, nil
}

// EndedAwaited returns those of the tasks that are awaited and have ended, and have not been
// counted: by the items that wait for them.
func EndedAwaited(ctx context.Context, tx Tx, ids []string) (map[string][]string, error) {
	ends, err := awaitedEnds(ctx, tx, ids)
	if err != nil || len(ends) == 0 {
		return nil, err
	}
	out := map[string][]string{}
	for _, a := range ends {
		out[a.item] = append(out[a.item], a.child)
	}
	return out, nil
}

// childState is the state of a task, and its error if it has not completed.
type childState struct {
	State   pawl.TaskState
	failure Text
}

// StatesOfChildren returns the states of those of the tasks that exist.
func StatesOfChildren(ctx context.Context, tx Tx, ids []string) (map[string]childState, error) {
	out := make(map[string]childState, len(ids))
	err := EachRow(ctx, tx, func(rows Rows) error {
		var id string
		var s childState
		if err := rows.Scan((*TaskID)(&id), (*string)(&s.State), &s.failure); err != nil {
			return err
		}
		if s.State == pawl.TaskCompleted {
			s.failure = ""
		}
		out[id] = s
		return nil
	}, childrenSQL["states of tasks"], TaskList(ids))
	return out, err
}

// lockedWait is a wait whose row is locked.
type lockedWait struct {
	Dependent
	attempt, need        int
	onFailure            string
	total, ended, failed int
	mayFail              bool // its task is locked
}

func lockWaits(ctx context.Context, tx Tx, items []string) ([]lockedWait, error) {
	return All(ctx, tx, childrenSQL["lock waits"], []any{ItemList(items)}, func(rows Rows, w *lockedWait) error {
		return rows.Scan((*ItemID)(&w.ItemID), &w.Namespace, (*TaskID)(&w.TaskID), &w.attempt, &w.need, &w.onFailure, &w.total,
			&w.ended, &w.failed)
	})
}

// count counts the ends of children, those alike in one statement.
func (w *lockedWait) count(ctx context.Context, tx Tx, ends []awaitedEnd) error {
	slices.SortStableFunc(ends, func(a, b awaitedEnd) int {
		return cmp.Or(cmp.Compare(a.state, b.state), cmp.Compare(a.failure, b.failure))
	})
	for len(ends) > 0 {
		same := ends[:1]
		for len(same) < len(ends) && ends[len(same)].state == same[0].state && ends[len(same)].failure == same[0].failure {
			same = ends[:len(same)+1]
		}
		ends = ends[len(same):]
		ids := make([]string, len(same))
		for i, a := range same {
			ids[i] = a.child
		}
		n, err := tx.Exec(ctx, childrenSQL["end awaited"], TaskList(ids), ItemID(w.ItemID), same[0].state, same[0].failure)
		if err != nil {
			return err
		}
		w.ended += int(n)
		if same[0].state != completed {
			w.failed += int(n)
		}
	}
	return nil
}

// end counts the ends of children, and moves the item if its wait is over.
func (w *lockedWait) end(ctx context.Context, tx Tx, now int64, ends []awaitedEnd, out *ChildrenEnded) error {
	if err := w.count(ctx, tx, ends); err != nil {
		return err
	}
	good := w.ended
	if w.onFailure != pawl.OnFailureContinue {
		good -= w.failed
	}
	met := good >= w.need
	lost := !met && w.onFailure != pawl.OnFailureContinue && w.total-w.failed < w.need
	held := false
	if met || lost && w.mayFail { // else it was lost before, when its item had left it
		var err error
		if held, err = w.lockItem(ctx, tx); err != nil {
			return err
		}
	}
	cancels := held && lost && w.onFailure == pawl.OnFailureCancel
	if _, err := tx.Exec(ctx, childrenSQL["count wait"], ItemID(w.ItemID), w.ended, w.failed, Bit(held)); err != nil {
		return err
	}
	if cancels {
		out.Cancels = true
		if _, err := tx.Exec(ctx, childrenSQL["cancel rest"], ItemID(w.ItemID), w.Namespace, TaskID(w.TaskID)); err != nil {
			return err
		}
	}
	switch {
	case !held:
		return nil
	case met || cancels:
		woken, err := wakeParent(ctx, tx, now, w.ItemID)
		out.Woken = append(out.Woken, woken...)
		return err
	default:
		done, err := Apply(ctx, tx, now, Change{Namespace: w.Namespace, TaskID: w.TaskID, Verb: "give_up", ItemIDs: []string{w.ItemID},
			To: "failed", Error: childFailedError, LeftBy: pawl.FailedByChild, Actor: Actor{Type: pawl.ActorSystem}})
		if done.Items > 0 {
			out.Failed = append(out.Failed, w.Dependent)
		}
		return err
	}
}

// lockItem locks the item if it is still in this wait. An item that left the wait, for example by
// its deadline, may be in another one.
func (w *lockedWait) lockItem(ctx context.Context, tx Tx) (bool, error) {
	var needs, broken, attempt, solo int
	found, err := Row(ctx, tx, []any{&needs, &broken, &attempt, &solo}, moveSQL["hold waiting"], ItemID(w.ItemID))
	return found && attempt == w.attempt, err
}

// childFailedError is the error of an item that waits for children and cannot get what it needs.
const childFailedError = `{"code":"` + pawl.FailedByChild + `","message":"A child that it waited for failed"}`

// wakeParent queues an item that waited for children.
func wakeParent(ctx context.Context, tx Tx, now int64, itemID string) ([]DueItem, error) {
	held, err := Take(ctx, tx, []string{itemID}, []string{"waiting"})
	if err != nil || len(held) == 0 {
		return nil, err
	}
	h := &held[0]
	h.Requeue(now)
	if err := Put(ctx, tx, held); err != nil {
		return nil, err
	}
	return []DueItem{{h.Namespace, h.ItemID, h.Type, h.Rank}}, Record(ctx, tx, now, []Event{{Namespace: h.Namespace, TaskID: h.TaskID,
		ItemID: Text(h.ItemID), Solo: h.Solo, Attempt: h.Attempt, Event: "ready", From: "waiting", To: "queued",
		Actor: Actor{Type: pawl.ActorSystem}}})
}
