package sweep

import "context"

// Retention archives and removes the tasks that are due, and does nothing else of a pass.
func (s *Sweeper) Retention(ctx context.Context) error { return s.pass(nil).retain(ctx) }

// Blobs looks for blobs that nothing refers to, like a pass.
func (s *Sweeper) Blobs(ctx context.Context) error { return s.pass(nil).blobs(ctx) }
