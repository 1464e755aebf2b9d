package logs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/translog"
	"golang.org/x/mod/sumdb/tlog"
)

// TaskVerification is the result of VerifyTask.
type TaskVerification struct {
	TaskID string `json:"task_id"`
	Intact bool   `json:"intact"`
	Events int    `json:"events"` // the number of events that the task has
	Logged int    `json:"logged"` // of those, in the log
	Signed int    `json:"signed"` // of those, proved to be under the checkpoint
	// Checkpoint is the signed state; nil = none that a known key has signed.
	Checkpoint *pawl.LogCheckpoint `json:"checkpoint,omitempty"`
	Faults     []store.LogFault    `json:"faults"`
	// Unproved are events whose inputs and results could not be compared: see Verification.
	Unproved []string       `json:"unproved_values,omitempty"`
	Deleted  *store.Deleted `json:"deleted,omitempty"` // set when the task was deleted: its event is `deleted`
}

// Verification is the result of VerifyLog.
type Verification struct {
	Intact     bool                `json:"intact"`
	Size       int64               `json:"size"` // of the log
	Events     int                 `json:"events"`
	Pages      int                 `json:"pages"`
	Checkpoint *pawl.LogCheckpoint `json:"checkpoint,omitempty"`
	Faults     []store.LogFault    `json:"faults"`
	Forks      []Fork              `json:"forks,omitempty"`
	past       past
	// Unlogged are events whose removal is not in the log yet; nil = none.
	Unlogged *Events `json:"unlogged_removals,omitempty"`
	// Unproved are events whose inputs and results could not be compared, which is no fault: the
	// task is being deleted, or its rows were gone already when the event was logged; nil = none.
	Unproved *Events `json:"unproved_values,omitempty"`
}

// Events are a number of events, and the ids of the first ones. Unlogged removals are
// events that have no row, and whose removal is recorded and not yet in the log.
type Events struct {
	Events int64    `json:"events"`
	IDs    []string `json:"ids"` // the first ones
}

// eventsOf lists the first events of a set; nil = it has none.
func eventsOf(set numberSet) *Events {
	out := Events{Events: set.size()}
	for _, id := range set.first(kernel.BreachesShown) {
		out.IDs = append(out.IDs, eventID(id))
	}
	if out.Events == 0 {
		return nil
	}
	return &out
}

// Fork is where a new history of the log began.
type Fork struct {
	Origin     string    `json:"origin"`     // of the new history
	Size       int64     `json:"size"`       // leaves of the old history that are in the new one for certain
	Lost       int64     `json:"lost"`       // leaves of the old history behind them that were signed
	Checkpoint string    `json:"checkpoint"` // the last one of the old history
	At         time.Time `json:"at"`
}

func forkOf(x epoch) Fork {
	return Fork{Origin: x.Origin, Size: x.Size, Lost: x.Lost - x.Size, Checkpoint: x.Checkpoint, At: store.Stamp(x.CreatedAt)}
}

// LogCheckpoint implements pawl.LogReader.
func (g *Log) LogCheckpoint(ctx context.Context) (pawl.LogCheckpoint, error) {
	known, err := g.outside(nil)
	if err != nil {
		return pawl.LogCheckpoint{}, err
	}
	return kernel.Read(kernel.ForAll(ctx), g.k, func(ctx context.Context, tx store.Tx, _ string) (pawl.LogCheckpoint, error) {
		_, c, err := g.signedRoot(ctx, tx, known)
		return c, err
	})
}

// signedRoot returns the newest checkpoint of a known key, or not_found.
func (g *Log) signedRoot(ctx context.Context, tx store.Tx, known outside) (store.LogRoot, pawl.LogCheckpoint, error) {
	var c *pawl.LogCheckpoint
	var root store.LogRoot
	l, err := readLog(ctx, tx)
	if err == nil {
		root, c, _ = l.root(known)
	}
	if err == nil && c == nil {
		err = &pawl.Error{Code: pawl.CodeNotFound, Op: "log", Message: "the log has no checkpoint of a known key yet"}
	}
	if err != nil {
		return root, pawl.LogCheckpoint{}, err
	}
	return root, *c, nil
}

// VerifyTask proves that each event of a task is in the transparency log, under the newest
// checkpoint that a known key has signed. It proves inclusion, not completeness: an event
// that was removed is found by VerifyLog. trust says whose signatures the checkpoint needs; nil, or no keys =
// those beside the signing key. A text of several, one a line, is
// several keys. VerifyTask changes nothing.
func (g *Log) VerifyTask(ctx context.Context, taskID string, trust *translog.Trust) (TaskVerification, error) {
	taskID = idform.Task(taskID)
	known, err := g.outside(trust)
	if err != nil {
		return TaskVerification{}, err
	}
	return kernel.Read(ctx, g.k, func(ctx context.Context, tx store.Tx, ns string) (TaskVerification, error) {
		v := TaskVerification{TaskID: taskID, Faults: []store.LogFault{}}
		if _, err := store.TaskState(ctx, tx, ns, taskID); err != nil {
			if deleted, failed := store.WasDeleted(ctx, tx, ns, taskID); failed != nil || !deleted {
				return v, cmp.Or(failed, err)
			}
			d, found, failed := store.ReadDeleted(ctx, tx, taskID)
			if failed != nil || !found {
				return v, cmp.Or(failed, err)
			}
			v.Deleted = &d
		}
		l, err := readLog(ctx, tx)
		if err != nil {
			return v, err
		}
		root, c, faults := l.root(known)
		v.Checkpoint, v.Faults = c, append(v.Faults, faults...)
		err = v.compare(ctx, tx, l.tree, root)
		if v.Deleted != nil && v.Deleted.At.IsZero() {
			gone := store.LogFault{Kind: store.FaultMissing, EventID: v.Deleted.EventID, Found: "the event of the deletion is not there"}
			v.Faults = append(v.Faults, gone)
		}
		v.Intact = len(v.Faults) == 0
		return v, err
	})
}

// VerifyLog compares the whole log with the events: pages, leaves, rows and removals, of all
// namespaces. limit is the number of newest events to compare; below 0 = all. trust is that
// of VerifyTask. It changes nothing. Others may write meanwhile.
func (g *Log) VerifyLog(ctx context.Context, limit int, trust *translog.Trust) (Verification, error) {
	v := Verification{Faults: []store.LogFault{}}
	known, err := g.outside(trust)
	if err != nil {
		return v, err
	}
	var w walk
	ctx = kernel.ForAll(store.WithLimit(ctx, kernel.CheckLimit))
	err = g.k.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
		l, err := readLog(ctx, tx)
		if err != nil {
			return err
		}
		for _, x := range l.epochs[1:] {
			v.Forks = append(v.Forks, forkOf(x))
		}
		var faults []store.LogFault
		w.Root, v.Checkpoint, faults = l.root(known)
		if v.past, err = l.past(known); err != nil {
			return err
		}
		v.Size, v.Faults = l.tree.Size, append(v.Faults, faults...)
		begin := int64(1)
		if limit >= 0 {
			begin = max(begin, l.tree.Size-int64(limit)+1)
		}
		w.Begin(begin)
		return nil
	})
	for done := false; err == nil && !done && len(v.Faults) < kernel.BreachesShown; {
		err = g.k.DB.View(ctx, func(ctx context.Context, tx store.Tx) error {
			var faults []store.LogFault
			faults, done, err = w.Step(ctx, tx)
			v.Faults = append(v.Faults, faults...)
			return err
		})
	}
	for i := range v.Faults {
		if v.past.state == pastLost && v.Faults[i].Kind == store.FaultRoot {
			v.Faults[i].Found = v.past.lost()
		}
	}
	v.Pages, v.Events, v.Intact = w.Pages, w.Events, len(v.Faults) == 0
	v.Unlogged, v.Unproved = eventsOf(w.unlogged), eventsOf(w.unproved)
	return v, err
}

// CheckLog is VerifyLog as a check of invariants. It returns how many events it compared.
func (g *Log) CheckLog(ctx context.Context, limit int) ([]store.Breach, int, error) {
	v, err := g.VerifyLog(ctx, limit, nil)
	var out []store.Breach
	for _, f := range v.Faults {
		repair := "events and the log cannot be changed: find out which program changed the table directly, and restore a backup"
		if v.past.state == pastLost && f.Kind == store.FaultRoot {
			repair = repairLost
		}
		out = append(out, store.Breach{Rule: "log", Subject: cmp.Or(f.EventID, "the log"), Found: f.Kind + ": " + f.Found, Repair: repair})
	}
	return out, v.Events, err
}

// encode writes hashes in base64.
func encode(hashes []tlog.Hash) []string {
	out := make([]string, len(hashes))
	for i, h := range hashes {
		out[i] = h.String()
	}
	return out
}

// ProveTask implements pawl.LogReader.
func (g *Log) ProveTask(ctx context.Context, taskID string, page pawl.Page) (pawl.TaskProof, error) {
	taskID = idform.Task(taskID)
	if err := rules.CheckPage(&page); err != nil {
		return pawl.TaskProof{}, err
	}
	known, err := g.outside(nil)
	if err != nil {
		return pawl.TaskProof{}, err
	}
	return kernel.Read(ctx, g.k, func(ctx context.Context, tx store.Tx, ns string) (pawl.TaskProof, error) {
		out := pawl.TaskProof{Proofs: []pawl.LogProof{}}
		if _, err := store.TaskState(ctx, tx, ns, taskID); err != nil {
			if deleted, failed := store.WasDeleted(ctx, tx, ns, taskID); failed != nil || !deleted {
				return out, cmp.Or(failed, err)
			}
		}
		root, c, err := g.signedRoot(ctx, tx, known)
		if err != nil {
			return out, err
		}
		out.Checkpoint = c
		list, next, err := store.ProveEvents(ctx, tx, root, taskID, page)
		out.Next = next
		for _, p := range list {
			out.Proofs = append(out.Proofs, pawl.LogProof{EventID: p.EventID, Index: p.Leaf, Leaf: p.Hash.String(), Hashes: encode(p.Proof)})
		}
		return out, err
	})
}

// SinceVerification is the result of VerifySince.
type SinceVerification struct {
	Consistent bool   `json:"consistent"`
	Since      int64  `json:"since"` // the size of the checkpoint
	Size       int64  `json:"size"`  // of the log now
	Found      string `json:"found"`
}

// VerifySince proves that the log continues a checkpoint that was kept elsewhere: all its
// leaves are still the same. A checkpoint of a history before a fork is consistent up to
// the fork. A checkpoint that no known key has signed is invalid.
func (g *Log) VerifySince(ctx context.Context, note string, trust *translog.Trust) (v SinceVerification, err error) {
	known, err := g.outside(trust)
	if err != nil {
		return v, err
	}
	c, err := known.Open(note)
	if err != nil {
		return v, &pawl.Error{Code: pawl.CodeInvalid, Op: "verify", Message: "the checkpoint cannot be used: " + err.Error(), Err: err}
	}
	v.Since = c.Size
	err = g.k.DB.View(kernel.ForAll(ctx), func(ctx context.Context, tx store.Tx) error {
		l, err := readLog(ctx, tx)
		if err != nil {
			return err
		}
		tree, epochs := l.tree, l.epochs
		v.Size = tree.Size
		at := slices.IndexFunc(epochs, func(x epoch) bool { return x.Origin == c.Origin })
		if at < 0 {
			v.Found = "the checkpoint is of another database: its log is " + c.Origin
			return nil
		}
		common := c.Size
		for _, x := range epochs[at+1:] {
			common = min(common, x.Size)
		}
		if common < c.Size {
			v.Found = fmt.Sprintf("the log was forked: %d leaves of the checkpoint are lost after leaf %d", c.Size-common, common)
			return nil
		}
		root, err := rootAt(tree, c.Size)
		var cut *store.TileError
		switch {
		case errors.As(err, &cut):
			v.Found = cut.Error()
			return nil
		case err != nil:
			return err
		case c.Size > tree.Size:
			v.Found = "the log has fewer leaves than the checkpoint: the database went back in time, or its end was cut off"
		case root != c.Root && l.newestSigned(known.Keys) < c.Size:
			v.Found = "the log has another root at that size, and the database does not have a checkpoint of that size: it went back in " +
				"time, and other events have taken the places of lost ones; `pawl log fork` begins a new history"
		case root != c.Root:
			v.Found = "the log has another root at that size: leaves before it were changed"
		default:
			v.Consistent, v.Found = true, "the log continues the checkpoint"
		}
		return nil
	})
	return v, err
}

// ProveLog implements pawl.LogReader.
func (g *Log) ProveLog(ctx context.Context, from, to int64) (pawl.LogConsistency, error) {
	known, err := g.outside(nil)
	if err != nil {
		return pawl.LogConsistency{}, err
	}
	return kernel.Read(kernel.ForAll(ctx), g.k, func(ctx context.Context, tx store.Tx, _ string) (pawl.LogConsistency, error) {
		out := pawl.LogConsistency{From: from, To: to}
		tree, err := store.ReadTree(ctx, tx)
		if err != nil {
			return out, err
		}
		if out.To == 0 {
			root, _, err := g.signedRoot(ctx, tx, known)
			if err != nil {
				return out, err
			}
			out.To = root.Size
		}
		if from < 1 || from > out.To || out.To > tree.Size {
			return out, pawl.Invalid("/from", "sizes are from 1 to %d, the smaller one first", tree.Size)
		}
		proof, err := tlog.ProveTree(out.To, from, tree)
		out.Hashes = encode(proof)
		return out, err
	})
}
