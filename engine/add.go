package engine

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// AddItems adds items to open tasks; see pawl.TaskMaker.
func (e *Engine) AddItems(ctx context.Context, calls []pawl.AddItems) ([]pawl.Result[pawl.Task], error) {
	if err := tooMany("add_items", len(calls)); err != nil {
		return nil, err
	}
	out := make([]pawl.Result[pawl.Task], len(calls))
	for i := range calls {
		out[i].Value, out[i].Err = e.addItems(ctx, &calls[i])
	}
	return out, nil
}

func (e *Engine) addItems(ctx context.Context, call *pawl.AddItems) (pawl.Task, error) {
	var f fields
	if len(call.Items) == 0 || len(call.Items) > pawl.MaxItemsPerCall {
		f.add("/items", "has %d items; 1 to %d are allowed", len(call.Items), pawl.MaxItemsPerCall)
	} else {
		f.items(call.Items, e.ids.now())
	}
	if err := f.err("add_items"); err != nil {
		return pawl.Task{}, err
	}
	c := pawl.CallerOf(ctx)
	kind, id := actor(c, pawl.ActorAPI, "")
	d := draft{}
	var now int64
	var task pawl.Task
	err := e.db.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		if now, err = tx.Now(ctx); err != nil {
			return err
		}
		live, err := store.Grow(ctx, tx, now, c.Namespace, call.TaskID, len(call.Items))
		if err != nil {
			return err
		}
		row := store.NewTask{ID: call.TaskID, Namespace: c.Namespace, Type: live.Type, Priority: live.Priority, Actor: store.Actor{Type: kind, ID: id}}
		d = draft{task: row, items: make([]store.NewItem, len(call.Items))}
		for i := range call.Items {
			d.items[i] = newItem(&row, &pawl.NewTask{}, &call.Items[i], e.ids.next("itm"), live.Items+i)
		}
		known, err := store.KeysOfTask(ctx, tx, call.TaskID)
		if err != nil {
			return err
		}
		if err := link(d.items, call.Items, known); err != nil {
			return err
		}
		for i := range d.items {
			if d.items[i].Needs, err = store.Feed(ctx, tx, d.items[i].Needs, d.items); err != nil {
				return err
			}
		}
		if _, err := e.db.Dialect().Hot.Create(ctx, tx, nil, d.items); err != nil {
			return err
		}
		task, err = store.GetTask(ctx, tx, c.Namespace, call.TaskID)
		return err
	})
	if err == nil {
		e.created([]draft{d}, now)
	}
	return task, err
}
