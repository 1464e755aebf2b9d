package children

import (
	"cmp"
	"context"
	"errors"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

// spawnTries is how often a spawn runs at most if another item of the task spawns a child with its key meanwhile.
const spawnTries = 4

// Spawn creates children under leases; see pawl.Spawner.
func (c *Children) Spawn(ctx context.Context, calls []pawl.SpawnCall) ([]pawl.Result[pawl.Task], error) {
	calls = idform.Calls(calls)
	if err := c.k.Acts(ctx, "spawn"); err != nil {
		return nil, err
	}
	return c.tasks().Stated(ctx, calls,
		func(ctx context.Context, k *kernel.Kernel, calls []pawl.SpawnCall) ([]pawl.Result[pawl.Task], error) {
			return kernel.Each(ctx, "spawn", calls, Over(c, k).spawn)
		})
}

func (f *family) spawn(ctx context.Context, call *pawl.SpawnCall) (out pawl.Task, err error) {
	tasks := f.tasks()
	if err := checkSpawn(call); err != nil {
		return out, err
	}
	if err := tasks.Ours(ctx, call.Fence); err != nil {
		return out, err
	}
	parent, err := kernel.Read(ctx, f.k, func(ctx context.Context, tx store.Tx, ns string) (string, error) {
		return taskOfItem(ctx, tx, ns, call.ItemID)
	})
	if err != nil {
		return out, err
	}
	task := call.Task
	task.ParentID = parent
	d, err := tasks.Draft(ctx, &task, kernel.Allowed{Spawned: store.Spawned{ItemID: call.ItemID, Key: store.Text(call.Key)}})
	if err == nil {
		err = tasks.Refer(ctx, "spawn", d)
	}
	for try := 0; err == nil && try < spawnTries; try++ {
		out, err := f.spawnOnce(ctx, tasks, call, parent, d)
		if pawl.CodeOf(err) != pawl.CodeConflict || try == spawnTries-1 || errors.Is(err, pawl.ErrLeaseLost) {
			return out, err
		}
	}
	return out, err
}

// spawnOnce locks the parent and then the item's lease, as all calls do that lock both.
func (f *family) spawnOnce(ctx context.Context, tasks kernel.Tasks, call *pawl.SpawnCall, parent string, d kernel.Draft) (out pawl.Task,
	err error) {
	held := false
	err = f.k.Write(ctx, func(ctx context.Context, w *kernel.Write) error {
		out, held = pawl.Task{}, false
		ns := w.Caller.Namespace
		if _, err := store.ShareTask(ctx, w.Tx, ns, parent); err != nil {
			return err
		}
		_, ok, err := store.LockFenced(ctx, w.Tx, kernel.Fence(w.Caller, call.Fence))
		if held = ok; err != nil || !ok {
			return err
		}
		older, err := childByKey(ctx, w.Tx, parent, call.Key)
		if err != nil {
			return err
		}
		if older != "" {
			out, err = store.GetTask(ctx, w.Tx, ns, older)
			if out.Deduplicated = true; pawl.CodeOf(err) == pawl.CodeNotFound {
				return rules.KeyTaken(pawl.Task{ID: older, State: rules.RemovedByRetention})
			}
			return err
		}
		now, err := tasks.Insert(ctx, w, []kernel.Draft{d})
		if err == nil {
			out = d.Answer(now)
		}
		return err
	})
	if err == nil && !held {
		err = cmp.Or(f.k.CheckFence(ctx, call.Fence, "spawn"), kernel.Busy("spawn"))
	}
	return out, err
}
