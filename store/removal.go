package store

import (
	"context"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

// removalsAtOnce bounds the removals that become one record of the log.
const removalsAtOnce = 1000

// logRemoval records in the transaction that removes events which ones these are. The next
// page of the log has a leaf for the removals before it.
func logRemoval(ctx context.Context, tx Tx, ids []int64) error {
	if len(ids) == 0 {
		return nil
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, treeSQL["put removal"], Pack(ids), now)
	return err
}

// TakeRemovals makes one record of the removals that are not in the log yet. The record gets
// the given leaf. It returns the record's number, below zero, or nothing. The feed is locked.
func TakeRemovals(ctx context.Context, tx Tx, leaf int64) ([]int64, error) {
	waiting, err := removals(ctx, tx, "removals to log", removalsAtOnce)
	if err != nil || len(waiting) == 0 {
		return nil, err
	}
	var ids []int64
	for i, r := range waiting {
		ids = append(ids, r.ids...)
		if i == 0 {
			continue
		}
		if _, err := tx.Exec(ctx, treeSQL["forget removal"], r.id); err != nil {
			return nil, err
		}
	}
	slices.Sort(ids)
	_, err = tx.Exec(ctx, treeSQL["log removal"], waiting[0].id, Pack(ids), leaf)
	return []int64{-waiting[0].id}, err
}

type removalRow struct {
	id  int64
	ids []int64
}

func removals(ctx context.Context, tx Tx, query string, args ...any) ([]removalRow, error) {
	rows, err := tx.Query(ctx, treeSQL[query], args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []removalRow
	for rows.Next() {
		var r removalRow
		var packed []byte
		if err := rows.Scan(&r.id, &packed); err != nil {
			return nil, err
		}
		r.ids = Unpack(packed)
		out = append(out, r)
	}
	return out, rows.Err()
}

// removalLeaf returns the leaf of a removal; false when there is none with that number.
func removalLeaf(ctx context.Context, tx Tx, id int64) (tlog.Hash, bool, error) {
	var packed []byte
	var leaf *int64
	var created int64
	found, err := Row(ctx, tx, []any{&packed, &leaf, &created}, treeSQL["removal"], id)
	if err != nil || !found {
		return tlog.Hash{}, false, err
	}
	b := leafField([]byte{leafVersion}, leafRemoval)
	b = leafNumber(leafField(b, spansText(Unpack(packed))), created)
	return tlog.RecordHash(b), true, nil
}

// spansText writes sorted numbers as the canonical form does: evt_3,evt_5-evt_9.
func spansText(ids []int64) string {
	var b strings.Builder
	for i, s := range runsOf(ids) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(eventID(s.Low))
		if s.High > s.Low {
			b.WriteString("-" + eventID(s.High))
		}
	}
	return b.String()
}

// LogLags says whether the log lacks removals, or events where their numbers are in the order
// of commit.
func LogLags(ctx context.Context, tx Tx, inOrder bool) (bool, error) {
	waiting, err := removals(ctx, tx, "removals to log", 1)
	if err != nil || len(waiting) > 0 || !inOrder {
		return len(waiting) > 0, err
	}
	s, err := ReadFeed(ctx, tx)
	if err != nil {
		return false, err
	}
	newest, err := NewestNumber(ctx, tx)
	return newest > s.Top, err
}

// LogRestored adds the events of a restored task to the log that it has passed without them,
// because the task was in its archive then.
func LogRestored(ctx context.Context, tx Tx, taskID string) error {
	s, err := LockFeed(ctx, tx)
	if err != nil {
		return err
	}
	ids, err := passed(ctx, tx, s, taskID)
	if err != nil || len(ids) == 0 {
		return err
	}
	return Position(ctx, tx, &s, ids)
}

// passed lists the events of a task that have no leaf and will not get one.
func passed(ctx context.Context, tx Tx, s FeedState, taskID string) ([]int64, error) {
	ids, err := Ints(ctx, tx, treeSQL["numbers of task"], TaskID(taskID))
	if err != nil {
		return nil, err
	}
	ids = slices.DeleteFunc(ids, s.expects)
	placed, err := LeafIndexes(ctx, tx, ids)
	return slices.DeleteFunc(ids, func(id int64) bool { _, found := placed[id]; return found }), err
}

// expects says whether an event of the given number will get a position.
func (s *FeedState) expects(id int64) bool {
	return id > s.Top || slices.ContainsFunc(s.Gaps, func(g Span) bool { return g.Low <= id && id <= g.High })
}

// logEvents hashes the events of a page and adds their leaves to the log; see appendLeaves.
// A number below zero is that of a removal.
func logEvents(ctx context.Context, tx Tx, size int64, runs int, ids []int64) (int, error) {
	leaves, err := leavesOf(ctx, tx, ids)
	if err != nil {
		return runs, err
	}
	out := make([]tlog.Hash, len(ids))
	for i, id := range ids {
		leaf, there := leaves[id]
		if !there {
			leaf = absentLeaf(id)
		}
		out[i] = leaf
	}
	return appendLeaves(ctx, tx, size, runs, out)
}

// leavesOf is Leaves with removals: numbers below zero.
func leavesOf(ctx context.Context, tx Tx, ids []int64) (map[int64]tlog.Hash, error) {
	out, err := Leaves(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if id > 0 {
			continue
		}
		leaf, there, err := removalLeaf(ctx, tx, -id)
		if err != nil {
			return nil, err
		}
		if there {
			out[id] = leaf
		}
	}
	return out, nil
}
