package archives

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// Archived is a row of archives. Body is the archive itself if the table holds it.
type Archived struct {
	pawl.Archive
	Namespace string // of the task; keepArchives stores it, and nothing reads it
	Body      []byte
	// Segment has the archive; nil = the task has one of its own. Parts are then the compressed bytes of the
	// task's frame and of the last one, if the segment is in the table.
	Segment *store.Segment
	Parts   [][]byte
}

// keepArchives stores the rows of archives. They replace the rows of older archives of the same
// tasks.
func keepArchives(ctx context.Context, tx store.Tx, all []Archived) error {
	rows := make([][]any, len(all))
	for i, a := range all {
		rows[i] = []any{store.TaskID(a.TaskID), a.Namespace, store.Text(a.Path), a.Body, a.Bytes, a.SHA256, a.CreatedAt.UnixMicro()}
	}
	return tx.ExecEach(ctx, texts["keep archive"], rows)
}

// archivePaths returns the files of the archives of tasks. An archive in the database has none.
func archivePaths(ctx context.Context, tx store.Tx, taskIDs []string) ([]string, error) {
	return store.Strings(ctx, tx, texts["paths of archives"], store.TaskList(taskIDs))
}

// forgetRestored removes a task that no longer exists from the list that restoredBy reads.
func forgetRestored(ctx context.Context, tx store.Tx, taskID string) error {
	_, err := tx.Exec(ctx, texts["forget restored"], store.TaskID(taskID))
	return err
}

// get reads a task's archive: its own, or the newest of the segments.
func get(ctx context.Context, tx store.Tx, namespace, taskID string) (Archived, error) {
	a := Archived{Namespace: namespace}
	found, err := store.Row(ctx, tx, append(archiveDest(&a.Archive), &a.Body), texts["archive"], store.TaskID(taskID), namespace)
	if err != nil || found && (a.Path != "" || a.Body != nil) {
		return a, err
	}
	in, err := segmentsOf(ctx, tx, namespace, taskID)
	if err != nil || len(in) == 0 {
		return a, cmp.Or(err, error(pawl.NotFound("archive of task", taskID)))
	}
	s, restored := &in[0], a.RestoredAt
	a.Segment, a.Archive = s, s.Archive(taskID)
	a.RestoredAt = restored
	if s.Path == "" {
		a.Parts, err = s.ReadParts(ctx, tx, s.FrameOf(taskID), len(s.Frames)-1)
	}
	return a, err
}

// listed reads up to limit archives of a namespace, newest task first. It starts
// behind the task id before; "" starts at the newest.
func listed(ctx context.Context, tx store.Tx, namespace, before string, limit int) ([]pawl.Archive, error) {
	last := store.TaskID(cmp.Or(before, store.LastTask))
	if _, ok := last.Bytes(); !ok { // NULL would read as the end of the list
		return nil, store.NotACursor()
	}
	var out []pawl.Archive
	err := store.EachRow(ctx, tx, func(rows store.Rows) error {
		var a pawl.Archive
		err := rows.Scan(archiveDest(&a)...)
		out = append(out, a)
		return err
	}, texts["archives before"], namespace, last, limit)
	if err != nil {
		return nil, err
	}
	in, err := archivedBefore(ctx, tx, namespace, last, limit)
	if err != nil {
		return nil, err
	}
	for i, a := range out {
		if s := in[a.TaskID]; s != nil && a.SHA256 == "" {
			out[i] = s.Archive(a.TaskID)
			out[i].RestoredAt = a.RestoredAt
		}
		delete(in, a.TaskID)
	}
	for id, s := range in {
		out = append(out, s.Archive(id))
	}
	slices.SortFunc(out, func(a, b pawl.Archive) int { return cmp.Compare(b.TaskID, a.TaskID) })
	return out[:min(len(out), limit)], nil
}

func archiveDest(a *pawl.Archive) []any {
	return []any{(*store.TaskID)(&a.TaskID), (*store.Text)(&a.Path), &a.Bytes, &a.SHA256, stampDest{&a.CreatedAt}, stampOrNil{&a.RestoredAt}}
}

// stampDest and stampOrNil scan microseconds into times.
type stampDest struct{ t *time.Time }

func (d stampDest) Scan(v any) error {
	n, ok := v.(int64)
	if !ok {
		return fmt.Errorf("a stamp is %T", v)
	}
	*d.t = time.UnixMicro(n).UTC()
	return nil
}

type stampOrNil struct{ t **time.Time }

func (d stampOrNil) Scan(v any) error {
	if v == nil {
		*d.t = nil
		return nil
	}
	*d.t = new(time.Time)
	return stampDest{*d.t}.Scan(v)
}
