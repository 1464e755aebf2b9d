package sweep

import (
	"context"
	"time"

	"github.com/pawl-work/pawl/store"
)

// copies removes the rows of copies of tasks whose process has died.
func (p *pass) copies(ctx context.Context) error {
	var found []string
	err := p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) (err error) {
		found, err = store.GivenUpCopies(ctx, tx, now, batch)
		return err
	})
	for i := 0; err == nil && i < len(found); i++ {
		err = p.RemoveCopy(ctx, found[i])
	}
	return p.logError(ctx, "copies", err)
}

// RemoveCopy removes the rows of a copy that is not made any more, in bounded transactions.
func (s *Sweeper) RemoveCopy(ctx context.Context, taskID string) error {
	for done := false; !done; {
		err := s.do(ctx, func(ctx context.Context, tx store.Tx, now int64) (err error) {
			done, err = store.RemoveCopy(ctx, tx, now, taskID, batch)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// dropPatience is how long a call removes what it has written; a sweep removes the rest.
const dropPatience = 5 * time.Second

// DropCopy removes what was written of a copy, if anything was.
func (s *Sweeper) DropCopy(ctx context.Context, c *store.Copy) {
	if c.TaskID == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), dropPatience)
	defer cancel()
	err := s.DB.Do(ctx, c.GiveUp)
	if err == nil {
		err = s.RemoveCopy(ctx, c.TaskID)
	}
	if err != nil {
		s.Log.ErrorContext(ctx, "the rows of a task that was not copied or restored are left to the sweep", "task_id", c.TaskID, "error", err)
	}
}
