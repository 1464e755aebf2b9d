package store

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawl-work/pawl/internal/clock"
)

// A page of a list ends early when it has looked at searchRows rows at least, for longer than
// searchTime. It then has a cursor, and says that it is incomplete.
const (
	searchRows = 4000
	searchTime = 40 * time.Millisecond
)

// readEffort is how many rows of an index are looked at in the time in which one row of a list
// is read.
const readEffort = 4

// largestStep is how many rows one step of a search looks for at most.
const largestStep = 2000

// firstWindow is how many rows the first step of a walk looks at; each next one twice as many,
// and at most largestWindow, so that no statement takes long.
const (
	firstWindow   = 2000
	largestWindow = 16_000
)

// effort is what a page has cost so far.
type effort struct {
	rows  int
	began time.Time
}

// isSpent reports whether a page has looked at enough rows, of which rows are new.
func (e *effort) isSpent(rows int) bool {
	e.rows += rows
	return e.rows >= searchRows && clock.Now().Sub(e.began) >= searchTime
}

// search reads rows until the page is full, nothing is left, or it has cost enough. next returns
// the keys of about size rows behind a key that meet the conditions of own, the last key that it
// looked at, and whether nothing is left.
func (l *listing[T]) search(ctx context.Context, tx Tx,
	next func(at string, size int) (keys []string, last string, done bool, err error)) (out []T, err error) {
	at := l.cursor
	l.effort.began = clock.Now()
	for size := l.limit + 1; ; size = min(4*size, max(largestStep, l.limit+1)) {
		keys, last, done, err := next(at, size)
		if err != nil {
			return out, err
		}
		rows, err := l.wanted(ctx, tx, keys)
		if out = append(out, rows...); err != nil || done || len(out) > l.limit {
			return out, err
		}
		if at = last; !l.whole && l.effort.isSpent(readEffort*len(keys)+size) {
			l.stopped = last
			return out, nil
		}
	}
}

// walked is a step along the table in the order of ids. Without an index that decides the
// conditions, it looks at a window of rows.
func (l *listing[T]) walked(ctx context.Context, tx Tx, at string, size int) (keys []string, last string, done bool, err error) {
	w, rows := l.own.with("TRUE"), Where{conds: l.own.conds[:1], Args: l.own.Args[:1]} // the first condition is the namespace
	if err := l.after(&w, at); err != nil {
		return nil, "", true, err
	}
	if !l.indexed && len(l.own.conds) > 1 {
		rows = rows.with("TRUE")
		if err := l.after(&rows, at); err != nil {
			return nil, "", true, err
		}
		window := min(max(firstWindow, l.effort.rows), largestWindow)
		rows.Args = append(rows.Args, window)
		bound, err := l.noun.ids(ctx, tx, "SELECT "+l.key+" FROM pawl."+l.table+"\nWHERE "+strings.Join(rows.conds, " AND ")+
			"\nORDER BY "+l.order+"\nLIMIT 1 OFFSET "+placeholder(len(rows.Args)), rows.Args...)
		if err != nil {
			return nil, "", true, err
		}
		if len(bound) == 1 {
			last = bound[0]
			w.And(l.id()+map[bool]string{false: " <= ?", true: " >= ?"}[l.desc], l.noun.id(last))
			l.effort.rows += window
		}
	}
	keys, err = l.find(ctx, tx, w, size)
	if len(keys) == size {
		last = keys[size-1]
	}
	return keys, last, last == "", err
}

func placeholder(n int) string { return "$" + strconv.Itoa(n) }

// merged returns the next ids of an ordered set of candidates behind a cursor, in the list's
// order.
func (l *listing[T]) merged(ctx context.Context, tx Tx, namespace, cursor string, size int) ([]string, error) {
	set := l.sets[slices.IndexFunc(l.sets, func(c candidates) bool { return c.ordered })]
	args := append([]any{namespace, size}, set.args...)
	cmp, dir := "<", " DESC"
	if !l.desc {
		cmp, dir = ">", " ASC"
	}
	var texts []string
	var ids []string
	for _, s := range set.sources {
		if s.table == "ready" && s.column == itemColumn {
			some, err := l.ofReady(ctx, tx, namespace, cursor, size, s.cond, set.args)
			if err != nil {
				return nil, err
			}
			ids = append(ids, some...)
			continue
		}
		text := s.text()
		if cursor != "" {
			text += " AND " + s.column + " " + cmp + " " + placeholder(len(args)+1)
		}
		texts = append(texts, "SELECT y.id FROM ("+text+" ORDER BY "+s.column+dir+" LIMIT $2) y")
	}
	if cursor != "" {
		args = append(args, l.noun.id(cursor))
	}
	if len(texts) > 0 {
		some, err := l.noun.column(ctx, tx, "SELECT DISTINCT x.id FROM ("+strings.Join(texts, " UNION ALL ")+") x\nORDER BY x.id"+dir+
			"\nLIMIT $2", args...)
		if err != nil {
			return nil, err
		}
		ids = append(ids, some...)
	}
	slices.Sort(ids)
	ids = l.behind(slices.Compact(ids), "")
	return ids[:min(len(ids), size)], nil
}

// readyQueues is how many queues of ready one statement reads.
const readyQueues = 16

// ofReady is merged for the table ready, whose rows are in the order of ids within each type and
// rank.
func (l *listing[T]) ofReady(ctx context.Context, tx Tx, namespace, cursor string, size int, cond string,
	more []any) (ids []string, err error) {
	queues, err := Queues(ctx, tx, namespace, true)
	if err != nil {
		return nil, err
	}
	if l.queue != nil {
		queues = slices.DeleteFunc(queues, func(q Queue) bool { return !l.queue(q.Type) })
	}
	cmp, dir := "<", " DESC"
	if !l.desc {
		cmp, dir = ">", " ASC"
	}
	for some := range slices.Chunk(queues, readyQueues) {
		args, behind := append([]any{namespace, size}, more...), cond
		if cursor != "" {
			args = append(args, l.noun.id(cursor))
			behind += " AND r.item_id " + cmp + " " + placeholder(len(args))
		}
		texts := make([]string, readyQueues)
		for i := range texts {
			var q Queue // of no row
			if i < len(some) {
				q = some[i]
			}
			args = append(args, q.Type, q.Rank)
			texts[i] = "SELECT y.id FROM (SELECT r.item_id AS id FROM pawl.ready r WHERE r.queue_id = " +
				"(SELECT q.id FROM pawl.queues q WHERE q.namespace = $1 AND q.type = " +
				placeholder(len(args)-1) + ") AND r.rank = " + placeholder(len(args)) + behind + " ORDER BY r.item_id" + dir + " LIMIT $2) y"
		}
		text := "SELECT x.id FROM (" + strings.Join(texts, " UNION ALL ") + ") x\nORDER BY x.id" + dir + "\nLIMIT $2"
		found, err := l.noun.column(ctx, tx, text, args...)
		if err != nil {
			return nil, err
		}
		ids = append(ids, found...)
	}
	return ids, nil
}
