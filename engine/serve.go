package engine

import (
	"context"
	"sync"
)

// Serve runs an engine and the workers of a program until ctx ends, or one of them ends with an
// error; the others then end too. Each worker is a function that works until its context ends,
// such as worker.Run with its handlers. The engine runs until the workers have reported what they
// did. Serve returns the first error, and nil when ctx has ended.
func Serve(ctx context.Context, e *Engine, workers ...func(context.Context) error) error {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	work, end := context.WithCancel(ctx)
	defer end()
	errs := make(chan error, len(workers)+1)
	var engines, working sync.WaitGroup
	engines.Go(func() {
		errs <- e.Run(running)
		end()
	})
	for _, w := range workers {
		working.Go(func() {
			err := w(work)
			if errs <- err; err != nil {
				end()
			}
		})
	}
	working.Wait()
	if len(workers) == 0 {
		<-work.Done()
	}
	stop()
	engines.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
