package engine

import (
	"context"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

const (
	laneFlights = 2                // flushes of one verb under way at once
	laneRows    = 1000             // rows of one statement
	flushLimit  = 30 * time.Second // how long a flush may take: its callers may have gone
)

// lane gathers concurrent calls of one hot verb into one statement: whatever
// waits while a flush is under way goes into the next one. There is no timer, so
// a lone caller pays nothing, and nothing is answered before its commit. A group
// holds one call per item; the next one waits for the next flush. When a
// statement raises all the same, the group is run again in halves, so that an
// error hits only the call that caused it.
type lane[Row, Ans any] struct {
	db   store.DB
	item func(*Row) string // no two rows of a group share it
	ord  func(*Row) *int   // where a row keeps its place in the call
	of   func(*Ans) *int   // which row an answer is for
	run  func(ctx context.Context, tx store.Tx, rows []Row) ([]Ans, error)

	mu      sync.Mutex
	waiting []*ticket[Row, Ans]
	flying  int
	flights sync.WaitGroup
}

// ticket is one caller's rows, their ords 0…n-1.
type ticket[Row, Ans any] struct {
	rows []Row
	out  []Ans
	err  error
	done chan struct{}
}

// do carries rows out, with whatever else is waiting, and answers with what the
// store answered for them. A caller who gives up before his flush is taken out;
// after that he learns that the outcome is unknown.
func (l *lane[Row, Ans]) do(ctx context.Context, rows []Row) ([]Ans, error) {
	t := &ticket[Row, Ans]{rows: rows, done: make(chan struct{})}
	l.mu.Lock()
	l.waiting = append(l.waiting, t)
	if l.flying < laneFlights {
		l.flying++
		l.flights.Add(1)
		go l.fly(context.WithoutCancel(ctx))
	}
	l.mu.Unlock()
	select {
	case <-t.done:
		return t.out, t.err
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := slices.Index(l.waiting, t); i >= 0 {
		l.waiting = slices.Delete(l.waiting, i, i+1)
		return nil, ctx.Err()
	}
	return nil, &pawl.Error{Code: pawl.CodeUnavailable, Message: "the outcome is unknown: the call was given up while it was being written", Err: ctx.Err()}
}

// fly flushes until nothing waits.
func (l *lane[Row, Ans]) fly(ctx context.Context) {
	defer l.flights.Done()
	for {
		l.mu.Lock()
		group := l.board()
		if len(group) == 0 {
			l.flying--
			l.mu.Unlock()
			return
		}
		l.mu.Unlock()
		l.flush(ctx, group)
		for _, t := range group {
			close(t.done)
		}
	}
}

// board takes the tickets of the next group off the queue, in order; one whose
// item is in the group already stays for the next.
func (l *lane[Row, Ans]) board() []*ticket[Row, Ans] {
	if len(l.waiting) == 0 {
		return nil
	}
	var group, rest []*ticket[Row, Ans]
	seen := map[string]bool{}
	rows := 0
	for _, t := range l.waiting {
		fits := rows == 0 || rows+len(t.rows) <= laneRows
		for i := range t.rows {
			fits = fits && !seen[l.item(&t.rows[i])]
		}
		if !fits {
			rest = append(rest, t)
			continue
		}
		for i := range t.rows {
			seen[l.item(&t.rows[i])] = true
		}
		rows += len(t.rows)
		group = append(group, t)
	}
	l.waiting = rest
	return group
}

// flush runs a group as one statement and hands out the answers.
func (l *lane[Row, Ans]) flush(ctx context.Context, group []*ticket[Row, Ans]) {
	err := l.attempt(ctx, group)
	switch {
	case err == nil:
	case len(group) == 1 || pawl.CodeOf(err) == pawl.CodeUnavailable: // what may have been written is not written again
		for _, t := range group {
			t.out, t.err = nil, err
		}
	default:
		l.flush(ctx, group[:len(group)/2])
		l.flush(ctx, group[len(group)/2:])
	}
}

func (l *lane[Row, Ans]) attempt(ctx context.Context, group []*ticket[Row, Ans]) error {
	ctx, cancel := context.WithTimeout(ctx, flushLimit)
	defer cancel()
	type seat struct {
		t   *ticket[Row, Ans]
		ord int
	}
	var rows []Row
	var seats []seat
	for _, t := range group {
		for i := range t.rows {
			row := t.rows[i]
			*l.ord(&row) = len(seats)
			rows, seats = append(rows, row), append(seats, seat{t, i})
		}
	}
	sort.Slice(rows, func(a, b int) bool { return l.item(&rows[a]) < l.item(&rows[b]) })
	var answers []Ans
	err := l.db.Auto(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		answers, err = l.run(ctx, tx, rows)
		return err
	})
	if err != nil {
		return err
	}
	for _, t := range group {
		t.out = make([]Ans, 0, len(t.rows))
	}
	for _, a := range answers {
		s := seats[*l.of(&a)]
		*l.of(&a) = s.ord
		s.t.out = append(s.t.out, a)
	}
	return nil
}

// lanes are the engine's: one for each hot verb, heartbeats apart from progress,
// so that neither waits for the other's statement.
type lanes struct {
	create     lane[draft, born]
	heartbeat  lane[store.Touch, store.Touched]
	progress   lane[store.Touch, store.Touched]
	checkpoint lane[store.Checkpoint, store.Checkpointed]
	complete   lane[store.Complete, store.Moved]
	leave      lane[store.Leave, store.Moved]
}

func (l *lanes) open(db store.DB) {
	hot := db.Dialect().Hot
	l.create = lane[draft, born]{db: db,
		item: func(d *draft) string { return d.task.ID }, ord: func(d *draft) *int { return &d.ord }, of: func(b *born) *int { return &b.ord },
		run: func(ctx context.Context, tx store.Tx, rows []draft) ([]born, error) {
			return insertDrafts(ctx, tx, hot, rows)
		}}
	touch := func() lane[store.Touch, store.Touched] {
		return lane[store.Touch, store.Touched]{db: db, run: hot.Touch,
			item: func(r *store.Touch) string { return r.ItemID }, ord: func(r *store.Touch) *int { return &r.Ord }, of: func(a *store.Touched) *int { return &a.Ord }}
	}
	l.heartbeat, l.progress = touch(), touch()
	l.checkpoint = lane[store.Checkpoint, store.Checkpointed]{db: db, run: hot.Checkpoint,
		item: func(r *store.Checkpoint) string { return r.ItemID }, ord: func(r *store.Checkpoint) *int { return &r.Ord }, of: func(a *store.Checkpointed) *int { return &a.Ord }}
	l.complete = lane[store.Complete, store.Moved]{db: db, run: hot.Complete,
		item: func(r *store.Complete) string { return r.ItemID }, ord: func(r *store.Complete) *int { return &r.Ord }, of: func(a *store.Moved) *int { return &a.Ord }}
	l.leave = lane[store.Leave, store.Moved]{db: db, run: hot.Leave,
		item: func(r *store.Leave) string { return r.ItemID }, ord: func(r *store.Leave) *int { return &r.Ord }, of: func(a *store.Moved) *int { return &a.Ord }}
}

// wait is for the flushes under way.
func (l *lanes) wait() {
	for _, w := range []*sync.WaitGroup{&l.create.flights, &l.heartbeat.flights, &l.progress.flights, &l.checkpoint.flights, &l.complete.flights, &l.leave.flights} {
		w.Wait()
	}
}
