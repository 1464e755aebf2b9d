package checkpoints

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// ownCheckpoint is a checkpoint that an append saves for a task itself.
type ownCheckpoint struct {
	store.SavedCheckpoint
	OnConflict string
}

// appending is an append of checkpoints to a task.
type appending struct {
	Op                string // of the call, for errors
	Namespace, TaskID string
	By                store.Actor
	Expected          *int64
	Checkpoints       []ownCheckpoint
	Prune             []pawl.PruneRule
}

// append carries out an append. All appends to a task, and all other changes of its checkpoints,
// take turns at the row of its counters, which is locked before the names are read. Blobs are
// stored before that, as those of single checkpoints are.
func (a *appending) append(ctx context.Context, tx store.Tx, now int64) (out pawl.CheckpointsAppended, err error) {
	addresses, err := a.keepBlobs(ctx, tx, now)
	if err != nil {
		return out, err
	}
	out = pawl.CheckpointsAppended{TaskID: a.TaskID, Checkpoints: make([]pawl.AppendedRef, len(a.Checkpoints))}
	if out.Newest, err = a.lock(ctx, tx, now); err != nil {
		return out, err
	}
	taken, err := a.names(ctx, tx)
	if err != nil {
		return out, err
	}
	p := ownRows{next: out.Newest - int64(len(a.Checkpoints)) + 1}
	first := p.next
	for i := range a.Checkpoints {
		if out.Checkpoints[i], err = a.row(&p, i, taken, addresses[i], now); err != nil {
			return out, err
		}
	}
	if p.kept > 0 {
		out.Newest -= int64(p.kept)
		if _, err := tx.Exec(ctx, texts["give numbers back"], store.TaskID(a.TaskID), p.kept); err != nil {
			return out, err
		}
	}
	if err := store.SaveCheckpoints(ctx, tx, p.rows); err != nil {
		return out, err
	}
	if out.Replaced, err = a.replace(ctx, tx, now, p.replaced, first); err != nil {
		return out, err
	}
	if out.Pruned, _, err = pruneByRules(ctx, tx, now, a.TaskID, a.Prune); err != nil {
		return out, err
	}
	if out.Pruned > 0 {
		p.events = append(p.events, a.event("pruned", map[string]any{"rules": a.Prune, "checkpoints": out.Pruned}))
	}
	if len(p.events) == 0 {
		return out, nil
	}
	return out, store.Record(ctx, tx, now, p.events)
}

// ownRows is what an append writes.
type ownRows struct {
	next     int64    // the number of the next checkpoint
	kept     int      // checkpoints that are not saved
	replaced []string // names whose older checkpoints are removed
	rows     [][]any
	events   []store.Event
}

// row adds the row of checkpoint i, if it is to be saved.
func (a *appending) row(p *ownRows, i int, taken map[string]takenName, address []byte, now int64) (ref pawl.AppendedRef, err error) {
	c := &a.Checkpoints[i]
	if old, there := taken[string(c.Name)]; there && c.OnConflict != "" {
		switch {
		case c.OnConflict == pawl.NameRefuse:
			return ref, &pawl.Error{Code: pawl.CodeConflict, Op: a.Op, Reason: pawl.ReasonName, Kept: []int64{old.seq},
				Message: fmt.Sprintf("the task has a checkpoint %q, number %d", c.Name, old.seq)}
		case c.OnConflict == pawl.NameKeep:
			p.kept++
			return pawl.AppendedRef{CheckpointRef: pawl.CheckpointRef{ID: old.id, Sequence: old.seq}, Kept: true}, nil
		case old.n > pawl.MaxAppendCheckpoints:
			return ref, pawl.Invalid(fmt.Sprintf("/checkpoints/%d/on_conflict", i),
				"the task has %d checkpoints of the name; at most %d are replaced: prune them before", old.n, pawl.MaxAppendCheckpoints)
		}
		p.replaced = append(p.replaced, string(c.Name))
	}
	p.rows = append(p.rows, []any{c.ID, a.Namespace, store.TaskID(a.TaskID), store.ItemID(""), (*int)(nil), p.next, c.Type, c.Name,
		c.ArgsHash, store.Text(""), c.Snapshot.Text, address, store.Text(""), c.Metadata, now})
	if c.Type == pawl.ManualCheckpoint || c.Type == pawl.ApprovalPoint {
		p.events = append(p.events, a.event("checkpointed", map[string]any{"checkpoint_id": c.ID, "type": c.Type, "name": string(c.Name),
			"sequence": p.next}))
	}
	p.next++
	return pawl.AppendedRef{CheckpointRef: pawl.CheckpointRef{ID: c.ID, Sequence: p.next - 1}}, nil
}

// event returns an event of the task. data are plain values.
func (a *appending) event(name string, data map[string]any) store.Event {
	b, _ := json.Marshal(data)
	return store.Event{Namespace: a.Namespace, TaskID: a.TaskID, Event: name, Actor: a.By, Data: store.Text(b)}
}

// keepBlobs stores the blobs of the snapshots, in the order of their addresses: two appends with
// the same blobs wait for each other, and not in a circle.
func (a *appending) keepBlobs(ctx context.Context, tx store.Tx, now int64) (out [][]byte, err error) {
	out = make([][]byte, len(a.Checkpoints))
	var order []int
	for i := range a.Checkpoints {
		if a.Checkpoints[i].Snapshot.Blob != nil {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(x, y int) int {
		return bytes.Compare(a.Checkpoints[x].Snapshot.Blob.Address, a.Checkpoints[y].Snapshot.Blob.Address)
	})
	for _, i := range order {
		s := &a.Checkpoints[i].Snapshot
		if s.Text, out[i], err = store.KeepBlob(ctx, tx, a.Namespace, now, *s.Blob); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// lock locks the counters of the task and takes numbers for all checkpoints. It returns the last of
// them. A task that is not there, that has ended, or whose newest checkpoint is not the expected one
// is refused; the numbers are then rolled back.
func (a *appending) lock(ctx context.Context, tx store.Tx, now int64) (last int64, err error) {
	n := int64(len(a.Checkpoints))
	found, err := store.Row(ctx, tx, []any{&last}, texts["take numbers"], store.TaskID(a.TaskID), a.Namespace, n, now)
	if err != nil {
		return 0, err
	}
	if !found {
		return 0, pawl.NotFound("task", a.TaskID)
	}
	state, err := store.TaskState(ctx, tx, a.Namespace, a.TaskID)
	if err != nil {
		return 0, err
	}
	if err := store.StillOpen(a.Op, state); err != nil {
		return 0, err
	}
	if newest := last - n; a.Expected != nil && *a.Expected != newest {
		return 0, &pawl.Error{Code: pawl.CodeConflict, Op: a.Op, Reason: pawl.ReasonSequence, Expected: &newest,
			Message: fmt.Sprintf("the newest checkpoint of the task has the number %d, not %d", newest, *a.Expected)}
	}
	return last, nil
}

// takenName is the newest checkpoint of a name, and how many have the name.
type takenName struct {
	id     string
	seq, n int64
}

// names reads which of the names of the append are taken, if that matters to it.
func (a *appending) names(ctx context.Context, tx store.Tx) (map[string]takenName, error) {
	var names []string
	for i := range a.Checkpoints {
		if a.Checkpoints[i].OnConflict != "" {
			names = append(names, string(a.Checkpoints[i].Name))
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	out := map[string]takenName{}
	err := store.EachRow(ctx, tx, func(rows store.Rows) error {
		var t takenName
		var name string
		if err := rows.Scan(&t.id, &name, &t.seq, &t.n); err != nil {
			return err
		}
		out[name] = t
		return nil
	}, texts["names taken"], store.TaskID(a.TaskID), store.List(names))
	return out, err
}

// replace removes the checkpoints of the names that are older than the append.
func (a *appending) replace(ctx context.Context, tx store.Tx, now int64, names []string, first int64) (n int, err error) {
	if len(names) == 0 {
		return 0, nil
	}
	err = store.Gated(ctx, tx, "checkpoints", func() error {
		gone, err := tx.Exec(ctx, texts["remove replaced"], store.TaskID(a.TaskID), store.List(names), first)
		n = int(gone)
		return err
	})
	if err == nil {
		_, err = tx.Exec(ctx, texts["count removed"], store.TaskID(a.TaskID), n, now)
	}
	return n, err
}

// nameRange returns the range of the names that begin with a prefix, the first included. The order
// of the databases is that of the bytes, which in UTF-8 is that of the runes.
func nameRange(prefix string) (from, to string) {
	runes := []rune(prefix)
	for len(runes) > 0 {
		last := &runes[len(runes)-1]
		switch {
		case *last == 0xD7FF: // surrogates follow, which no text has
			*last = 0xE000
			return prefix, string(runes)
		case *last < 0x10FFFF:
			*last++
			return prefix, string(runes)
		}
		runes = runes[:len(runes)-1]
	}
	return prefix, strings.Repeat("\U0010FFFF", pawl.MaxStepNameLen/utf8.UTFMax+1)
}
