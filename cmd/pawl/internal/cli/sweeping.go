package cli

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// WithSweeps runs the sweeps, if s owns any, while run runs. It ends with an error if a
// migration has excluded this program.
func WithSweeps(ctx context.Context, s any, run func(context.Context) error) error {
	sweeping, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ctx, halt := context.WithCancel(ctx)
	defer halt()
	var both errgroup.Group
	both.Go(func() error {
		defer stop()
		return run(ctx)
	})
	if r, ok := s.(Runner); ok {
		both.Go(func() error {
			err := r.Run(sweeping)
			if err != nil {
				halt()
			}
			return err
		})
	}
	return both.Wait()
}

// Runner owns the sweeps until its context ends: the engine.
type Runner interface {
	Run(ctx context.Context) error
}
