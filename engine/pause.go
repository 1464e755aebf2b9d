package engine

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
)

// GetQueue reads a queue; see pawl.QueueReader.
func (e *Engine) GetQueue(ctx context.Context, typ string) (pawl.Queue, error) {
	if err := checkQueue("queue", typ); err != nil {
		return pawl.Queue{}, err
	}
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (pawl.Queue, error) {
		now, err := tx.Now(ctx)
		if err != nil {
			return pawl.Queue{}, err
		}
		return getQueue(ctx, tx, ns, typ, now)
	})
}

// ListQueues lists queues; see pawl.QueueReader.
func (e *Engine) ListQueues(ctx context.Context, page pawl.Page) (pawl.List[pawl.Queue], error) {
	if err := rules.CheckPage(&page); err != nil {
		return pawl.List[pawl.Queue]{}, err
	}
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (pawl.List[pawl.Queue], error) {
		now, err := tx.Now(ctx)
		if err != nil {
			return pawl.List[pawl.Queue]{}, err
		}
		return listQueues(ctx, tx, ns, page, now)
	})
}

// PauseQueue stops claims from a queue; see pawl.QueueKeeper.
func (e *Engine) PauseQueue(ctx context.Context, typ string) (pawl.Queue, error) {
	return e.pauseQueue(ctx, typ, true)
}

// ResumeQueue allows claims from a queue; see pawl.QueueKeeper.
func (e *Engine) ResumeQueue(ctx context.Context, typ string) (pawl.Queue, error) {
	return e.pauseQueue(ctx, typ, false)
}

func (e *Engine) pauseQueue(ctx context.Context, typ string, pause bool) (pawl.Queue, error) {
	op := "resume"
	if pause {
		op = "pause"
	}
	if err := checkQueue(op, typ); err != nil {
		return pawl.Queue{}, err
	}
	ns := pawl.CallerOf(ctx).Namespace
	err := e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		return pauseQueue(ctx, tx, ns, typ, pause, now)
	})
	e.pausedOrResumed(ns, pause, err)
	if err != nil {
		return pawl.Queue{}, err
	}
	return e.GetQueue(ctx, typ) // counting may take long: the pause does not wait for it
}

// PauseNamespace stops claims in a namespace; see pawl.QueueKeeper.
func (e *Engine) PauseNamespace(ctx context.Context) error { return e.pauseNamespace(ctx, true) }

// ResumeNamespace allows claims in a namespace; see pawl.QueueKeeper.
func (e *Engine) ResumeNamespace(ctx context.Context) error { return e.pauseNamespace(ctx, false) }

func (e *Engine) pauseNamespace(ctx context.Context, pause bool) error {
	ns := pawl.CallerOf(ctx).Namespace
	err := e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		return pauseNamespace(ctx, tx, ns, pause, now)
	})
	e.pausedOrResumed(ns, pause, err)
	return err
}

// pausedOrResumed has the next claims of the namespace read its queues again. After a resume
// waiting claims try at once.
func (e *Engine) pausedOrResumed(namespace string, pause bool, err error) {
	if err != nil {
		return
	}
	e.after(func() {
		e.queues.Drop(namespace)
		if !pause {
			e.ready(namespace)
		}
	})
}
