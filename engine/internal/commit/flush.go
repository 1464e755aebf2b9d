package commit

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// together starts the group's requests that must run alone. It returns the others as one
// part, or no part if there are none.
func (c *Committer[Row, Ans]) together(group []*request[Row, Ans]) [][]*request[Row, Ans] {
	part := slices.DeleteFunc(slices.Clone(group), func(req *request[Row, Ans]) bool {
		c.mu.Lock()
		separate := c.separateOf(req) != nil
		c.mu.Unlock()
		if separate {
			c.runAlone(req.ctx, req)
		}
		return separate
	})
	if len(part) == 0 {
		return nil
	}
	return [][]*request[Row, Ans]{part}
}

// tried handles the outcome of a part of a group. It returns the parts to run again: the
// halves of a part that the database refused.
func (c *Committer[Row, Ans]) tried(ctx context.Context, part []*request[Row, Ans], err error) (again [][]*request[Row, Ans]) {
	locked := errors.Is(err, store.ErrLocked)
	if locked {
		c.mu.Lock()
		c.locked = clock.Now()
		c.mu.Unlock()
	}
	switch {
	case err == nil:
	case locked && len(part) == 1 && !c.options.LeavesLocked:
		c.runAlone(ctx, part[0])
	case len(part) == 1 || !locked && !wroteNothing(err): // the statement may have been committed: do not run it again
		for _, req := range part {
			req.out, req.err = nil, err
		}
	default:
		half := len(part) / 2
		return [][]*request[Row, Ans]{part[:half], part[half:]}
	}
	return nil
}

// groupWait returns the context of a group. If a group met a lock recently, the context
// limits each wait for a lock to groupLock.
func (c *Committer[Row, Ans]) groupWait(ctx context.Context) context.Context {
	if c.metLocks() {
		return store.WithLockWait(ctx, groupLock)
	}
	return ctx
}

// metLocks reports whether a group met a lock recently.
func (c *Committer[Row, Ans]) metLocks() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.locked.IsZero() && clock.Now().Sub(c.locked) < lockMemory
}

// wroteNothing reports whether an error proves that nothing was written: it comes
// from the database, or Pawl refused the call itself.
func wroteNothing(err error) bool {
	var undone store.Undone
	var own *pawl.Error
	switch code := pawl.CodeOf(err); {
	case errors.Is(err, store.ErrFenced): // a row of one namespace that is being moved
		return true
	case code == pawl.CodeUnavailable:
		return false
	case errors.As(err, &undone):
		return true
	default:
		return errors.As(err, &own) && own.Err == nil && code != pawl.CodeInternal
	}
}

// recovered must be deferred. It turns a panic of a request's calls into their error.
func (c *Committer[Row, Ans]) recovered(ctx context.Context, err *error) {
	v := recover()
	if v == nil {
		return
	}
	p := Panic{v, debug.Stack()}
	if c.options.Panicked != nil {
		c.options.Panicked(ctx, p)
	}
	*err = &pawl.Error{Code: pawl.CodeInternal, Message: "the call panicked; the log has its stack", Err: p}
}

// attempt runs a group as one statement, once, and stores the answers in its requests.
func (c *Committer[Row, Ans]) attempt(ctx context.Context, group []*request[Row, Ans]) (err error) {
	defer c.recovered(ctx, &err)
	ctx, cancel := context.WithTimeout(ctx, FlushLimit)
	defer cancel()
	rows, places := c.merge(group)
	c.sort(rows)
	var answers []Ans
	if c.options.Execute != nil {
		answers, err = c.options.Execute(ctx, rows)
	} else {
		err = c.transaction(c.options.DB, ctx, func(ctx context.Context, tx store.Tx) (err error) {
			answers, err = c.options.Verb(ctx, tx, rows)
			return err
		})
	}
	if err != nil {
		return err
	}
	c.distribute(group, places, answers)
	if c.options.Committed != nil {
		c.options.Committed(len(group))
	}
	return nil
}

// place is where a row of a group came from: its request and its number there.
type place[Row, Ans any] struct {
	req *request[Row, Ans]
	ord int
}

// merge returns the rows of a group, numbered anew, and their places by the new number.
// The rows of a single request keep their numbers and have no places.
func (c *Committer[Row, Ans]) merge(group []*request[Row, Ans]) ([]Row, []place[Row, Ans]) {
	if len(group) == 1 {
		return group[0].rows, nil
	}
	n := 0
	for _, req := range group {
		n += len(req.rows)
	}
	rows, places := make([]Row, 0, n), make([]place[Row, Ans], 0, n)
	for _, req := range group {
		for i := range req.rows {
			rows, places = append(rows, req.rows[i]), append(places, place[Row, Ans]{req, *c.options.Ord(&req.rows[i])})
			*c.options.Ord(&rows[len(rows)-1]) = len(rows) - 1
		}
	}
	return rows, places
}

// distribute stores the answers to merged rows in the requests of the group.
func (c *Committer[Row, Ans]) distribute(group []*request[Row, Ans], places []place[Row, Ans], answers []Ans) {
	if len(group) == 1 {
		group[0].out = answers
		return
	}
	for _, req := range group {
		req.out = make([]Ans, 0, len(req.rows))
	}
	for _, a := range answers {
		p := places[*c.options.RowOf(&a)]
		*c.options.RowOf(&a) = p.ord
		p.req.out = append(p.req.out, a)
	}
}
