package commit

import (
	"context"
	"errors"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// flush runs a group as one statement and stores the answers in its requests.
func (c *Committer[Row, Ans]) flush(ctx context.Context, group []*request[Row, Ans]) {
	group = slices.DeleteFunc(slices.Clone(group), func(req *request[Row, Ans]) bool {
		c.mu.Lock()
		separate := c.separateOf(req) != nil
		c.mu.Unlock()
		if separate {
			c.runAlone(ctx, req)
		}
		return separate
	})
	if len(group) > 0 {
		c.try(ctx, group)
	}
}

func (c *Committer[Row, Ans]) try(ctx context.Context, group []*request[Row, Ans]) {
	err := c.shield(ctx, func(ctx context.Context) error {
		if c.metLocks() {
			ctx = store.WithLockWait(ctx, groupLock)
		}
		return c.attempt(ctx, group)
	})
	locked := errors.Is(err, store.ErrLocked)
	if locked {
		c.mu.Lock()
		c.locked = clock.Now()
		c.mu.Unlock()
	}
	switch {
	case err == nil:
	case locked && len(group) == 1:
		c.runAlone(ctx, group[0])
	case len(group) == 1 || !locked && !wroteNothing(err): // the statement may have been committed: do not run it again
		for _, req := range group {
			req.out, req.err = nil, err
		}
	default:
		c.try(ctx, group[:len(group)/2])
		c.try(ctx, group[len(group)/2:])
	}
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

// shield turns a panic into an error.
func (c *Committer[Row, Ans]) shield(ctx context.Context, run func(ctx context.Context) error) error {
	err := Shield(ctx, run)
	p := Panic{}
	if !errors.As(err, &p) {
		return err
	}
	if c.options.Panicked != nil {
		c.options.Panicked(ctx, p)
	}
	return &pawl.Error{Code: pawl.CodeInternal, Message: "the call panicked; the log has its stack", Err: p}
}

func (c *Committer[Row, Ans]) attempt(ctx context.Context, group []*request[Row, Ans]) error {
	ctx, cancel := context.WithTimeout(ctx, FlushLimit)
	defer cancel()
	if len(group) == 1 { // its numbering is the group's already
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
