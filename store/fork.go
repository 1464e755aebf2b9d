package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
)

var forkSQL = Texts(sqlFiles, "fork.sql")

// Fork is what a fork takes over of a task besides its values: its checkpoints up to a number.
type Fork struct {
	At          int64
	Checkpoints []CheckpointRow // in the order of their numbers; the caller sets their ids and their items
	Uploads     [][]byte        // the addresses of the uploaded blobs that the task refers to
	Staged      int64           // checkpoints that a Copy has written already
	Effects     []EffectRow     // of the task; Refer makes them those of the fork
	rounds      []round         // of the items that were sent back
	blobs       []Blob          // of the snapshots of an archived task
}

// AllCheckpoints is the number at which a fork has all checkpoints that the task has, if any.
// It is negative, so that no caller can ask for it by a number: the check of a fork refuses those.
const AllCheckpoints = -1

// ReadFork reads the checkpoints of a task up to number at; 0 = none. The rows are of one
// statement: a task that is pruned or removed meanwhile has them all, or is refused.
// archived says that tx has the task only for now, so the blobs are read too. More checkpoints than
// most, or than pawl.MaxCallBytes, are ErrTooMany.
func ReadFork(ctx context.Context, tx Tx, namespace, taskID string, at int64, most int, archived bool) (*Fork, error) {
	f, all := &Fork{At: at}, at == AllCheckpoints
	at = upTo(at)
	var w Where
	w.And("c.namespace = ?", namespace)
	w.And("c.task_id = ?", TaskID(taskID))
	w.And("c.seq <= ?", at)
	if err := fewCheckpoints(ctx, tx, taskID, at, most); err != nil {
		return nil, err
	}
	rows, err := ReadCheckpoints(ctx, tx, false, w.Text("", "c.seq ASC", most+1), w.Args...)
	if err != nil {
		return nil, err
	}
	if !archived {
		if err := StillWhole(ctx, tx, namespace, taskID); err != nil {
			return nil, err
		}
	}
	if all {
		if f.At, at = 0, 0; len(rows) > 0 {
			f.At = rows[len(rows)-1].Sequence
		}
	}
	if at > 0 && (len(rows) == 0 || rows[len(rows)-1].Sequence != at) {
		return nil, notLeft(ctx, tx, taskID, at)
	}
	if f.Uploads, err = UploadsOf(ctx, tx, taskID); err != nil {
		return nil, err
	}
	if f.Effects, err = EffectsOf(ctx, tx, taskID); err != nil {
		return nil, err
	}
	if err := f.ReadRounds(ctx, tx, taskID); err != nil {
		return nil, err
	}
	if f.Checkpoints, err = readWords(ctx, tx, rows, map[string]bool{}); err == nil && archived {
		f.blobs, err = blobsOf(ctx, tx, taskID, f.Checkpoints)
	}
	return f, err
}

// ErrTooMany says that a task has more, or larger, checkpoints than the caller of ReadFork wants.
var ErrTooMany error = &pawl.Error{Code: pawl.CodeTooLarge, Op: "copy",
	Message: "the task has too many checkpoints to be copied with others"}

// fewCheckpoints refuses a task with more checkpoints up to a number than most, or too large ones.
func fewCheckpoints(ctx context.Context, tx Tx, taskID string, at int64, most int) error {
	var n, bytes int64
	_, err := Row(ctx, tx, []any{&n, &bytes}, copySQL["size of checkpoints"], TaskID(taskID), at, most+1)
	if err == nil && (n > int64(most) || bytes > pawl.MaxCallBytes) {
		err = ErrTooMany
	}
	return err
}

// UploadsOf returns the addresses of the uploaded blobs that a task refers to.
func UploadsOf(ctx context.Context, tx Tx, taskID string) ([][]byte, error) {
	return column[[]byte](ctx, tx, forkSQL["uploads of task"], []any{TaskID(taskID)})
}

// NewestCheckpoint returns the number of the newest checkpoint of a task up to a number, or the error
// of a fork from a number that the task does not have. 0 = it has none.
func NewestCheckpoint(ctx context.Context, tx Tx, taskID string, at int64) (newest int64, err error) {
	if _, err = Row(ctx, tx, []any{&newest}, forkSQL["newest up to"], TaskID(taskID), upTo(at)); err == nil && at > 0 && newest != at {
		err = notLeft(ctx, tx, taskID, at)
	}
	return newest, err
}

// Pruned returns how many checkpoints of a task were removed.
func Pruned(ctx context.Context, tx Tx, taskID string) (n int64, err error) {
	_, err = Row(ctx, tx, []any{&n}, forkSQL["pruned"], TaskID(taskID))
	return n, err
}

// StillWhole refuses a task of which rows may have been removed already.
func StillWhole(ctx context.Context, tx Tx, namespace, taskID string) error {
	leaving, err := beingDeleted(ctx, tx, taskID)
	if err == nil && leaving {
		err = &pawl.Error{Code: pawl.CodeUnavailable, Op: "fork", Message: "task " + taskID + " is being removed; try again"}
	}
	if err != nil {
		return err
	}
	return TaskExists(ctx, tx, namespace, taskID)
}

// readWords makes plain checkpoints of the steps that refer to a message: a fork does not have
// the message. Of the steps of a message it keeps the newest, which says all that those before
// it say. later has the messages of which a newer step was read before; those that are read now are
// added. A named step of a message has no name in the fork: it has to write that message anew.
func readWords(ctx context.Context, tx Tx, rows []CheckpointRow, later map[string]bool) ([]CheckpointRow, error) {
	for i, c := range slices.Backward(rows) {
		if c.message != "" && !strings.HasPrefix(c.Name, "step:") {
			rows[i].Name = ""
		}
		if c.said == nil {
			continue
		}
		if later[c.message] {
			rows[i].Sequence = 0
			continue
		}
		later[c.message] = true
		if err := ReadSnapshots(ctx, tx, rows[i:i+1]); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(rows, func(c CheckpointRow) bool { return c.Sequence == 0 }), nil
}

// blobsOf reads the blobs of some of a task's checkpoints, in the order in which they are based on each
// other.
func blobsOf(ctx context.Context, tx Tx, taskID string, of []CheckpointRow) ([]Blob, error) {
	needed := map[string]bool{}
	for i := range of {
		needed[string(of[i].blob)] = true
	}
	rows, err := tx.Query(ctx, archiveSQL["rows blobs"], TaskID(taskID))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Blob
	for rows.Next() {
		var b Blob
		var namespace string
		if err := rows.Scan(&namespace, &b.Address, &b.Base, &b.Depth, &b.Chain, &b.Size, &b.Body); err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	for i, b := range slices.Backward(out) { // each after its base
		if needed[string(b.Address)] {
			needed[string(b.Base)] = true
		} else {
			out = slices.Delete(out, i, i+1)
		}
	}
	return out, rows.Err()
}

// notLeft returns the error of a fork from a checkpoint that a task does not have.
func notLeft(ctx context.Context, tx Tx, taskID string, at int64) error {
	var newest, before, after int64
	if _, err := Row(ctx, tx, []any{&newest}, forkSQL["newest number"], TaskID(taskID)); err != nil {
		return err
	}
	if _, err := Row(ctx, tx, []any{&before, &after}, forkSQL["nearest numbers"], TaskID(taskID), at); err != nil {
		return err
	}
	kept, err := Ints(ctx, tx, forkSQL["numbers left"], TaskID(taskID), 100)
	if err != nil {
		return err
	}
	slices.Reverse(kept)
	e := &pawl.Error{Code: pawl.CodeNotFound, Op: "fork", Kept: append([]int64{}, kept...),
		Message: fmt.Sprintf("task %s has no checkpoint %d", taskID, at)}
	if at <= newest {
		e.Code, e.Reason = pawl.CodeConflict, pawl.ReasonPruned
		e.Message = fmt.Sprintf("checkpoint %d of task %s was pruned", at, taskID)
	}
	switch {
	case before > 0 && after > 0:
		e.Message += fmt.Sprintf("; the nearest that are left are %d and %d", before, after)
	case before > 0:
		e.Message += fmt.Sprintf("; the newest is %d", before)
	case after > 0:
		e.Message += fmt.Sprintf("; the oldest that is left is %d", after)
	default:
		e.Message += "; it has none"
	}
	return e
}

// Bytes returns the size of what is stored anew.
func (f *Fork) Bytes() (n int) {
	for i := range f.Checkpoints {
		n += len(f.Checkpoints[i].Snapshot) + len(f.Checkpoints[i].Metadata)
	}
	for i := range f.blobs {
		n += len(f.blobs[i].Body)
	}
	for i := range f.rounds {
		n += len(f.rounds[i].reasons)
	}
	return n
}

// Save stores the checkpoints as those of a task that was inserted in this transaction. They
// have no attempt: none of the task saved them.
func (f *Fork) Save(ctx context.Context, tx Tx, now int64, namespace, taskID string) error {
	for i := range f.Effects {
		r := &f.Effects[i]
		r.EndedAt, r.CreatedAt = &now, now
		if _, err := InsertEffect(ctx, tx, r); err != nil {
			return err
		}
	}
	if f.At == 0 {
		return nil
	}
	for _, b := range f.blobs {
		if err := putBlob(ctx, tx, namespace, now, b); err != nil {
			return err
		}
	}
	if err := saveCopies(ctx, tx, now, namespace, taskID, f.Checkpoints); err != nil {
		return err
	}
	if err := beginRounds(ctx, tx, f.rounds); err != nil {
		return err
	}
	left := int64(len(f.Checkpoints)) + f.Staged
	_, err := tx.Exec(ctx, forkSQL["count copies"], TaskID(taskID), namespace, f.At, f.At-left, now)
	return err
}

func saveCopies(ctx context.Context, tx Tx, now int64, namespace, taskID string, checkpoints []CheckpointRow) error {
	rows := make([][]any, len(checkpoints))
	for i := range checkpoints {
		c := &checkpoints[i]
		text, address, err := c.keep(ctx, tx, namespace, now)
		if err != nil {
			return err
		}
		rows[i] = []any{c.ID, namespace, TaskID(taskID), ItemID(c.ItemID), (*int)(nil), c.Sequence, c.Type, Text(c.Name), Text(c.ArgsHash),
			Text(""), text, address, Text(""), Text(c.Metadata), c.CreatedAt.UnixMicro()}
	}
	return SaveCheckpoints(ctx, tx, rows)
}

// keep returns the snapshot of a copy: its text, or the address of its blob, which stays.
func (c *CheckpointRow) keep(ctx context.Context, tx Tx, namespace string, now int64) (Text, []byte, error) {
	switch {
	case c.blob != nil:
		there, err := useBlob(ctx, tx, namespace, c.blob, now)
		if err == nil && !there {
			err = &pawl.Error{Code: pawl.CodeUnavailable, Op: "fork", Message: "task " + c.TaskID + " was removed meanwhile; try again"}
		}
		return "", c.blob, err
	case len(c.Snapshot) >= pawl.MinBlobBytes:
		return KeepBlob(ctx, tx, namespace, now, NewBlob(c.Snapshot))
	}
	return Text(c.Snapshot), nil, nil
}
