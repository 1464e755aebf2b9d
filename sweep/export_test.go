package sweep

import "context"

// Retire archives and removes tasks, like retention.
func (s *Sweeper) Retire(ctx context.Context, tasks ...string) error {
	return (&pass{Sweeper: s}).retire(ctx, tasks)
}

// Retention archives and removes the tasks that are due, and does nothing else of a pass.
func (s *Sweeper) Retention(ctx context.Context) error { return (&pass{Sweeper: s}).retain(ctx) }

// Blobs looks for blobs that nothing refers to, like a pass.
func (s *Sweeper) Blobs(ctx context.Context) error { return (&pass{Sweeper: s}).blobs(ctx) }
