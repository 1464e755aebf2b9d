package engine

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/queue"
	"github.com/pawl-work/pawl/engine/internal/tasktypes"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

// AddItems adds items to open tasks; see pawl.TaskMaker.
func (e *Engine) AddItems(ctx context.Context, calls []pawl.AddItems) ([]pawl.Result[pawl.Task], error) {
	calls = idform.Calls(calls)
	return kernel.Each(ctx, "add_items", calls, e.addItems)
}

// addable checks new items against the general rules and against the rules of their
// task's type. It returns the rules of the type.
func (e *Engine) addable(ctx context.Context, call *pawl.AddItems) (*tasktypes.Rules, error) {
	now, err := e.checkTime(ctx, nil, call.Items)
	if err == nil {
		err = checkAddItems(call, now)
	}
	if err != nil {
		return nil, err
	}
	r, priority, err := tasktypes.Of(e.taskTypes).OfTask(ctx, call.TaskID)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(r.Name, pawl.ReservedPrefix) {
		return nil, &pawl.Error{Code: pawl.CodeConflict, Op: "add_items", Message: "Pawl alone makes the items of tasks of the type " + r.Name}
	}
	return r, cmp.Or(r.CheckItems(call.Items, nil), e.checkItemTypes(ctx, queue.Pair{Type: r.Name, Priority: priority}, "/items", call.Items))
}

func (e *Engine) addItems(ctx context.Context, call *pawl.AddItems) (pawl.Task, error) {
	r, err := e.addable(ctx, call)
	if err != nil {
		return pawl.Task{}, err
	}
	c := pawl.CallerOf(ctx)
	var blobs [][]byte
	for i := range call.Items {
		blobs = append(blobs, blobsIn(call.Items[i].Input)...)
	}
	if err := e.referTask(ctx, "add_items", call.TaskID, blobs); err != nil {
		return pawl.Task{}, err
	}
	linked := slices.ContainsFunc(call.Items, func(i pawl.NewItem) bool { return i.Key != "" || len(i.After) > 0 })
	room, apart, err := e.roomApart(ctx, c.Namespace, call, linked)
	if err != nil {
		return pawl.Task{}, err
	}
	var d draft
	var now int64
	var task pawl.Task
	var broken []string
	err = e.db.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		if now, err = tx.Now(ctx); err != nil {
			return err
		}
		if room, err = lockRoom(ctx, tx, now, call, room, apart); err != nil {
			return err
		}
		d = e.more(ctx, r, room, call, now)
		if broken, err = linkAndNumber(ctx, tx, call, d.items, linked, apart); err != nil {
			return err
		}
		if err := e.insertMore(ctx, tx, d.items); err != nil {
			return err
		}
		if err := dependencyBroken(ctx, tx, broken); err != nil {
			return err
		}
		if err := setTaskType(ctx, tx, call.TaskID, &d); err != nil {
			return err
		}
		if task, err = store.GetTask(ctx, tx, c.Namespace, call.TaskID); err != nil {
			return err
		}
		task.Items, task.ItemsOpen, err = grow(ctx, tx, now, c.Namespace, call.TaskID, len(call.Items))
		return err
	})
	if err != nil {
		return task, err
	}
	e.after(func() { e.created([]draft{d}, now) })
	if len(broken) > 0 {
		e.followUp(ctx)
		return e.GetTask(ctx, call.TaskID)
	}
	return task, nil
}

// more drafts new items of a task by the task's version of its type.
func (e *Engine) more(ctx context.Context, r *tasktypes.Rules, room newPositions, call *pawl.AddItems, now int64) draft {
	c := pawl.CallerOf(ctx)
	by := actor(c, pawl.ActorAPI, "")
	row := store.NewTask{ID: call.TaskID, Namespace: c.Namespace, Type: room.Type, Priority: room.Priority, Actor: by,
		StartToClose: room.StartToClose, ScheduleToStart: room.ScheduleToStart, Deadline: ahead(room.Deadline, now)}
	if room.ParentID != "" {
		row.ParentID = &room.ParentID
	}
	d := draft{task: row, items: make([]store.NewItem, len(call.Items))}
	like := pawl.NewTask{MaxAttempts: r.MaxAttempts}
	for i := range call.Items {
		d.items[i] = newItem(&row, &like, &call.Items[i], e.k.IDs.Next("itm"), room.Position+i)
	}
	return drafted(r, d)
}

// roomApart reserves positions in a separate transaction if several transactions may
// write at once. Other adds to the same task then wait for the reservation and not for
// the insert. A call with keys or dependencies reserves nothing here: keys are unique in
// a task, so it locks the task from the start.
func (e *Engine) roomApart(
	ctx context.Context,
	namespace string,
	call *pawl.AddItems,
	linked bool,
) (room newPositions, apart bool, err error) {
	if linked || !e.db.Dialect().ParallelWrites {
		return room, false, nil
	}
	err = e.db.Auto(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		room, apart, err = takePositions(ctx, tx, namespace, call.TaskID, len(call.Items))
		return err
	})
	return room, apart, err
}

// lockRoom locks the task that items are added to: shared when the positions were
// reserved before, otherwise exclusively.
func lockRoom(
	ctx context.Context,
	tx store.Tx,
	now int64,
	call *pawl.AddItems,
	reserved newPositions,
	apart bool,
) (room newPositions, err error) {
	ns := pawl.CallerOf(ctx).Namespace
	if !apart {
		return lockPositions(ctx, tx, now, ns, call.TaskID)
	}
	reserved.Priority, err = store.ShareTask(ctx, tx, ns, call.TaskID)
	return reserved, err
}

// linkAndNumber links new items to existing items, which it locks. Unless the positions were
// reserved before, it then takes them, which locks the task's counters. broken lists the
// new items that depend on a failed item.
func linkAndNumber(
	ctx context.Context,
	tx store.Tx,
	call *pawl.AddItems,
	rows []store.NewItem,
	linked, apart bool,
) (broken []string, err error) {
	if linked {
		broken, err = linkToOld(ctx, tx, call, rows)
	}
	if err != nil || apart {
		return broken, err
	}
	first, err := nextPositions(ctx, tx, pawl.CallerOf(ctx).Namespace, call.TaskID, len(rows))
	for i := range rows {
		rows[i].Position += first
	}
	return broken, err
}

// linkToOld links new items to each other and to existing items, which it locks. broken
// lists the new items that depend on a failed item.
func linkToOld(ctx context.Context, tx store.Tx, call *pawl.AddItems, rows []store.NewItem) (broken []string, err error) {
	known, err := keysOfTask(ctx, tx, call.TaskID)
	if err != nil {
		return nil, err
	}
	if err := link(rows, call.Items, known); err != nil {
		return nil, err
	}
	made, old := make(map[string]bool, len(rows)), map[string]bool{}
	for i := range rows {
		made[rows[i].ID] = true
	}
	for i := range rows {
		for _, id := range rows[i].Needs {
			if !made[id] {
				old[id] = true
			}
		}
	}
	failed, err := store.DependencyAdded(ctx, tx, slices.Sorted(maps.Keys(old)))
	if err != nil {
		return nil, err
	}
	for i := range rows {
		needs := rows[i].Needs
		if slices.ContainsFunc(needs, func(id string) bool { return failed[id] }) {
			broken = append(broken, rows[i].ID)
		}
		rows[i].Needs = slices.DeleteFunc(needs, func(id string) bool {
			_, alive := failed[id]
			return !made[id] && !alive // the item it depends on has completed
		})
	}
	return broken, nil
}
