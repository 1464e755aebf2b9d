package engine

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/commit"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/engine/internal/tasktypes"
	"github.com/pawl-work/pawl/internal/asked"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

// Complete completes items with their results; see pawl.Finisher.
func (e *Engine) Complete(ctx context.Context, calls []pawl.CompleteCall) ([]pawl.Result[pawl.Moved], error) {
	calls = idform.Calls(calls)
	if err := e.acts(ctx, "complete"); err != nil {
		return nil, err
	}
	calls = pawl.Provenant(ctx, calls)
	if hasProvenance(calls) {
		return withProvenance(ctx, e, "complete", calls, subjectOfMove, (*Engine).Complete)
	}
	defer e.took(ctx, "complete", e.began(), nil)
	c, returns := pawl.CallerOf(ctx), asked.Of[bool](ctx, asked.Item)
	v := fenced[pawl.CompleteCall, store.Complete, store.Moved, pawl.Moved]{
		op:        "complete",
		committer: e.committers.complete,
		fence:     func(p *pawl.CompleteCall) pawl.Fence { return p.Fence },
		check: func(f *rules.Fields, p *pawl.CompleteCall) {
			limit := pawl.MaxPayloadBytes
			if len(p.Result) > limit && e.isPlan(ctx, p.ItemID) {
				limit = pawl.MaxBodyBytes
			}
			f.JSON("/result", p.Result, limit)
		},
		value: func(p *pawl.CompleteCall) []byte { return p.Result },
		refused: func(p *pawl.CompleteCall, it store.ItemRow, now int64, err error) (m pawl.Moved, _ error) {
			request := requestOfComplete(p)
			if it.State.Leased() {
				switch it.Kind {
				case pawl.KindPlan:
					m, err = e.completePlan(ctx, p, it, now, request)
				case pawl.KindApply:
					m, err = e.completeApply(ctx, p, it, request)
				case pawl.KindWork:
					err = e.lacksParts(ctx, &it, err)
				}
			}
			return e.orRepeated(ctx, &it, p.Fence, request, m, err)
		},
		row: func(_ int, p *pawl.CompleteCall) store.Complete {
			r := store.Complete{Fence: fenceRow(c, p.Fence), Result: rules.OrNull(p.Result), Request: requestOfComplete(p)}
			r.Return = returns
			return r
		},
		answer: func(p *pawl.CompleteCall, m *store.Moved) (pawl.Moved, effects) {
			return moved(p.Fence, m), effects{followUp: m.Fed, advance: toAdvance(m), children: childOf(m)}
		},
	}
	out, then, err := v.do(ctx, e, calls)
	e.follow(ctx, then)
	var done []string
	for i := range out {
		if out[i].Err == nil {
			done = append(done, calls[i].ItemID)
		}
	}
	e.k.Messages.EndOpen(ctx, e.k, done)
	return out, err
}

func requestOfComplete(p *pawl.CompleteCall) int64 {
	return requestOf("complete", p.Fence, []byte(rules.OrNull(p.Result)))
}

// toAdvance returns the task of an item that has no work left if the engine has to take a
// step of the task. The end of a plan or apply item always causes one.
func toAdvance(m *store.Moved) []string {
	if m.Owed || strings.HasSuffix(m.Type, pawl.ApplySuffix) || strings.HasSuffix(m.Type, pawl.PlanSuffix) {
		return []string{m.TaskID}
	}
	return nil
}

// childOf returns the task of an item that has no work left if the task is a child that settled.
func childOf(m *store.Moved) []string {
	if m.Child && m.Settled {
		return []string{m.TaskID}
	}
	return nil
}

// Fail fails attempts; see pawl.Finisher.
func (e *Engine) Fail(ctx context.Context, calls []pawl.FailCall) ([]pawl.Result[pawl.Moved], error) {
	calls = idform.Calls(calls)
	if err := e.acts(ctx, "fail"); err != nil {
		return nil, err
	}
	return withProvenance(ctx, e, "fail", calls, subjectOfMove, (*Engine).fail)
}

func (e *Engine) fail(ctx context.Context, calls []pawl.FailCall) ([]pawl.Result[pawl.Moved], error) {
	delays, err := tasktypes.Of(e.taskTypes).Backoffs(ctx, calls)
	if err != nil {
		return nil, err
	}
	return leave(ctx, e, store.VerbFail, e.committers.leave, calls, func(p *pawl.FailCall) pawl.Fence { return p.Fence },
		func(p *pawl.FailCall) any {
			return failBody{p.Error, p.Retryable == nil || *p.Retryable, p.RetryAfterMS}
		},
		(*rules.Fields).Fail,
		func(p *pawl.FailCall, l *store.Leave) {
			b, _ := json.Marshal(p.Error) // checked: it is JSON
			l.Error, l.Retryable, l.CheckpointID = string(b), p.Retryable == nil || *p.Retryable, e.k.IDs.Next("ckp")
			l.Jitter = pawl.Backoff{}.Jitter()
			if delay, own := delays[p.ItemID]; own {
				us := int64(float64(delay.Microseconds()) * l.Jitter)
				l.DelayMicros = &us
			}
			if p.RetryAfterMS != nil {
				us := *p.RetryAfterMS * 1000
				l.DelayMicros = &us
			}
		})
}

// Release gives items back, at once or after a delay. This is not counted as a failure; see
// pawl.Leaser.
func (e *Engine) Release(ctx context.Context, calls []pawl.ReleaseCall) ([]pawl.Result[pawl.Moved], error) {
	calls = idform.Calls(calls)
	if err := e.acts(ctx, "release"); err != nil {
		return nil, err
	}
	return leave(ctx, e, store.VerbRelease, e.committers.leave, calls, func(p *pawl.ReleaseCall) pawl.Fence { return p.Fence },
		func(p *pawl.ReleaseCall) any { return p.DelaySeconds }, (*rules.Fields).Release, func(p *pawl.ReleaseCall, l *store.Leave) {
			if p.DelaySeconds > 0 {
				us := int64(p.DelaySeconds) * time.Second.Microseconds()
				l.DelayMicros = &us
			}
		})
}

// Suspend gives items back until a time, a signal or the end of children; see pawl.Leaser.
func (e *Engine) Suspend(ctx context.Context, calls []pawl.SuspendCall) ([]pawl.Result[pawl.Moved], error) {
	calls = idform.Calls(calls)
	if err := e.acts(ctx, "suspend"); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(calls, func(p pawl.SuspendCall) bool { return p.Children != nil }) {
		return e.suspend(ctx, calls)
	}
	if err := rules.CheckBatch("suspend", len(calls)); err != nil {
		return nil, err
	}
	calls = slices.Clone(calls)
	out := make([]pawl.Result[pawl.Moved], len(calls))
	good, err := e.k.Children.Check(ctx, e.k, calls, out)
	if err != nil || len(good) == 0 {
		return out, err
	}
	some := make([]pawl.SuspendCall, len(good))
	for n, i := range good {
		some[n] = calls[i]
	}
	done, err := e.suspend(ctx, some)
	if err != nil {
		return nil, err
	}
	var awaited []string
	for n, i := range good {
		if out[i] = done[n]; out[i].Err == nil && calls[i].Children != nil {
			awaited = append(awaited, calls[i].Children.IDs...)
			out[i].Value.Item = nil // it may be queued by the time that the caller reads it
		}
	}
	e.k.Children.Ended(ctx, e.k, e.origin, awaited) // those that had ended before
	return out, nil
}

func (e *Engine) suspend(ctx context.Context, calls []pawl.SuspendCall) ([]pawl.Result[pawl.Moved], error) {
	now, through := e.k.IDs.Now(), e.committers.leave
	if slices.ContainsFunc(calls, func(p pawl.SuspendCall) bool { return p.Signal != "" || p.Children != nil }) {
		through = e.committers.await
	}
	return leave(ctx, e, store.VerbSuspend, through, calls, func(p *pawl.SuspendCall) pawl.Fence { return p.Fence },
		func(p *pawl.SuspendCall) any {
			return suspendBody{micros(p.Until), p.Signal, p.Key, p.Since, e.k.Children.Wait(p.Children)}
		},
		func(f *rules.Fields, p *pawl.SuspendCall) { f.Suspend(p, now) },
		func(p *pawl.SuspendCall, l *store.Leave) {
			l.Until, l.Signal, l.Key, l.Children = micros(p.Until), store.Text(p.Signal), store.Text(p.Key), e.k.Children.Wait(p.Children)
			l.Ever = p.Since == pawl.SinceEver
		})
}

// leave is the common part of fail, release and suspend. They differ in their checks and
// in what they put in the row.
func leave[C any](
	ctx context.Context,
	e *Engine,
	verb string,
	through *commit.Committer[store.Leave, store.Moved],
	calls []C,
	fence func(*C) pawl.Fence,
	body func(*C) any, // what a repeated call has too
	check func(*rules.Fields, *C),
	fill func(*C, *store.Leave),
) ([]pawl.Result[pawl.Moved], error) {
	c, returns := pawl.CallerOf(ctx), asked.Of[bool](ctx, asked.Item)
	request := func(p *C) int64 { return requestOfBody(verb, fence(p), body(p)) }
	v := fenced[C, store.Leave, store.Moved, pawl.Moved]{op: verb, committer: through, fence: fence, check: check,
		row: func(_ int, p *C) store.Leave {
			l := store.Leave{Fence: fenceRow(c, fence(p)), Verb: verb, Request: request(p)}
			l.Return = returns
			fill(p, &l)
			return l
		},
		answer: func(p *C, m *store.Moved) (pawl.Moved, effects) {
			then := effects{followUp: m.Fed}
			switch m.State {
			case "failed":
				then.advance, then.ended, then.failing = toAdvance(m), []string{fence(p).ItemID}, []string{m.TaskID}
				then.children = childOf(m)
			case "queued":
				then.queued = []store.DueItem{{Namespace: c.Namespace, ItemID: fence(p).ItemID, Type: m.Type, Rank: m.Rank}}
			}
			return moved(fence(p), m), then
		},
		refused: func(p *C, it store.ItemRow, _ int64, err error) (pawl.Moved, error) {
			return e.orRepeated(ctx, &it, fence(p), request(p), pawl.Moved{}, err)
		},
	}
	out, then, err := v.do(ctx, e, calls)
	if len(then.queued) == 0 { // follow reports queued items
		e.after(func() { e.ready(c.Namespace) })
	}
	e.follow(ctx, then)
	for i := range out {
		e.blockReturned(ctx, &out[i].Value)
	}
	return out, err
}

// blockReturned sets blocked_by of a queued item in an answer. This reads all leases of
// the namespace, so it is not part of the statement, which holds locks.
func (e *Engine) blockReturned(ctx context.Context, m *pawl.Moved) {
	if m.Item == nil || m.Item.State != pawl.ItemQueued {
		return
	}
	err := e.db.View(ctx, func(ctx context.Context, tx store.Tx) error {
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		one := []pawl.Item{*m.Item}
		err = store.BlockItems(ctx, tx, m.Item.Namespace, one, now)
		*m.Item = one[0]
		return err
	})
	if err != nil {
		m.Item = nil // the caller reads the item itself
	}
}

func moved(f pawl.Fence, m *store.Moved) pawl.Moved {
	out := pawl.Moved{ID: f.ItemID, TaskID: m.TaskID, State: pawl.ItemState(m.State), Attempt: f.Attempt, Failures: m.Failures}
	if m.RunAt > 0 {
		at := stamp(m.RunAt)
		out.RunAt = &at
	}
	if m.Returned != nil {
		out.Item = m.Returned.Item()
	}
	return out
}
