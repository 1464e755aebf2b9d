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

// flush runs a group as one statement and stores the answers in its requests. Requests
// that must run separately run alone. If the database refuses the group, flush runs its
// halves, and so on.
func (c *Committer[Row, Ans]) flush(ctx context.Context, group []*request[Row, Ans]) {
	left := [][]*request[Row, Ans]{c.withoutSeparate(ctx, group)}
	for len(left) > 0 {
		part := left[0]
		left = left[1:]
		if len(part) == 0 {
			continue
		}
		err := c.attempt(c.groupWait(ctx), part)
		locked := errors.Is(err, store.ErrLocked)
		if locked {
			c.mu.Lock()
			c.locked = clock.Now()
			c.mu.Unlock()
		}
		switch {
		case err == nil:
		case locked && len(part) == 1:
			c.runAlone(ctx, part[0])
		case len(part) == 1 || !locked && !wroteNothing(err): // the statement may have been committed: do not run it again
			for _, req := range part {
				req.out, req.err = nil, err
			}
		default:
			half := len(part) / 2
			left = slices.Insert(left, 0, part[:half], part[half:])
		}
	}
}

// withoutSeparate starts the group's requests that must run alone and returns the others.
func (c *Committer[Row, Ans]) withoutSeparate(ctx context.Context, group []*request[Row, Ans]) []*request[Row, Ans] {
	return slices.DeleteFunc(slices.Clone(group), func(req *request[Row, Ans]) bool {
		c.mu.Lock()
		separate := c.separateOf(req) != nil
		c.mu.Unlock()
		if separate {
			c.runAlone(ctx, req)
		}
		return separate
	})
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

// attempt runs a group as one statement, once.
func (c *Committer[Row, Ans]) attempt(ctx context.Context, group []*request[Row, Ans]) (err error) {
	defer c.recovered(ctx, &err)
	ctx, cancel := context.WithTimeout(ctx, FlushLimit)
	defer cancel()
	if len(group) == 1 { // its rows are numbered already
		req := group[0]
		c.sort(req.rows)
		out, err := c.options.Execute(ctx, req.rows)
		req.out = out
		return err
	}
	type slot struct {
		req *request[Row, Ans]
		ord int
	}
	n := 0
	for _, req := range group {
		n += len(req.rows)
	}
	rows, slots := make([]Row, 0, n), make([]slot, 0, n)
	for _, req := range group {
		for i := range req.rows {
			rows, slots = append(rows, req.rows[i]), append(slots, slot{req, *c.options.Ord(&req.rows[i])})
			*c.options.Ord(&rows[len(rows)-1]) = len(rows) - 1
		}
	}
	c.sort(rows)
	answers, err := c.options.Execute(ctx, rows)
	if err != nil {
		return err
	}
	for _, req := range group {
		req.out = make([]Ans, 0, len(req.rows))
	}
	for _, a := range answers {
		s := slots[*c.options.RowOf(&a)]
		*c.options.RowOf(&a) = s.ord
		s.req.out = append(s.req.out, a)
	}
	return nil
}
