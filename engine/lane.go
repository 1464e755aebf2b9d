package engine

import (
	"context"
	"errors"
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
// holds one call per item; the next one waits for the next flush. When the
// database refuses a statement all the same, the group is run again in halves, so
// that an error hits only the call that caused it. A group whose outcome is not
// known is never run again, and a panic is an error of its group.
type lane[Row, Ans any] struct {
	item func(*Row) string    // no two rows of a group share it; nil = they are all different
	fits func(a, b *Row) bool // nil = any two rows can be in a group
	size func(*Row) int       // how much of laneRows it takes; nil = 1
	ord  func(*Row) *int      // where a row keeps its place in the call
	of   func(*Ans) *int      // which row an answer is for
	run  func(ctx context.Context, rows []Row) ([]Ans, error)
	// orphan is told what was answered to a caller who gave up during the flush;
	// nil = it stays as it is.
	orphan func(ctx context.Context, rows []Row, out []Ans)
	// panicked is told of a panic, whose group is answered with an error.
	panicked func(ctx context.Context, p panicked)
	// wide = every call has its own flush: the store gathers them.
	wide bool

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
	gone bool // the caller gave up during the flush
}

// do carries rows out, with whatever else is waiting, and answers with what the
// store answered for them. A caller who gives up before his flush is taken out;
// after that he learns that the outcome is unknown.
func (l *lane[Row, Ans]) do(ctx context.Context, rows []Row) ([]Ans, error) {
	t := &ticket[Row, Ans]{rows: rows, done: make(chan struct{})}
	if wholeOf(ctx) != nil { // its transaction is no other call's
		l.flush(ctx, []*ticket[Row, Ans]{t})
		return t.out, t.err
	}
	l.mu.Lock()
	l.waiting = append(l.waiting, t)
	if l.wide || l.flying < laneFlights {
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
	select {
	case <-t.done:
		return t.out, t.err
	default:
	}
	t.gone = true
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
		var gone []*ticket[Row, Ans]
		l.mu.Lock()
		for _, t := range group {
			close(t.done)
			if t.gone && l.orphan != nil && len(t.out) > 0 {
				gone = append(gone, t)
			}
		}
		l.mu.Unlock()
		for _, t := range gone {
			_ = l.shield(ctx, func(ctx context.Context) error { l.orphan(ctx, t.rows, t.out); return nil })
		}
	}
}

// board takes the tickets of the next group off the queue, in order; one whose
// item is in the group already stays for the next.
func (l *lane[Row, Ans]) board() []*ticket[Row, Ans] {
	if len(l.waiting) < 2 {
		alone := l.waiting
		l.waiting = nil
		return alone
	}
	var group, rest []*ticket[Row, Ans]
	seen := map[string]bool{}
	total := 0
	for _, t := range l.waiting {
		n := l.weight(t)
		if total > 0 && (total+n > laneRows || !l.joins(t, group[0], seen)) {
			rest = append(rest, t)
			continue
		}
		if l.item != nil {
			for i := range t.rows {
				seen[l.item(&t.rows[i])] = true
			}
		}
		total += n
		group = append(group, t)
	}
	l.waiting = rest
	return group
}

func (l *lane[Row, Ans]) weight(t *ticket[Row, Ans]) int {
	if l.size == nil {
		return len(t.rows)
	}
	n := 0
	for i := range t.rows {
		n += l.size(&t.rows[i])
	}
	return n
}

// joins says that a ticket can go into the group that begins with first and
// holds the items seen.
func (l *lane[Row, Ans]) joins(t, first *ticket[Row, Ans], seen map[string]bool) bool {
	if l.fits != nil && !l.fits(&t.rows[0], &first.rows[0]) {
		return false
	}
	for i := range t.rows {
		if l.item != nil && seen[l.item(&t.rows[i])] {
			return false
		}
	}
	return true
}

// flush runs a group as one statement and hands out the answers.
func (l *lane[Row, Ans]) flush(ctx context.Context, group []*ticket[Row, Ans]) {
	err := l.shield(ctx, func(ctx context.Context) error { return l.attempt(ctx, group) })
	switch {
	case err == nil:
	case len(group) == 1 || !wroteNothing(err): // what may have been written is not written again
		for _, t := range group {
			t.out, t.err = nil, err
		}
	default:
		l.flush(ctx, group[:len(group)/2])
		l.flush(ctx, group[len(group)/2:])
	}
}

// wroteNothing says that an error proves that nothing was written: the database
// gave it, or we refused the call ourselves.
func wroteNothing(err error) bool {
	var undone store.Undone
	var own *pawl.Error
	switch code := pawl.CodeOf(err); {
	case code == pawl.CodeUnavailable:
		return false
	case errors.As(err, &undone):
		return true
	default:
		return errors.As(err, &own) && own.Err == nil && code != pawl.CodeInternal
	}
}

// shield makes an error of a panic. In a transaction of a whole call it stays the
// caller's panic: see ended.
func (l *lane[Row, Ans]) shield(ctx context.Context, run func(ctx context.Context) error) error {
	err := shielded(ctx, run)
	p := panicked{}
	if wholeOf(ctx) != nil || !errors.As(err, &p) {
		return err
	}
	if l.panicked != nil {
		l.panicked(ctx, p)
	}
	return &pawl.Error{Code: pawl.CodeInternal, Message: "the call panicked; the log has its stack", Err: p}
}

func (l *lane[Row, Ans]) attempt(ctx context.Context, group []*ticket[Row, Ans]) error {
	ctx, cancel := context.WithTimeout(ctx, flushLimit)
	defer cancel()
	if len(group) == 1 { // as it came: its ords are the group's
		t := group[0]
		l.sort(t.rows)
		out, err := l.run(ctx, t.rows)
		t.out = out
		return err
	}
	type seat struct {
		t   *ticket[Row, Ans]
		ord int
	}
	n := 0
	for _, t := range group {
		n += len(t.rows)
	}
	rows, seats := make([]Row, 0, n), make([]seat, 0, n)
	for _, t := range group {
		for i := range t.rows {
			rows, seats = append(rows, t.rows[i]), append(seats, seat{t, *l.ord(&t.rows[i])})
			*l.ord(&rows[len(rows)-1]) = len(rows) - 1
		}
	}
	l.sort(rows)
	answers, err := l.run(ctx, rows)
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

// sort puts rows in the order of their items: the order of locking for all.
func (l *lane[Row, Ans]) sort(rows []Row) {
	if l.item == nil {
		return
	}
	for i := 1; i < len(rows); i++ {
		if l.item(&rows[i]) < l.item(&rows[i-1]) {
			sort.Slice(rows, func(a, b int) bool { return l.item(&rows[a]) < l.item(&rows[b]) })
			return
		}
	}
}
