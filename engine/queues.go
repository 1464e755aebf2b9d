package engine

import (
	"context"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/queue"
	"github.com/pawl-work/pawl/internal/watch"
	"github.com/pawl-work/pawl/store"
)

// The defaults of Options.PollInterval. A claim that waits polls less and less often.
const (
	defaultPoll = 250 * time.Millisecond
	deafPoll    = time.Second // of claims, without notices
)

// openHub creates the hub and the queues, which waiting callers of this process use.
func (e *Engine) openHub() {
	d := e.db.Dialect()
	o := watch.Options{Log: e.log, OnRemote: func(t watch.Topic) { e.queues.Elsewhere(t) }}
	if d.Notices {
		o.Notify = d.Notify
	}
	if d.Listens {
		o.Listen = d.Listen
	}
	if d.DataVersion {
		o.Version = d.Changed
	}
	poll := e.opts.PollInterval
	if poll == defaultPoll && d.Notices && !d.Listens {
		poll = deafPoll
	}
	e.hub = watch.New(o)
	e.limits = &limits{}
	e.queues = queue.New(queue.Options{Hub: e.hub, View: e.queueView(), MaxTypes: e.opts.MaxTypes, PollInterval: poll})
}

// queueView returns the function that reads what is queued: in the transaction of e, if
// it has one.
func (e *Engine) queueView() queue.View {
	if e.scope == nil {
		return e.k.Base.Look
	}
	return e.db.View
}

// ready reports that a namespace has claimable work, to waiting claims of this process
// and to other processes.
func (e *Engine) ready(namespace string) { e.queues.Ready(namespace) }

// checkItemQueues refuses items whose type, or type and priority, exceeds the
// namespace's limit. Items without a type have their task's.
func (e *Engine) checkItemQueues(ctx context.Context, task queue.Pair, items []pawl.NewItem) error {
	return e.queues.CheckItems(ctx, e.queueView(), pawl.CallerOf(ctx).Namespace, task, items)
}

// typesOfQueues returns types that tasks or items of a namespace have had, a given one first, at most limit.
func typesOfQueues(ctx context.Context, tx store.Tx, namespace, first string, limit int) ([]string, error) {
	return store.Strings(ctx, tx, namesSQL["types of queues"], namespace, first, limit)
}

// namespaces returns those that had work, in order, at most limit.
func namespaces(ctx context.Context, tx store.Tx, limit int) ([]string, error) {
	return store.Strings(ctx, tx, namesSQL["namespaces"], limit)
}
