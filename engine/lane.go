package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

const (
	laneFlights = 2                // flushes of one verb under way at once
	laneRows    = 1000             // rows of one statement
	flushLimit  = 30 * time.Second // how long a flush may take: its callers may have gone

	// Of rows that another transaction locks: how long a group waits for each while
	// there were any within lockMemory, and how long a call does that is alone.
	groupLock  = 100 * time.Millisecond
	loneLock   = 3 * time.Second
	lockMemory = 10 * time.Second
)

// lane gathers concurrent calls of one hot verb into one statement: whatever
// waits while a flush is under way goes into the next one. There is no timer, so
// a lone caller pays nothing, and nothing is answered before its commit. A group
// holds one call per item; the next one waits for the next flush. When the
// database refuses a statement all the same, the group is run again in halves, so
// that an error hits only the call that caused it. A call that waits for what
// another transaction locks is carried out by itself, beside the groups, and later
// calls for its item too. A group whose outcome is not known is never run again,
// and a panic is an error of its group.
type lane[Row, Ans any] struct {
	item func(*Row) string    // no two rows of a group share it; nil = they are all different
	fits func(a, b *Row) bool // nil = any two rows can be in a group
	size func(*Row) int       // how much of laneRows it takes; nil = 1
	heft func(*Row) int       // bytes of its values; nil = they are few
	ord  func(*Row) *int      // where a row keeps its place in the call
	of   func(*Ans) *int      // which row an answer is for
	root *Engine              // whose database a group runs on
	run  func(e *Engine, ctx context.Context, rows []Row) ([]Ans, error)
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
	locked  time.Time         // when a group last met a lock
	apart   map[string]*apart // by item
}

// ticket is one caller's rows, their ords 0…n-1.
type ticket[Row, Ans any] struct {
	rows []Row
	out  []Ans
	err  error
	done chan struct{}
	gone bool // the caller gave up during the flush
	lone bool // it is carried out by itself
}

// do carries rows out, with whatever else is waiting, and answers with what the
// store answered for them. A caller who gives up before his flush is taken out;
// after that he learns that the outcome is unknown. In a transaction of e's own
// they are carried out by themselves.
func (l *lane[Row, Ans]) do(ctx context.Context, e *Engine, rows []Row) ([]Ans, error) {
	if e.scope != nil {
		ctx, cancel := context.WithTimeout(ctx, flushLimit)
		defer cancel()
		l.sort(rows)
		return l.run(e, ctx, rows)
	}
	t := &ticket[Row, Ans]{rows: rows, done: make(chan struct{})}
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
		l.answer(ctx, group, false)
	}
}

// answer wakes the callers of those of a group that were carried out by themselves,
// or of those that were not.
func (l *lane[Row, Ans]) answer(ctx context.Context, group []*ticket[Row, Ans], lone bool) {
	var gone []*ticket[Row, Ans]
	l.mu.Lock()
	for _, t := range group {
		if t.lone != lone {
			continue
		}
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

// apart is an item whose calls are carried out by themselves: another transaction
// locks what they need.
type apart struct {
	until time.Time     // later calls join groups again
	done  chan struct{} // closed when the call under way has ended
	err   error         // and how
}

// alone carries a call out by itself, with time to wait for a lock. Of the calls
// for an item one waits; when it waits in vain, so did the others.
func (l *lane[Row, Ans]) alone(ctx context.Context, t *ticket[Row, Ans]) {
	l.mu.Lock()
	t.lone = true
	l.flights.Add(1)
	l.mu.Unlock()
	go func() {
		defer l.flights.Done()
		group := []*ticket[Row, Ans]{t}
		a, err := l.enter(t)
		if err == nil {
			err = l.shield(ctx, func(ctx context.Context) error { return l.attempt(store.WithLockWait(ctx, loneLock), group) })
			l.leave(t, a, err)
		}
		if err != nil {
			t.out, t.err = nil, err
		}
		l.answer(ctx, group, true)
	}()
}

// enter waits until no other call for its items is under way by itself, or has
// waited in vain.
func (l *lane[Row, Ans]) enter(t *ticket[Row, Ans]) (*apart, error) {
	for {
		l.mu.Lock()
		other := l.partOf(t)
		if other == nil || other.done == nil {
			a := &apart{done: make(chan struct{})}
			l.set(t, a)
			l.mu.Unlock()
			return a, nil
		}
		l.mu.Unlock()
		<-other.done
		if errors.Is(other.err, store.ErrLocked) {
			return nil, other.err
		}
	}
}

func (l *lane[Row, Ans]) leave(t *ticket[Row, Ans], a *apart, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.err = err
	close(a.done)
	if err == nil {
		l.set(t, nil)
	} else {
		l.set(t, &apart{until: clock.Now().Add(lockMemory)})
	}
}

// set notes how the items of a call stand. l.mu is held.
func (l *lane[Row, Ans]) set(t *ticket[Row, Ans], a *apart) {
	if l.item == nil {
		return
	}
	if l.apart == nil {
		l.apart = map[string]*apart{}
	}
	maps.DeleteFunc(l.apart, func(_ string, a *apart) bool { return a.done == nil && clock.Now().After(a.until) })
	for i := range t.rows {
		if item := l.item(&t.rows[i]); a == nil {
			delete(l.apart, item)
		} else {
			l.apart[item] = a
		}
	}
}

// partOf is what is known of the items of a call, one under way first; nil: it may
// join a group. l.mu is held.
func (l *lane[Row, Ans]) partOf(t *ticket[Row, Ans]) (found *apart) {
	for i := 0; i < len(t.rows) && len(l.apart) > 0; i++ {
		switch a := l.apart[l.item(&t.rows[i])]; {
		case a == nil:
		case a.done != nil:
			return a
		case clock.Now().Before(a.until):
			found = a
		}
	}
	return found
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
	total, bytes := 0, 0
	for _, t := range l.waiting {
		n, b := l.sum(t, l.size, 1), l.sum(t, l.heft, 0)
		if total > 0 && (total+n > laneRows || bytes+b > pawl.MaxGroupBytes || !l.joins(t, group[0], seen)) {
			rest = append(rest, t)
			continue
		}
		if l.item != nil {
			for i := range t.rows {
				seen[l.item(&t.rows[i])] = true
			}
		}
		total, bytes = total+n, bytes+b
		group = append(group, t)
	}
	l.waiting = rest
	return group
}

// sum adds up what a ticket's rows measure, each the same without a measure.
func (l *lane[Row, Ans]) sum(t *ticket[Row, Ans], of func(*Row) int, each int) int {
	if of == nil {
		return each * len(t.rows)
	}
	n := 0
	for i := range t.rows {
		n += of(&t.rows[i])
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
	group = slices.DeleteFunc(slices.Clone(group), func(t *ticket[Row, Ans]) bool {
		l.mu.Lock()
		stuck := l.partOf(t) != nil
		l.mu.Unlock()
		if stuck {
			l.alone(ctx, t)
		}
		return stuck
	})
	if len(group) > 0 {
		l.try(ctx, group)
	}
}

func (l *lane[Row, Ans]) try(ctx context.Context, group []*ticket[Row, Ans]) {
	err := l.shield(ctx, func(ctx context.Context) error {
		if l.careful() {
			ctx = store.WithLockWait(ctx, groupLock)
		}
		return l.attempt(ctx, group)
	})
	locked := errors.Is(err, store.ErrLocked)
	if locked {
		l.mu.Lock()
		l.locked = clock.Now()
		l.mu.Unlock()
	}
	switch {
	case err == nil:
	case locked && len(group) == 1:
		l.alone(ctx, group[0])
	case len(group) == 1 || !locked && !wroteNothing(err): // what may have been written is not written again
		for _, t := range group {
			t.out, t.err = nil, err
		}
	default:
		l.try(ctx, group[:len(group)/2])
		l.try(ctx, group[len(group)/2:])
	}
}

// careful says that groups met locks lately.
func (l *lane[Row, Ans]) careful() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.locked.IsZero() && clock.Now().Sub(l.locked) < lockMemory
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

// shield makes an error of a panic.
func (l *lane[Row, Ans]) shield(ctx context.Context, run func(ctx context.Context) error) error {
	err := shielded(ctx, run)
	p := panicked{}
	if !errors.As(err, &p) {
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
		out, err := l.run(l.root, ctx, t.rows)
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
	answers, err := l.run(l.root, ctx, rows)
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
