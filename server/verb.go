package server

import (
	"context"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/internal/idform"
)

// answerFunc makes what a single form answers from the result of its call.
type answerFunc[V, O any] func(context.Context, pawl.Service, V) (*O, error)

// verb registers both forms of a verb. The single form takes the members of its call from the
// path, from If-Match where the route takes a version, and from the body.
func verb[C, V, O any](s *server, v api.Verb[C, V], show answerFunc[V, O]) {
	r := api.RouteOf(v.Single)
	if r.Subject() == "" {
		verbOf(s, v, func(in *body[C]) (C, error) { return in.Body, nil }, show)
		return
	}
	b := restOf[C](r)
	if r.Has(api.TakesVersion) {
		verbOf(s, v, func(in *versionedCall) (C, error) { return b.versioned(in) }, show)
	} else {
		verbOf(s, v, func(in *oneCall) (C, error) { return b.call(in.ID, in.RawBody) }, show)
	}
	s.ids[r.Name].body = idform.MembersOf(reflect.TypeFor[C](), "json")
	b.describe(s.api.OpenAPI(), r)
}

// verbOf is verb for a single form whose call is read by a function of its own.
func verbOf[I, C, V, O any](s *server, v api.Verb[C, V], read func(*I) (C, error), show answerFunc[V, O]) {
	r := api.RouteOf(v.Single)
	form(s, r, v.Do, pawl.WithItem,
		func(_ context.Context, in *I) ([]C, error) {
			call, err := read(in)
			return []C{call}, err
		},
		func(ctx context.Context, svc pawl.Service, rs []pawl.Result[V], err error) (*O, error) {
			value, err := one(rs, err)
			if err != nil {
				return nil, err
			}
			return show(ctx, svc, value)
		})
	form(s, api.RouteOf(v.Batch), v.Do, asIs,
		func(ctx context.Context, in *manyCalls) ([]C, error) { return readBatch[C](ctx, in.RawBody) },
		func(ctx context.Context, _ pawl.Service, rs []pawl.Result[V], err error) (*answer[api.Results[V]], error) {
			if err != nil {
				return nil, err
			}
			return reply(results(ctx, s, r, rs), nil)
		})
	describeBatch[C](s, api.RouteOf(v.Batch))
}

// form registers one form of a verb. read makes the calls from the input, and show the answer
// from their results; with makes the context of the verb. With an idempotency key, the verb
// works in the transaction that also stores the answer.
func form[I, C, V, O any](s *server, r api.Route, do func(pawl.Service, context.Context, []C) ([]pawl.Result[V], error),
	with func(context.Context) context.Context, read func(context.Context, *I) ([]C, error),
	show func(context.Context, pawl.Service, []pawl.Result[V], error) (*O, error)) {
	s.ids[r.Name] = idsOf[I](r)
	huma.Register(s.api, s.operation(r), func(ctx context.Context, in *I) (*O, error) {
		calls, err := read(ctx, in)
		if err != nil {
			return nil, s.refuse(ctx, err)
		}
		do := do
		if len(calls) == 0 && len(callOf(ctx).sifted.refused) > 0 {
			do = func(pawl.Service, context.Context, []C) ([]pawl.Result[V], error) { return nil, nil }
		}
		ctx, end, err := s.readingIf(ctx, anyDry(calls))
		if err != nil {
			return nil, s.refuse(ctx, err)
		}
		defer end()
		var out *O
		if k := callOf(ctx).keyed; k != nil {
			out, err = once(ctx, s, r, k, func(ctx context.Context, svc pawl.Service) (*O, error) {
				rs, err := do(svc, with(ctx), calls)
				return show(ctx, svc, rs, err)
			})
		} else {
			rs, failed := do(s.svc, with(ctx), calls)
			out, err = show(ctx, s.svc, rs, failed)
		}
		return answered(ctx, s, r, out, err)
	})
}

// asIs returns the context unchanged: only single forms answer with the item.
func asIs(ctx context.Context) context.Context { return ctx }

// results answers a batch. It notes when no call had an effect: then the answer is not stored
// under an idempotency key.
func results[V any](ctx context.Context, s *server, single api.Route, rs []pawl.Result[V]) api.Results[V] {
	rs = withRefused(&callOf(ctx).sifted, rs)
	out := make([]api.Result[V], len(rs))
	refused := 0
	for i, a := range rs {
		if a.Err != nil {
			refused++
			p := s.problem(ctx, a.Err)
			out[i] = api.Result[V]{Status: p.Status, Error: &p, RetryAfterMS: retryAfter(a.Err).Milliseconds()}
			continue
		}
		out[i] = api.Result[V]{Status: statusOf(single.Success, a.Value), Value: &a.Value}
	}
	if refused == len(rs) {
		callOf(ctx).nothing = true
	}
	return api.Results[V]{Results: out}
}

// statusOf returns the status of a call that was carried out: 200 if an earlier call had
// created the result already.
func statusOf(success int, answer any) int {
	found := false
	switch a := answer.(type) {
	case pawl.Task:
		found = a.Deduplicated
	case pawl.TypeRef:
		found = a.Unchanged
	case pawl.Schedule:
		found = a.Unchanged
	}
	if found || success == http.StatusNoContent {
		return http.StatusOK
	}
	return success
}

// asAnswer shows a call's answer as it is.
func asAnswer[V any](_ context.Context, _ pawl.Service, v V) (*answer[V], error) {
	return reply(v, nil)
}

// asItem shows the item as it is after the verb.
func asItem(ctx context.Context, svc pawl.Service, m pawl.Moved) (*answer[pawl.Item], error) {
	return reply(pawl.ItemOf(ctx, svc, m))
}

// asNothing shows nothing.
func asNothing[V any](context.Context, pawl.Service, V) (*nothing, error) { return &nothing{}, nil }
