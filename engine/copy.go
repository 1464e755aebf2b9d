package engine

import (
	"context"
	"fmt"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/asked"
	"github.com/pawl-work/pawl/store"
)

// A copy of a large task is made in parts: transactions of at most store.CopyStep rows write its
// items and checkpoints, which nothing reads yet, and the transaction that inserts the task lets
// them begin. See store.Copy for what becomes of a copy whose process dies.

// staged is what a draft has in the database already.
type staged struct {
	store.Copy
	rows  int
	items int // of rows; 0 = the draft has them itself
	like  store.NewItem
	first map[store.Queue]string // the first item of each queue
}

// copiesApart reports whether a copy may be made in parts. In the transaction of a caller, and in one
// that was begun, all is written at once.
func (e *Engine) copiesApart() bool {
	return e.scope == nil || !e.scope.Begun && e.scope.Free != nil
}

// copyParts makes one copy.
type copyParts struct {
	*copying
	e      *Engine // without a scope
	head   draft
	staged staged
	of     pawl.Task
	copyOf map[string]string // the copies of items that may have checkpoints
	byKey  map[string]string // the items that have keys
	needs  bool
	pruned int64 // checkpoints of the original that were removed before
}

// errManyInputs refuses a copy whose inputs are not compared: its parts are written before all of them are read.
var errManyInputs error = &pawl.Error{Code: pawl.CodeTooLarge, Op: "clone", Message: fmt.Sprintf(
	"a clone of more than %d items, or %d MiB, cannot be unique by input; give it a key", 2*store.CopyStep, pawl.MaxCallBytes>>20)}

// copyInParts writes the items and checkpoints of a copy, and returns its draft.
func (e *Engine) copyInParts(ctx context.Context, c *copying) (draft, error) {
	if c.like != nil && c.like.Unique != nil && c.like.Unique.By == pawl.UniqueByInput {
		return draft{}, errManyInputs
	}
	if err := e.unlessAnswered(ctx); err != nil {
		return draft{}, err
	}
	p := &copyParts{copying: c, e: e.root, copyOf: map[string]string{"": ""}, byKey: map[string]string{}}
	err := p.run(ctx)
	if err != nil {
		e.sweeper.DropCopy(ctx, &p.staged.Copy)
	}
	return p.head, err
}

// unlessAnswered ends a call under an idempotency key that has its answer, or is carried out by another
// call, before anything is written.
func (e *Engine) unlessAnswered(ctx context.Context) error {
	if e.scope == nil {
		return nil
	}
	free := false
	err := e.scope.DB.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		free, err = e.scope.Free(ctx, tx)
		return err
	})
	if err != nil || free {
		return err
	}
	if err := e.scope.Begin(ctx); err != nil {
		return err
	}
	return &pawl.Error{Code: pawl.CodeUnavailable, Op: "copy", Message: "the idempotency key became free meanwhile; try again"}
}

func (p *copyParts) run(ctx context.Context) error {
	ns := pawl.CallerOf(ctx).Namespace
	few := copyRoom{rows: 2 * store.CopyStep}
	var items []pawl.Item
	apart := false
	err := p.e.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		if p.of, items, err = original(ctx, tx, ns, p.taskID, few); pawl.CodeOf(err) == pawl.CodeTooLarge {
			apart, err = true, nil
		}
		if err == nil && p.checkpoints {
			if p.at, err = store.NewestCheckpoint(ctx, tx, p.taskID, p.at); err == nil {
				p.pruned, err = store.Pruned(ctx, tx, p.taskID)
			}
		}
		return err
	})
	if err != nil {
		return err
	}
	if apart {
		err = p.stageItems(ctx)
	} else if err = p.draft(ctx, workOf(items), items); err == nil {
		p.head.staged = &p.staged
	}
	if err == nil && p.checkpoints {
		err = p.stageCheckpoints(ctx)
	}
	return err
}

// draft drafts the task with its first items, and writes the mark of the copy. all are the items that
// may have checkpoints.
func (p *copyParts) draft(ctx context.Context, items, all []pawl.Item) error {
	t := cloneOf(p.of, items, p.like)
	shared := drafting{many: p.of.Items > 1, total: p.of.Items}
	if p.checkpoints {
		shared.fork = &pawl.TaskFork{TaskID: p.taskID, Checkpoint: p.at}
	}
	for i := range t.Items {
		if p.total() > 0 || p.of.Items > len(items) {
			t.Items[i].After = nil // their keys are in other parts
		}
	}
	if p.total() > 0 {
		t.Unique = nil
	}
	shared.stored = true
	d, err := p.e.draft(ctx, &t, p.taskID, &shared)
	if err != nil {
		return err
	}
	if p.staged.TaskID == "" {
		p.staged.Copy = store.Copy{TaskID: d.task.ID, Token: p.e.k.IDs.Next("run")}
		if err := p.e.db.Do(ctx, p.staged.Begin); err != nil {
			p.staged.TaskID = ""
			return err
		}
		p.head = d
	} else {
		p.head.items = d.items
	}
	if p.checkpoints {
		for i, at := 0, 0; i < len(all); i++ {
			if all[i].Kind == pawl.KindWork && at < len(d.items) {
				p.copyOf[all[i].ID] = d.items[at].ID
				at++
			} else if all[i].Kind == pawl.KindPlan && d.plans {
				p.copyOf[all[i].ID] = d.items[0].ID
			}
		}
	}
	return nil
}

// total returns how many items were written.
func (p *copyParts) total() int { return p.staged.items }

// stageItems writes the items, part by part.
func (p *copyParts) stageItems(ctx context.Context) error {
	ns := pawl.CallerOf(ctx).Namespace
	p.staged.first = map[store.Queue]string{}
	for after := store.BeforeItems(); ; {
		var items []pawl.Item
		err := p.e.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			if items, after, err = store.ItemsToCopy(ctx, tx, p.taskID, after); err == nil {
				err = store.StillWhole(ctx, tx, ns, p.taskID)
			}
			return err
		})
		if err != nil {
			return err
		}
		items = items[:min(len(items), p.of.Items-p.total())] // others were added meanwhile
		if len(items) == 0 {
			break
		}
		if err := p.stagePart(ctx, items); err != nil {
			return err
		}
	}
	p.head.items, p.head.task.Items = nil, p.total()
	if !p.needs {
		return nil
	}
	for after, more := store.BeforeItems(), true; more; {
		from := after
		err := p.e.db.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			after, more, err = p.staged.StageNeeds(ctx, tx, p.byKey, from)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *copyParts) stagePart(ctx context.Context, items []pawl.Item) error {
	if err := p.draft(ctx, items, items); err != nil {
		return err
	}
	p.head.staged = &p.staged
	rows := p.head.items
	var blobs [][]byte
	for i := range rows {
		row := &rows[i]
		row.TaskID, row.Position = p.staged.TaskID, p.total()+i
		if len(items[i].After) > 0 {
			row.After, p.needs = store.Text(store.List(items[i].After)), true
		}
		if row.Key != "" {
			p.byKey[string(row.Key)] = row.ID
		}
		q := store.Queue{Type: row.Type, Rank: store.NewRank(row.Priority)}
		if id, known := p.staged.first[q]; !known || row.ID < id {
			p.staged.first[q] = row.ID
		}
		blobs = append(blobs, blobsInText(row.Input)...)
	}
	if err := p.e.referTask(ctx, p.op, p.staged.TaskID, blobs); err != nil {
		return err
	}
	err := p.e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error { return p.staged.StageItems(ctx, tx, rows) })
	if err == nil {
		p.staged.like = rows[0]
		p.staged.items += len(rows)
		p.staged.rows += len(rows)
	}
	return err
}

// stageCheckpoints writes the checkpoints, the newest first.
func (p *copyParts) stageCheckpoints(ctx context.Context) error {
	ns := pawl.CallerOf(ctx).Namespace
	p.head.fork = &store.Fork{At: p.at}
	later := map[string]bool{}
	for below := p.at + 1; below > 1; {
		var rows []store.CheckpointRow
		var lowest int64
		err := p.e.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			rows, lowest, err = store.CheckpointsToCopy(ctx, tx, ns, p.taskID, below, p.pruned, later)
			return err
		})
		if err == nil {
			rows, err = p.e.copiedCheckpoints(rows, p.at, p.copyOf)
		}
		if err == nil && len(rows) > 0 {
			err = p.e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error { return p.staged.StageCheckpoints(ctx, tx, ns, rows) })
		}
		if err != nil {
			return err
		}
		p.head.fork.Staged += int64(len(rows))
		p.staged.rows += len(rows)
		below = lowest
	}
	return p.e.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		if p.head.fork.Uploads, err = store.UploadsOf(ctx, tx, p.taskID); err != nil {
			return err
		}
		rows, err := store.EffectsOf(ctx, tx, p.taskID)
		if err != nil {
			return err
		}
		p.head.fork.Effects = p.e.referToEffects(rows, p.staged.TaskID, p.copyOf)
		err = p.head.fork.ReadRounds(ctx, tx, p.taskID)
		p.head.fork.CopyRounds(p.copyOf)
		return err
	})
}

// begin lets what was written begin, in the transaction that has inserted the task.
func (s *staged) begin(ctx context.Context, tx store.Tx, now int64) error {
	if err := s.End(ctx, tx); err != nil || s.items == 0 {
		return err
	}
	if err := s.BeginItems(ctx, tx, now, &s.like); err != nil {
		return err
	}
	return store.SearchCopies(ctx, tx, store.TaskID(s.TaskID)) // the items have no gates yet
}

// copyEnded counts the rows of a copy that was made for the caller's rate, and removes what was
// written for one that was not made: it was refused, or another task has its key.
func (e *Engine) copyEnded(ctx context.Context, d *draft, r pawl.Result[pawl.Task], err error) {
	if err == nil && r.Err == nil && !r.Value.Deduplicated {
		if made := asked.Of[func(int)](ctx, asked.Rows); made != nil {
			made(max(0, d.rows()-1)) // the call itself counts as one
		}
	} else if d.staged != nil {
		e.k.Finally(func() { e.sweeper.DropCopy(ctx, &d.staged.Copy) })
	}
}
