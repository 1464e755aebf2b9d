package sweep

import "context"

// Retire archives and removes tasks, like retention.
func (s *Sweeper) Retire(ctx context.Context, tasks ...string) error {
	return (&pass{Sweeper: s}).retire(ctx, tasks)
}
