package store

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/pawl-work/pawl"
)

var childrenSQL = Texts(sqlFiles, "children.sql")

// Spawned says which item spawned a child, and under which key.
type Spawned struct {
	ItemID string
	Key    Text
}

// LinkChildren locks the parents of new tasks, counts the children and links them. Tasks without
// a parent are skipped. A parent that does not exist is not_found; one that has ended or failed
// is a conflict.
func LinkChildren(ctx context.Context, tx Tx, tasks []NewTask) error {
	of := map[TaskID][]*NewTask{}
	for i := range tasks {
		if p := tasks[i].ParentID; p != nil {
			of[*p] = append(of[*p], &tasks[i])
		}
	}
	for _, parent := range slices.Sorted(maps.Keys(of)) { // all transactions lock parents in the same order
		if err := linkChildren(ctx, tx, parent, of[parent]); err != nil {
			return err
		}
	}
	return nil
}

func linkChildren(ctx context.Context, tx Tx, parent TaskID, children []*NewTask) error {
	ns := children[0].Namespace
	if err := ShareParent(ctx, tx, ns, string(parent)); err != nil {
		return err
	}
	var depth, count int
	if _, err := Row(ctx, tx, []any{&depth, &count}, childrenSQL["count children"], parent, ns, len(children)); err != nil {
		return err
	}
	if depth > pawl.MaxChildDepth {
		return &pawl.Error{Code: pawl.CodeLimit, Op: "create",
			Message: "the parent " + string(parent) + " has the greatest depth of children already"}
	}
	if count > pawl.MaxChildren {
		return &pawl.Error{Code: pawl.CodeLimit, Op: "create",
			Message: "the parent " + string(parent) + " has as many children as a task may have"}
	}
	rows := make([][]any, len(children))
	for i, c := range children {
		rows[i] = []any{TaskID(c.ID), ns, parent, ItemID(c.Spawned.ItemID), c.Spawned.Key, depth}
	}
	return tx.ExecEach(ctx, childrenSQL["link child"], rows)
}

// ShareParent locks a task that gets children, so that it is not cancelled before they are
// there. It refuses a task that has ended or failed.
func ShareParent(ctx context.Context, tx Tx, namespace, taskID string) error {
	if _, err := ShareTask(ctx, tx, namespace, taskID); err != nil {
		return err
	}
	state, err := TaskState(ctx, tx, namespace, taskID)
	if err != nil {
		return err
	}
	if s := pawl.TaskState(state); childOver(s) {
		return &pawl.Error{Code: pawl.CodeConflict, Op: "create", State: state, Allowed: append([]string{}, s.Allowed()...),
			Message: "the parent " + taskID + " is " + state + ": it gets no children any more"}
	}
	return nil
}

// childOver says whether a child has ended for those that wait for it. What failed counts, even
// if it is retried later.
func childOver(s pawl.TaskState) bool {
	status := s.Status()
	return status == pawl.StatusCompleted || status == pawl.StatusFailed || status == pawl.StatusCancelled
}

// ChildByKey returns the child of a task that was spawned under a key; "" = none.
func ChildByKey(ctx context.Context, tx Tx, parentID, key string) (id string, err error) {
	_, err = Row(ctx, tx, []any{(*TaskID)(&id)}, childrenSQL["child by key"], TaskID(parentID), key)
	return id, err
}

// TaskOfItem returns the task of an item.
func TaskOfItem(ctx context.Context, tx Tx, namespace, itemID string) (id string, err error) {
	found, err := Row(ctx, tx, []any{(*TaskID)(&id)}, childrenSQL["task of item"], ItemID(itemID), namespace)
	if err == nil && !found {
		err = pawl.NotFound("item", itemID)
	}
	return id, err
}

// OwnChildren refuses ids that are no children of a task.
func OwnChildren(ctx context.Context, tx Tx, taskID string, ids []string) error {
	own, err := TaskIDs(ctx, tx, childrenSQL["own children"], TaskList(ids), TaskID(taskID))
	if err != nil {
		return err
	}
	known := make(map[string]bool, len(own))
	for _, id := range own {
		known[id] = true
	}
	for _, id := range ids {
		if !known[id] {
			return pawl.NotFound("child", id+" of task "+taskID)
		}
	}
	return nil
}

// ChildWait is a wait of an item for children.
type ChildWait struct {
	Name      Text
	IDs       []string // in order, each once
	Need      int      // how many have to end
	OnFailure string
}

// put stores the wait of an item that was suspended in this transaction. No child counts as
// ended yet: EndChildren counts those that have.
func (w *ChildWait) put(ctx context.Context, tx Tx, l *Leave, taskID string) error {
	item := ItemID(l.ItemID)
	if _, err := tx.Exec(ctx, childrenSQL["put wait"], item, l.Namespace, TaskID(taskID), l.Attempt, w.Name, w.Need,
		w.OnFailure, len(w.IDs)); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, childrenSQL["forget awaited"], item); err != nil {
		return err
	}
	rows := make([][]any, len(w.IDs))
	for i, id := range w.IDs {
		rows[i] = []any{TaskID(id), item}
	}
	if err := tx.ExecEach(ctx, childrenSQL["put awaited"], rows); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, childrenSQL["hold item"], item)
	return err
}

// awaitChildren stores the waits for children of the items that were suspended.
func awaitChildren(ctx context.Context, tx Tx, calls []Leave, moved []Moved) error {
	waits := map[int]*Leave{}
	for i := range calls {
		if calls[i].Children != nil {
			waits[calls[i].Ord] = &calls[i]
		}
	}
	for i := range moved {
		if l := waits[moved[i].Ord]; l != nil {
			if err := l.Children.put(ctx, tx, l, moved[i].TaskID); err != nil {
				return err
			}
		}
	}
	return nil
}

// EndedChild names a task that may be a child and may have ended.
type EndedChild struct {
	Ord    int
	TaskID string
}

// ChildrenEnded is what the end of children has moved. The answer to each row but the first is
// empty.
type ChildrenEnded struct {
	Ord     int
	Woken   []DueItem
	Failed  []Dependent // items that waited, and failed
	Cancels bool        // other children are to be cancelled
}

// awaitedEnd is the end of a child that an item waits for.
type awaitedEnd struct {
	child, item string
	state       string
	failure     Text
}

// EndChildren counts the children that have ended in the waits for them, each once. It queues
// the items that have what they need, and fails those that cannot get it. It locks the waits,
// in the order of items, and reads the states of the children before.
func EndChildren(ctx context.Context, tx Tx, children []EndedChild) ([]ChildrenEnded, error) {
	ids := make([]string, len(children))
	out := make([]ChildrenEnded, len(children))
	for i, c := range children {
		ids[i], out[i].Ord = c.TaskID, c.Ord
	}
	ends, err := awaitedEnds(ctx, tx, ids)
	if err != nil || len(ends) == 0 {
		return out, err
	}
	of := map[string][]awaitedEnd{}
	for _, a := range ends {
		of[a.item] = append(of[a.item], a)
	}
	waits, err := lockWaits(ctx, tx, slices.Sorted(maps.Keys(of)))
	if err != nil {
		return nil, err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return nil, err
	}
	for i := range waits {
		if err := waits[i].end(ctx, tx, now, of[waits[i].ItemID], &out[0]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// awaitedEnds returns the ends of tasks that items wait for. A child that is not there any more
// was deleted, and so was cancelled before.
func awaitedEnds(ctx context.Context, tx Tx, ids []string) ([]awaitedEnd, error) {
	rows, err := tx.Query(ctx, childrenSQL["open waits for children"], TaskList(ids))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var open []awaitedEnd
	for rows.Next() {
		var a awaitedEnd
		if err := rows.Scan((*TaskID)(&a.child), (*ItemID)(&a.item)); err != nil {
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
	states, err := statesOfChildren(ctx, tx, children)
	if err != nil {
		return nil, err
	}
	out := open[:0]
	for _, a := range open {
		s, there := states[a.child]
		if a.state, a.failure = string(s.state), s.failure; !there {
			a.state = string(pawl.TaskCancelled)
		}
		if childOver(pawl.TaskState(a.state)) {
			out = append(out, a)
		}
	}
	return out, nil
}

// childState is the state of a task, and its error if it has not completed.
type childState struct {
	state   pawl.TaskState
	failure Text
}

func statesOfChildren(ctx context.Context, tx Tx, ids []string) (map[string]childState, error) {
	rows, err := tx.Query(ctx, childrenSQL["states of tasks"], TaskList(ids))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := make(map[string]childState, len(ids))
	for rows.Next() {
		var id string
		var s childState
		if err := rows.Scan((*TaskID)(&id), (*string)(&s.state), &s.failure); err != nil {
			return nil, err
		}
		if s.state == pawl.TaskCompleted {
			s.failure = ""
		}
		out[id] = s
	}
	return out, rows.Err()
}

// lockedWait is a wait whose row is locked.
type lockedWait struct {
	Dependent
	attempt, need        int
	onFailure            string
	total, ended, failed int
}

func lockWaits(ctx context.Context, tx Tx, items []string) ([]lockedWait, error) {
	rows, err := tx.Query(ctx, childrenSQL["lock waits"], ItemList(items))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []lockedWait
	for rows.Next() {
		var w lockedWait
		if err := rows.Scan((*ItemID)(&w.ItemID), &w.Namespace, (*TaskID)(&w.TaskID), &w.attempt, &w.need, &w.onFailure, &w.total,
			&w.ended, &w.failed); err != nil {
			return nil, err
		}
		out = append(out, w)
	}
	return out, rows.Err()
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
	if met || lost {
		var err error
		if held, err = w.lockItem(ctx, tx, lost); err != nil {
			return err
		}
	}
	cancels := held && lost && w.onFailure == pawl.OnFailureCancel
	if _, err := tx.Exec(ctx, childrenSQL["count wait"], ItemID(w.ItemID), w.ended, w.failed, bit(held)); err != nil {
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

// lockItem locks the item if it is still in this wait, and its task before if the item may fail.
// An item that left the wait, for example by its deadline, may be in another one.
func (w *lockedWait) lockItem(ctx context.Context, tx Tx, mayFail bool) (bool, error) {
	var needs, broken, attempt, solo int
	if mayFail {
		if found, err := Row(ctx, tx, []any{&solo}, moveSQL["lock task"], TaskID(w.TaskID), w.Namespace); err != nil || !found {
			return false, err
		}
	}
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
	h.State, h.Rank, h.Since = "queued", RequeueRank(h.Priority), &now
	if err := Put(ctx, tx, held); err != nil {
		return nil, err
	}
	return []DueItem{{h.Namespace, h.ItemID, h.Type, h.Rank}}, Record(ctx, tx, now, []Event{{Namespace: h.Namespace, TaskID: h.TaskID,
		ItemID: Text(h.ItemID), Solo: h.Solo, Attempt: h.Attempt, Event: "ready", From: "waiting", To: "queued",
		Actor: Actor{Type: pawl.ActorSystem}}})
}

// Awaited is a child that an item waits for. The zero value is before all others.
type Awaited struct{ ItemID, ChildID string }

// OpenAwaited lists up to limit children of open waits above after that have not been counted
// as ended.
func OpenAwaited(ctx context.Context, tx Tx, after Awaited, limit int) (out []Awaited, err error) {
	rows, err := tx.Query(ctx, childrenSQL["open awaited"], FromItem(after.ItemID), TaskID(cmp.Or(after.ChildID, firstTask)), limit)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var a Awaited
		if err := rows.Scan((*ItemID)(&a.ItemID), (*TaskID)(&a.ChildID)); err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, rows.Err()
}

// EndedAwaited returns those of the tasks that are awaited and have ended, and have not been
// counted.
func EndedAwaited(ctx context.Context, tx Tx, ids []string) ([]string, error) {
	ends, err := awaitedEnds(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	out := make([]string, len(ends))
	for i, a := range ends {
		out[i] = a.child
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// ReadChildWait returns the last wait of an item for children; nil = it never waited.
func ReadChildWait(ctx context.Context, tx Tx, itemID string) (*pawl.ChildrenState, error) {
	var s pawl.ChildrenState
	var over int
	found, err := Row(ctx, tx, []any{(*Text)(&s.Name), &s.Need, &s.OnFailure, &s.Total, &s.Ended, &s.Failed, &over},
		childrenSQL["wait of item"], ItemID(itemID))
	if err != nil || !found {
		return nil, err
	}
	s.Over = over == 1
	return &s, nil
}

// EndedChildren lists the children of an item's last wait that have ended, in the order of ids.
// A result that is larger than pawl.MaxChildResult is left out.
func EndedChildren(ctx context.Context, tx Tx, itemID string, page pawl.Page) (pawl.List[pawl.ChildResult], error) {
	after := cmp.Or(page.Cursor, firstTask)
	rows, err := tx.Query(ctx, childrenSQL["ended children"], ItemID(itemID), TaskID(after), pawl.MaxChildResult, page.Limit)
	if err != nil {
		return pawl.List[pawl.ChildResult]{}, err
	}
	defer rows.Close()
	out := pawl.List[pawl.ChildResult]{}
	for rows.Next() {
		var c pawl.ChildResult
		var key, failure, result Text
		var size *int
		if err := rows.Scan((*TaskID)(&c.ID), &key, (*string)(&c.State), &failure, &size, &result); err != nil {
			return out, err
		}
		c.Key, c.Error, c.Result = string(key), failureOf(failure), raw(result)
		c.Omitted = c.State == pawl.TaskCompleted && c.Result == nil
		out.Items = append(out.Items, c)
	}
	if len(out.Items) == page.Limit {
		out.Next = out.Items[len(out.Items)-1].ID
	}
	return out, rows.Err()
}
