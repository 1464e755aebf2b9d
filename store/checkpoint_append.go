package store

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/pawl-work/pawl"
)

var checkpointSQL = Texts(sqlFiles, "checkpoint.sql")

// OwnCheckpoint is a checkpoint that an append saves for a task itself.
type OwnCheckpoint struct {
	SavedCheckpoint
	OnConflict string
}

// OwnAppend is an append of checkpoints to a task.
type OwnAppend struct {
	Op                string // of the call, for errors
	Namespace, TaskID string
	By                Actor
	Expected          *int64
	Checkpoints       []OwnCheckpoint
	Prune             []pawl.PruneRule
}

// Append carries out an append. All appends to a task, and all other changes of its checkpoints,
// take turns at the row of its counters, which is locked before the names are read. Blobs are
// stored before that, as those of single checkpoints are.
func (a *OwnAppend) Append(ctx context.Context, tx Tx, now int64) (out pawl.CheckpointsAppended, err error) {
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
		if _, err := tx.Exec(ctx, checkpointSQL["give numbers back"], TaskID(a.TaskID), p.kept); err != nil {
			return out, err
		}
	}
	if err := tx.ExecEach(ctx, addItemsSQL["save checkpoint"], p.rows); err != nil {
		return out, err
	}
	if out.Replaced, err = a.replace(ctx, tx, now, p.replaced, first); err != nil {
		return out, err
	}
	if out.Pruned, _, err = PruneByRules(ctx, tx, now, a.TaskID, a.Prune); err != nil {
		return out, err
	}
	if out.Pruned > 0 {
		p.events = append(p.events, a.event("pruned", map[string]any{"rules": a.Prune, "checkpoints": out.Pruned}))
	}
	if len(p.events) == 0 {
		return out, nil
	}
	return out, Record(ctx, tx, now, p.events)
}

// ownRows is what an append writes.
type ownRows struct {
	next     int64    // the number of the next checkpoint
	kept     int      // checkpoints that are not saved
	replaced []string // names whose older checkpoints are removed
	rows     [][]any
	events   []Event
}

// row adds the row of checkpoint i, if it is to be saved.
func (a *OwnAppend) row(p *ownRows, i int, taken map[string]takenName, address []byte, now int64) (ref pawl.AppendedRef, err error) {
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
	p.rows = append(p.rows, []any{c.ID, a.Namespace, TaskID(a.TaskID), ItemID(""), (*int)(nil), p.next, c.Type, c.Name, c.ArgsHash, Text(""),
		c.Snapshot.Text, address, Text(""), c.Metadata, now})
	if c.Type == pawl.ManualCheckpoint || c.Type == pawl.ApprovalPoint {
		p.events = append(p.events, a.event("checkpointed", map[string]any{"checkpoint_id": c.ID, "type": c.Type, "name": string(c.Name),
			"sequence": p.next}))
	}
	p.next++
	return pawl.AppendedRef{CheckpointRef: pawl.CheckpointRef{ID: c.ID, Sequence: p.next - 1}}, nil
}

// event returns an event of the task. data are plain values.
func (a *OwnAppend) event(name string, data map[string]any) Event {
	b, _ := json.Marshal(data)
	return Event{Namespace: a.Namespace, TaskID: a.TaskID, Event: name, Actor: a.By, Data: Text(b)}
}

// keepBlobs stores the blobs of the snapshots, in the order of their addresses: two appends with
// the same blobs wait for each other, and not in a circle.
func (a *OwnAppend) keepBlobs(ctx context.Context, tx Tx, now int64) (out [][]byte, err error) {
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
		if s.Text, out[i], err = KeepBlob(ctx, tx, a.Namespace, now, *s.Blob); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// lock locks the counters of the task and takes numbers for all checkpoints. It returns the last of
// them. A task that is not there, that has ended, or whose newest checkpoint is not the expected one
// is refused; the numbers are then rolled back.
func (a *OwnAppend) lock(ctx context.Context, tx Tx, now int64) (last int64, err error) {
	n := int64(len(a.Checkpoints))
	found, err := Row(ctx, tx, []any{&last}, checkpointSQL["take numbers"], TaskID(a.TaskID), a.Namespace, n, now)
	if err != nil {
		return 0, err
	}
	if !found {
		return 0, pawl.NotFound("task", a.TaskID)
	}
	state, err := TaskState(ctx, tx, a.Namespace, a.TaskID)
	if err != nil {
		return 0, err
	}
	if err := StillOpen(a.Op, state); err != nil {
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
func (a *OwnAppend) names(ctx context.Context, tx Tx) (map[string]takenName, error) {
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
	err := EachRow(ctx, tx, func(rows Rows) error {
		var t takenName
		var name string
		if err := rows.Scan(&t.id, &name, &t.seq, &t.n); err != nil {
			return err
		}
		out[name] = t
		return nil
	}, checkpointSQL["names taken"], TaskID(a.TaskID), List(names))
	return out, err
}

// replace removes the checkpoints of the names that are older than the append.
func (a *OwnAppend) replace(ctx context.Context, tx Tx, now int64, names []string, first int64) (n int, err error) {
	if len(names) == 0 {
		return 0, nil
	}
	err = gated(ctx, tx, "checkpoints", func() error {
		gone, err := tx.Exec(ctx, checkpointSQL["remove replaced"], TaskID(a.TaskID), List(names), first)
		n = int(gone)
		return err
	})
	if err == nil {
		_, err = tx.Exec(ctx, checkpointSQL["count removed"], TaskID(a.TaskID), n, now)
	}
	return n, err
}

// PruneOnly carries out the rules alone, on a task in any state.
func (a *OwnAppend) PruneOnly(ctx context.Context, tx Tx, now int64) (out pawl.CheckpointsPruned, err error) {
	kept, err := TaskIDs(ctx, tx, checkpointSQL["kept task"], TaskID(a.TaskID), a.Namespace)
	if err != nil {
		return out, err
	}
	if len(kept) == 0 {
		return out, pawl.NotFound("task", a.TaskID)
	}
	var newest int64
	if found, err := Row(ctx, tx, []any{&newest}, sweepSQL["hold counters"], TaskID(a.TaskID)); err != nil || !found {
		return out, err
	}
	if out.Pruned, out.More, err = PruneByRules(ctx, tx, now, a.TaskID, a.Prune); err != nil || out.Pruned == 0 {
		return out, err
	}
	data := map[string]any{"rules": a.Prune, "checkpoints": out.Pruned}
	return out, Record(ctx, tx, now, []Event{a.event("pruned", data)})
}

// PruneByRules removes checkpoints that a locked task itself has and that the rules do not keep, at
// most pawl.MaxPrunedCheckpoints. more says that there may be others.
func PruneByRules(ctx context.Context, tx Tx, now int64, taskID string, rules []pawl.PruneRule) (n int, more bool, err error) {
	var ids []string
	for _, r := range rules {
		left := pawl.MaxPrunedCheckpoints - len(ids)
		if left <= 0 {
			more = true
			break
		}
		from, to := nameRange(r.Prefix)
		// One more shows that there are others. Another one may be the newest of the task, which stays.
		found, err := Strings(ctx, tx, checkpointSQL["beyond rule"], TaskID(taskID), from, to, r.Keep, left+2)
		if err != nil {
			return 0, false, err
		}
		if len(found) > left {
			found, more = found[:left], true
		}
		ids = append(ids, found...)
	}
	if len(ids) == 0 {
		return 0, more, nil
	}
	slices.Sort(ids) // rules may overlap
	ids = slices.Compact(ids)
	err = gated(ctx, tx, "checkpoints", func() error {
		_, err := tx.Exec(ctx, sweepSQL["prune checkpoints"], List(ids))
		return err
	})
	if err == nil {
		_, err = tx.Exec(ctx, checkpointSQL["count removed"], TaskID(taskID), len(ids), now)
	}
	return len(ids), more, err
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

// StillOpen refuses a call about a task that has ended.
func StillOpen(op, state string) error {
	s := pawl.TaskState(state)
	if !s.Ended() {
		return nil
	}
	return &pawl.Error{Code: pawl.CodeConflict, Op: op, State: state, Allowed: s.Allowed(),
		Message: fmt.Sprintf("the state is %s, which does not allow %s", state, op)}
}
