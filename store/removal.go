package store

import (
	"context"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

// removalsAtOnce bounds the removals that become one record of the log.
const removalsAtOnce = 1000

// logRemoval records in the transaction that removes events of tasks, before it does, which ones
// these are: their numbers. The next page of the log has a leaf for the removals before it.
func logRemoval(ctx context.Context, tx Tx, taskIDs []string, ids []int64) error {
	return putRemoval(ctx, tx, ids, func(t totals, counts func(int64) bool) error { return t.readEvents(ctx, tx, taskIDs, ids, counts) })
}

// putRemoval is logRemoval for events that count counts: see totalsOf.
func putRemoval(ctx context.Context, tx Tx, ids []int64, count func(t totals, counts func(id int64) bool) error) error {
	if len(ids) == 0 {
		return nil
	}
	slices.Sort(ids)
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	counts, err := totalsOf(ctx, tx, ids, count)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, treeSQL["put removal"], Pack(ids), 0, now, counts.text())
	return err
}

// RemoveEvents removes events of tasks, and records in the log which ones.
func RemoveEvents(ctx context.Context, tx Tx, taskIDs []string, ids []int64) error {
	return Gated(ctx, tx, "move", func() error {
		if err := logRemoval(ctx, tx, taskIDs, ids); err != nil {
			return err
		}
		rows := make([][]any, len(ids))
		for i, id := range ids {
			rows[i] = []any{id}
		}
		return tx.ExecEach(ctx, "DELETE FROM pawl.task_events\nWHERE id = $1", rows)
	})
}

// TakeRemovals makes one record of the first removals, or restorations, that are not in the
// log yet. The record gets the next leaf. It returns the record's number, below zero, or
// nothing. Others may wait still. The feed is locked. An older program does not say what its
// removals take away from the totals: then all events are counted anew.
func TakeRemovals(ctx context.Context, tx Tx, s *FeedState) ([]int64, error) {
	waiting, err := removals(ctx, tx, "removals to log", 0, removalsAtOnce)
	if err != nil || len(waiting) == 0 {
		return nil, err
	}
	var ids []int64
	for i, r := range waiting {
		if r.Restored != waiting[0].Restored {
			break
		}
		ids = append(ids, r.IDs...)
		if r.counts == nil {
			s.Counting = nil
		} else if err := r.counts.add(ctx, tx, -1); err != nil {
			return nil, err
		}
		if i == 0 {
			continue
		}
		if _, err := tx.Exec(ctx, treeSQL["forget removal"], r.id); err != nil {
			return nil, err
		}
	}
	slices.Sort(ids)
	_, err = tx.Exec(ctx, treeSQL["log removal"], waiting[0].id, Pack(ids), s.Position)
	return []int64{-waiting[0].id}, err
}

// Removal is a record of events that were removed, or restored.
type Removal struct {
	id       int64
	IDs      []int64
	Restored bool
	Leaf     *int64 // nil = not in the log yet
	created  int64
	counts   totals // what it takes away from the totals, until it has its leaf; nil = not known
}

func (r *Removal) scan(rows Rows) error {
	var packed []byte
	var restored int
	var counts Text
	err := rows.Scan(&r.id, &packed, &restored, &r.Leaf, &r.created, &counts)
	r.IDs, r.Restored = Unpack(packed), restored == 1
	if err == nil {
		r.counts, err = totalsIn(counts)
	}
	return err
}

// Hash returns the leaf of a record.
func (r *Removal) Hash() tlog.Hash {
	kind := leafRemoval
	if r.Restored {
		kind = leafRestored
	}
	b := leafField([]byte{leafVersion}, kind)
	return tlog.RecordHash(leafNumber(leafField(b, spansText(r.IDs)), r.created))
}

func removals(ctx context.Context, tx Tx, query string, args ...any) ([]Removal, error) {
	return All(ctx, tx, treeSQL[query], args, func(rows Rows, r *Removal) error {
		return r.scan(rows)
	})
}

// eachWaiting passes the records that are not in the log yet to fn, in order.
func eachWaiting(ctx context.Context, tx Tx, fn func(r Removal) error) error {
	for after := int64(0); ; {
		some, err := removals(ctx, tx, "removals to log", after, removalsAtOnce)
		for _, r := range some {
			if after = r.id; err == nil {
				err = fn(r)
			}
		}
		if err != nil || len(some) < removalsAtOnce {
			return err
		}
	}
}

func readRemoval(ctx context.Context, tx Tx, id int64) (r Removal, found bool, err error) {
	some, err := removals(ctx, tx, "removal", id)
	if err != nil || len(some) == 0 {
		return r, false, err
	}
	return some[0], true, nil
}

// Runs are the runs of consecutive numbers of a record.
func (r *Removal) Runs() []Span { return runsOf(r.IDs) }

// runsOf returns the runs of consecutive numbers in a sorted list.
func runsOf(ids []int64) (out []Span) {
	for _, id := range ids {
		if last := len(out) - 1; last >= 0 && id <= out[last].High+1 {
			out[last].High = id
		} else {
			out = append(out, Span{id, id})
		}
	}
	return out
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
	waiting, err := removals(ctx, tx, "removals to log", 0, 1)
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

// Expects says whether an event of the given number will get a position.
func (s *FeedState) Expects(id int64) bool {
	return id > s.Top || slices.ContainsFunc(s.Gaps, func(g Span) bool { return g.Low <= id && id <= g.High })
}

// hashed returns the leaves of the events and records of a page, with the digests that are stored
// with the events. Events that were removed
// since their numbers were read are left out: no position and no leaf is theirs. It overwrites
// ids.
func hashed(ctx context.Context, tx Tx, ids []int64, counted *Tally) (there []int64, leaves []tlog.Hash, err error) {
	out, found, err := leavesOf(ctx, tx, ids, nil, counted)
	if err != nil {
		return nil, nil, err
	}
	n := 0
	for i, id := range ids {
		if id < 0 {
			r, known, err := readRemoval(ctx, tx, -id)
			if err != nil {
				return nil, nil, err
			}
			out[i], found[i] = r.Hash(), known
		}
		if found[i] {
			ids[n], out[n] = id, out[i]
			n++
		}
	}
	return ids[:n], out[:n], nil
}
