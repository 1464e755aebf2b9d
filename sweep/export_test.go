package sweep

import "context"

// Retire archives and removes tasks, as retention does with those whose time is up.
func (s *Sweeper) Retire(ctx context.Context, tasks ...string) error {
	return (&pass{Sweeper: s}).retire(ctx, tasks)
}
