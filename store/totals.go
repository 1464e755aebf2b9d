package store

import (
	"context"
	"encoding/json"
	"slices"
)

var totalsSQL = Texts(sqlFiles, "totals.sql")

// Counting says which of the events with positions the totals count: not those with numbers above
// Done and up to Until. These had positions before there were totals.
type Counting struct {
	Done  int64 `json:"done"`
	Until int64 `json:"until"`
}

// counts reports whether the totals count an event that has a position.
func (c *Counting) counts(id int64) bool { return c != nil && (id <= c.Done || id > c.Until) }

// Complete reports whether the totals count all events with positions.
func (c *Counting) Complete() bool { return c != nil && c.Done >= c.Until }

// total names the number of events of a kind, by the number of the queue or, if the event does not
// say it, by the namespace and type.
type total struct {
	queue int64
	QueueName
	move int
}

// Move returns what the code of the events stands for, as far as this program knows it.
func (t total) Move() (m MoveCode, known bool) { return moveOf(t.move) }

// totals are numbers of events.
type totals map[total]int64

// count counts an event.
func (t totals) count(r *leafRow) {
	if r.queue != 0 {
		t[total{queue: r.queue, move: r.move}]++
	} else {
		t[total{QueueName: QueueName{string(r.texts[0]), string(r.kind)}, move: r.move}]++
	}
}

// named returns the totals without numbers of queues, in order.
func (t totals) named(ctx context.Context, tx Tx) ([]total, totals, error) {
	out := make(totals, len(t))
	for k, n := range t {
		if k.queue != 0 {
			name, err := QueueNamed(ctx, tx, k.queue)
			if err != nil {
				return nil, nil, err
			}
			k.queue, k.QueueName = 0, name
		}
		out[k] += n
	}
	keys := make([]total, 0, len(out))
	for k := range out {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b total) int {
		if c := a.Compare(b.QueueName); c != 0 {
			return c
		}
		return a.move - b.move
	})
	return keys, out, nil
}

// add adds the numbers, times sign, to those in the database. The feed is locked.
func (t totals) add(ctx context.Context, tx Tx, sign int64) error {
	keys, named, err := t.named(ctx, tx)
	if err != nil || len(keys) == 0 {
		return err
	}
	args := make([][]any, len(keys))
	for i, k := range keys {
		args[i] = []any{k.Namespace, k.Type, k.move, sign * named[k]}
	}
	return tx.ExecEach(ctx, totalsSQL["add"], args)
}

// countedMove is a number of events as JSON.
type countedMove struct {
	Namespace string `json:"namespace"`
	Type      string `json:"type,omitempty"`
	Move      int    `json:"move"`
	Events    int64  `json:"events"`
}

// text writes the totals, which have no numbers of queues, as JSON.
func (t totals) text() Text {
	list := make([]countedMove, 0, len(t))
	for k, n := range t {
		list = append(list, countedMove{k.Namespace, k.Type, k.move, n})
	}
	text, _ := json.Marshal(list) // texts and numbers alone
	return Text(text)
}

// totalsIn reads what text wrote; of nothing it returns nil.
func totalsIn(text Text) (totals, error) {
	if text == "" {
		return nil, nil
	}
	var list []countedMove
	err := json.Unmarshal([]byte(text), &list)
	out := totals{}
	for _, c := range list {
		out[total{QueueName: QueueName{c.Namespace, c.Type}, move: c.Move}] += c.Events
	}
	return out, err
}

// read adds what a statement reads: namespace, type, move and number.
func (t totals) read(ctx context.Context, tx Tx, sign int64, query string, args ...any) error {
	return EachRow(ctx, tx, func(rows Rows) error {
		var k total
		var n int64
		if err := rows.Scan(&k.Namespace, &k.Type, &k.move, &n); err != nil {
			return err
		}
		t[k] += sign * n
		return nil
	}, totalsSQL[query], args...)
}

// readEvents counts the events of tasks that are among ids, and that counts says.
func (t totals) readEvents(ctx context.Context, tx Tx, taskIDs []string, ids []int64, counts func(int64) bool) error {
	if len(ids) == 0 {
		return nil
	}
	wanted := make(map[int64]bool, len(ids))
	for _, id := range ids {
		wanted[id] = counts(id)
	}
	// With a range of numbers, the planner may walk over the events of all tasks in it. A single task may be large.
	query, args := "events of tasks", []any{TaskList(taskIDs)}
	if len(taskIDs) == 1 {
		query, args = "events of task", []any{TaskID(taskIDs[0]), slices.Min(ids), slices.Max(ids)}
	}
	return EachRow(ctx, tx, func(rows Rows) error {
		var id int64
		var k total
		if err := rows.Scan(&id, &k.queue, &k.Namespace, &k.Type, &k.move); err != nil || !wanted[id] {
			return err
		}
		if k.queue != 0 {
			k.QueueName = QueueName{}
		}
		t[k]++
		return nil
	}, totalsSQL[query], args...)
}

// LockFeedToCount is LockFeed that also begins to count events, if nothing does: then the state has to
// be written.
func LockFeedToCount(ctx context.Context, tx Tx) (FeedState, error) {
	s, err := LockFeed(ctx, tx)
	if err != nil || s.Counting != nil {
		return s, err
	}
	for _, step := range []string{"forget", "forget removals"} { // an older program has assigned positions since
		if _, err := tx.Exec(ctx, totalsSQL[step]); err != nil {
			return s, err
		}
	}
	s.Counting = &Counting{Until: s.Top}
	return s, nil
}

// countedAtOnce is how many numbers of events CountOld looks at.
const countedAtOnce = 100_000

// CountOld adds some of the events to the totals that had positions before there were totals. more
// reports whether there may be others.
func CountOld(ctx context.Context, tx Tx) (more bool, err error) {
	s, err := LockFeedToCount(ctx, tx)
	if err != nil {
		return false, err
	}
	next := Counting{min(s.Counting.Done+countedAtOnce, s.Counting.Until), s.Counting.Until}
	counted := totals{}
	if err := s.countSpan(ctx, tx, counted, Span{s.Counting.Done + 1, next.Done}); err != nil {
		return false, err
	}
	if err := counted.add(ctx, tx, 1); err != nil {
		return false, err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return false, err
	}
	s.Counting = &next
	return !next.Complete(), moveFeed(ctx, tx, now, s)
}

// countSpan counts the events of a span that have positions, if their numbers are up to Top.
func (s *FeedState) countSpan(ctx context.Context, tx Tx, to totals, span Span) error {
	if err := to.read(ctx, tx, 1, "count", span.Low, span.High); err != nil {
		return err
	}
	for _, g := range s.Gaps {
		if low, high := max(g.Low, span.Low), min(g.High, span.High); low <= high {
			if err := to.read(ctx, tx, -1, "count", low, high); err != nil {
				return err
			}
		}
	}
	return nil
}

// totalsOf counts the events that the transaction is about to remove, as far as the totals count them: count is given
// the question whether they do.
func totalsOf(ctx context.Context, tx Tx, ids []int64, count func(t totals, counts func(id int64) bool) error) (totals, error) {
	s, err := ReadFeed(ctx, tx)
	if err != nil {
		return nil, err
	}
	if !s.Counting.Complete() || slices.ContainsFunc(ids, s.Expects) { // the feed may be counting them now
		if s, err = LockFeed(ctx, tx); err != nil {
			return nil, err
		}
	}
	out := totals{}
	if err := count(out, func(id int64) bool { return !s.Expects(id) && s.Counting.counts(id) }); err != nil {
		return nil, err
	}
	_, named, err := out.named(ctx, tx)
	return named, err
}

// countRestored adds events that were restored, and that have positions, to the totals. The feed is
// locked.
func (s *FeedState) countRestored(ctx context.Context, tx Tx, taskID string, ids []int64) error {
	stayed, err := Ints(ctx, tx, totalsSQL["tombstones of task"], TaskID(taskID))
	if err != nil {
		return err
	}
	out := totals{}
	err = out.readEvents(ctx, tx, []string{taskID}, ids, func(id int64) bool { return s.Counting.counts(id) && !slices.Contains(stayed, id) })
	if err != nil {
		return err
	}
	return out.add(ctx, tx, 1)
}

const (
	// maxUncounted bounds the events without a position that are counted beside the totals.
	maxUncounted = 20_000
	// maxDelay is how long ago the feed moved, at most, if more events wait than that.
	maxDelay = 10_000_000 // µs
)

// ReadTotals returns the numbers of events of a namespace, or of all namespaces if it is "". The
// transaction reads one snapshot. They are exact, or those of the newest position if the feed
// is working and more than maxUncounted events behind. known is false when nothing has counted the
// events: no engine has run.
func ReadTotals(ctx context.Context, tx Tx, namespace string) (out totals, known, exact bool, err error) {
	s, err := ReadFeed(ctx, tx)
	if err != nil || !s.Counting.Complete() {
		return nil, false, false, err
	}
	newest, err := NewestNumber(ctx, tx)
	if err != nil {
		return nil, false, false, err
	}
	spans := append(slices.Clip(s.Gaps), Span{s.Top + 1, newest})
	many, err := moreThan(ctx, tx, spans, maxUncounted)
	if err != nil {
		return nil, false, false, err
	}
	out = totals{}
	if err := out.read(ctx, tx, 1, "totals", namespace); err != nil {
		return nil, false, false, err
	}
	unknown := false
	err = eachWaiting(ctx, tx, func(r Removal) error {
		unknown = unknown || r.counts == nil
		for k, n := range r.counts {
			out[k] -= n
		}
		return nil
	})
	if err != nil || unknown {
		return nil, false, false, err
	}
	if many {
		now, err := tx.Now(ctx)
		return out, err == nil && now-s.MovedAt < maxDelay, false, err
	}
	for _, g := range spans {
		if g.Low > g.High {
			continue
		}
		if err := out.read(ctx, tx, 1, "count", g.Low, g.High); err != nil {
			return nil, false, false, err
		}
	}
	return out, true, true, nil
}

// moreThan reports whether spans have more events than most. Most numbers of a gap may belong to no
// event: those that a transaction drew which failed.
func moreThan(ctx context.Context, tx Tx, spans []Span, most int64) (bool, error) {
	numbers := int64(0)
	for _, g := range spans {
		numbers += max(0, g.High-g.Low+1)
	}
	if numbers <= most {
		return false, nil
	}
	events := int64(0)
	for _, g := range spans {
		found, err := Numbers(ctx, tx, g.Low-1, g.High, int(most-events)+1)
		if err != nil {
			return false, err
		}
		if events += int64(len(found)); events > most {
			return true, nil
		}
	}
	return false, nil
}
