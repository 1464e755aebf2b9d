package engine

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/apikeys"
	"github.com/pawl-work/pawl/engine/internal/archives"
	"github.com/pawl-work/pawl/engine/internal/blobs"
	"github.com/pawl-work/pawl/engine/internal/budgets"
	"github.com/pawl-work/pawl/engine/internal/bulk"
	"github.com/pawl-work/pawl/engine/internal/checkpoints"
	"github.com/pawl-work/pawl/engine/internal/children"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/keys"
	"github.com/pawl-work/pawl/engine/internal/logs"
	"github.com/pawl-work/pawl/engine/internal/messages"
	"github.com/pawl-work/pawl/engine/internal/queue"
	"github.com/pawl-work/pawl/engine/internal/relays"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/engine/internal/schedules"
	"github.com/pawl-work/pawl/engine/internal/signals"
	"github.com/pawl-work/pawl/engine/internal/stats"
	"github.com/pawl-work/pawl/engine/internal/tasktypes"
	"github.com/pawl-work/pawl/engine/internal/unique"
	"github.com/pawl-work/pawl/internal/watch"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/translog"
)

// rooms are the features that have a package of their own. Their methods are those of an Engine.
type rooms struct {
	*apiKeys
	*budgeted
	*timetables
	*bulks
	*relayed
	*logged
	*signalled
	*taskTypes
	*uploads
	*onceKeys
	*statistics
	*kids
	*conversations
	*saved
	*archived
}

// The names of the fields.
type (
	apiKeys       = apikeys.APIKeys
	budgeted      = budgets.Budgets
	timetables    = schedules.Schedules
	bulks         = bulk.Bulk
	relayed       = relays.Relays
	logged        = logs.Log
	signalled     = signals.Signals
	taskTypes     = tasktypes.TaskTypes
	uploads       = blobs.Blobs
	onceKeys      = keys.Keys
	statistics    = stats.Stats
	kids          = children.Children
	conversations = messages.Messages
	saved         = checkpoints.Checkpoints
	archived      = archives.Archives
)

func newRooms(k *kernel.Kernel, o *Options, witnesses []*translog.Witness, hub *watch.Hub) rooms {
	l := &o.TransparencyLog
	return rooms{
		apikeys.New(k), budgets.New(k), schedules.New(k), bulk.New(k), relays.New(k), logs.New(k, l.Key, l.Send, witnesses),
		signals.New(k), tasktypes.New(k, o.Hooks, o.RegisteredTypesOnly, &budgets.Type), blobs.New(k, o.Blobs, o.BlobStores, o.MaxBlobBytes),
		keys.New(k), stats.New(k), children.New(k), messages.New(k, hub), checkpoints.New(k),
		archives.New(k, o.Sweep.ArchiveDir, o.scratch),
	}
}

// over returns the rooms over another Kernel.
func (r rooms) over(k *kernel.Kernel) rooms {
	return rooms{
		apikeys.New(k), budgets.New(k), schedules.Over(r.timetables, k), bulk.Over(r.bulks, k), relays.New(k), logs.Over(r.logged, k),
		signals.Over(k), tasktypes.Over(r.taskTypes, k), blobs.Over(r.uploads, k), keys.Over(r.onceKeys, k),
		stats.Over(r.statistics, k), children.Over(r.kids, k), messages.Over(r.conversations, k),
		checkpoints.Over(r.saved, k), archives.Over(r.archived, k),
	}
}

// declared are the declarations of the rooms.
func declared() []kernel.Room {
	return []kernel.Room{apikeys.Declared(), budgets.Declared(), schedules.Declared(), bulk.Declared(), relays.Declared(),
		logs.Declared(), signals.Declared(), tasktypes.Declared(), blobs.Declared(), keys.Declared(), unique.Declared(), stats.Declared(),
		children.Declared(), messages.Declared(), checkpoints.Declared(), archives.Declared()}
}

// ofRooms joins what each room declares of one kind.
func ofRooms[T any](of func(r kernel.Room) []T) (out []T) {
	for _, r := range declared() {
		out = append(out, of(r)...)
	}
	return out
}

// wire gives the kernel what rooms need of each other.
func (e *Engine) wire() {
	e.k.Work = func(k *kernel.Kernel, of kernel.Origin) kernel.Tasks {
		if k == e.k && of == (kernel.Origin{}) {
			return work{e}
		}
		made := e.over(k)
		made.origin = of
		return work{made}
	}
	e.k.Sweeps = func(ctx context.Context, tx store.Tx) (pawl.SweepTotals, error) {
		s, _, err := e.sweeps(ctx, tx)
		return s, err
	}
	e.k.MAC = func(text string) string { return e.tokens.mac(text) }
	e.k.Verbs = func(k *kernel.Kernel) pawl.Service { return e.over(k) }
	e.k.Wait = func(ctx context.Context, ns, key string, wait time.Duration, try func(<-chan struct{}) (bool, error)) error {
		return e.queues.Wait(ctx, ns, key, wait, queue.WhenWoken(try))
	}
}

// work is the room of work, as other rooms see it.
type work struct{ *Engine }

// Draft implements kernel.Tasks.
func (w work) Draft(ctx context.Context, t *pawl.NewTask, a kernel.Allowed) (kernel.Draft, error) {
	d, err := w.draft(ctx, t, "", &drafting{stored: a.Stored, reserved: a.Reserved})
	d.task.Spawned = a.Spawned
	return &d, err
}

// Insert implements kernel.Tasks.
func (w work) Insert(ctx context.Context, in *kernel.Write, drafts []kernel.Draft) (now int64, err error) {
	list := make([]draft, len(drafts))
	for i, d := range drafts {
		list[i] = *d.(*draft)
	}
	made, err := w.insertInTx(ctx, in.Tx, list)
	if err != nil {
		return 0, err
	}
	in.After(func() { w.created(list, made[0].now) })
	return made[0].now, nil
}

// CheckQueue implements kernel.Tasks.
func (w work) CheckQueue(ctx context.Context, typ string, priority int) error {
	return w.checkItemQueues(ctx, queue.Pair{Type: typ, Priority: priority}, nil)
}

// Follow implements kernel.Tasks.
func (w work) Follow(ctx context.Context, f kernel.After) {
	then := effects{queued: f.Queued, waking: f.Waking, children: f.Children, advance: f.Advance}
	if d := f.Failed; d != nil {
		then = then.and(effects{followUp: true, ended: []string{d.ItemID}, failing: []string{d.TaskID}, children: []string{d.TaskID}})
	}
	w.follow(ctx, then)
}

// Ours implements kernel.Tasks.
func (w work) Ours(ctx context.Context, f pawl.Fence) error { return w.ours(ctx, f) }

// Stated implements kernel.Tasks.
func (w work) Stated(ctx context.Context, calls []pawl.SpawnCall,
	run func(ctx context.Context, k *kernel.Kernel, calls []pawl.SpawnCall) ([]pawl.Result[pawl.Task], error)) ([]pawl.Result[pawl.Task],
	error) {
	return withProvenance(ctx, w.Engine, "create", calls, subjectOfTask,
		func(e *Engine, ctx context.Context, calls []pawl.SpawnCall) ([]pawl.Result[pawl.Task], error) {
			return run(ctx, e.k, calls)
		})
}

// Refer implements kernel.Tasks.
func (w work) Refer(ctx context.Context, op string, d kernel.Draft) error {
	return w.referTask(ctx, op, d.TaskID(), d.(*draft).blobs())
}

// CancelAlone implements kernel.Tasks.
func (w work) CancelAlone(ctx context.Context, call *pawl.TaskCall) error {
	return w.cancelAlone(ctx, call)
}

// Delete implements kernel.Tasks.
func (w work) Delete(ctx context.Context, call pawl.TaskCall, most *atomic.Int64) error {
	return w.deleteTask(ctx, pawl.CallerOf(ctx), call, most)
}

// Remove implements kernel.Tasks.
func (w work) Remove(ctx context.Context, namespace, taskID string, by store.Deletion) error {
	w.log.InfoContext(ctx, "task deleted", "task_id", taskID, "namespace", namespace, "actor", by.Actor.ID)
	return w.sweeper.Delete(ctx, namespace, taskID, by)
}

// AppendRows implements kernel.Tasks.
func (w work) AppendRows(ctx context.Context, calls []kernel.AppendRow) ([]pawl.Result[store.Appended], error) {
	c := pawl.CallerOf(ctx)
	v := fenced[kernel.AppendRow, store.Append, store.Appended, store.Appended]{
		op:        "append",
		committer: w.committers.append,
		fence:     func(r *kernel.AppendRow) pawl.Fence { return r.Fence },
		check:     func(*rules.Fields, *kernel.AppendRow) {},
		row: func(_ int, r *kernel.AppendRow) store.Append {
			row := r.Append
			row.Fence = fenceRow(c, r.Fence)
			return row
		},
		answer: func(_ *kernel.AppendRow, a *store.Appended) (store.Appended, effects) { return *a, effects{} },
	}
	out, _, err := v.do(ctx, w.Engine, calls)
	return out, err
}

// DeleteEnded implements kernel.Tasks.
func (w work) DeleteEnded(ctx context.Context, namespace string, taskIDs []string, by store.Deletion) ([]string, error) {
	return w.sweeper.DeleteEnded(ctx, namespace, taskIDs, by)
}

// RunBulks carries out all bulk calls that wait, and returns when none is left. It is for
// programs that do not call Run.
func (e *Engine) RunBulks(ctx context.Context) error {
	if err := e.notInTx("bulk"); err != nil {
		return err
	}
	return bulk.Run(ctx, e.bulks, 0)
}

// TaskID implements kernel.Draft.
func (d *draft) TaskID() string { return d.task.ID }

// EndLeases implements kernel.Tasks.
func (w work) EndLeases(ctx context.Context, keyID string, by store.Actor) error {
	return w.revokeKey(ctx, keyID, by)
}

// OnlyItem implements kernel.Draft.
func (d *draft) OnlyItem() string { return d.items[0].ID }

// Typed implements kernel.Draft.
func (d *draft) Typed() bool { return d.task.TypeVersion > 0 }

// Plain implements kernel.Draft.
func (d *draft) Plain() bool {
	return d.hold == nil && !d.task.Dedupes && !d.needsOwnTx() && !d.hasMessages() && len(d.blobs()) == 0
}

// Answer returns the task as it is right after its creation.
func (d *draft) Answer(now int64) pawl.Task {
	payload := d.task.Payload
	if d.task.Solo {
		payload = &d.items[0].Input
	}
	t := d.task.Task(*payload)
	t.State, t.Status, t.Stage, t.Thread = pawl.TaskQueued, pawl.StatusPending, "Queued", d.thread
	t.CreatedAt, t.UpdatedAt, t.LastTransitionedAt = stamp(now), stamp(now), stamp(now)
	if d.task.Solo && d.items[0].RunAt != nil && *d.items[0].RunAt > now {
		until := stamp(*d.items[0].RunAt)
		t.Stage, t.BlockedBy = "Scheduled", &pawl.Blocked{Reason: pawl.BlockedByTime, Detail: "run_at", Until: &until}
	}
	return t
}
