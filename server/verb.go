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

// Verbs are registered by the types of their calls and results, with reflect: a generic function
// would be compiled once for each verb, and then they were a twelfth of the program.

// verb is a verb of the service with calls of a type C and results of a type V.
type verb struct {
	do                reflect.Value // of api.Verb
	single, batch     api.Route
	call, body, calls reflect.Type // C, body[C], api.Batch[C]
	answer, results   reflect.Type // answer[V], answer[api.Results[V]]
}

func verbOf[C, V any](v api.Verb[C, V]) *verb {
	return &verb{
		do: reflect.ValueOf(v.Do), single: api.RouteOf(v.Single), batch: api.RouteOf(v.Batch),
		call: reflect.TypeFor[C](), body: reflect.TypeFor[body[C]](), calls: reflect.TypeFor[api.Batch[C]](),
		answer: reflect.TypeFor[answer[V]](), results: reflect.TypeFor[answer[api.Results[V]]](),
	}
}

// answerer is what a single form answers, made of the result of its call. The zero value answers with the result.
type answerer struct {
	of  reflect.Type
	say func(context.Context, pawl.Service, any) (any, error)
}

// show is an answerer for results of one type.
func show[V, O any](say func(context.Context, pawl.Service, V) (*O, error)) answerer {
	return answerer{reflect.TypeFor[O](), func(ctx context.Context, svc pawl.Service, v any) (any, error) { return say(ctx, svc, v.(V)) }}
}

// addVerb registers both forms of a verb. The single form takes the members of its call from the
// path, from If-Match where the route takes a version, and from the body.
func (s *server) addVerb(v *verb, as answerer) {
	r := v.single
	if r.Subject() == "" {
		s.addVerbBy(v, v.body, func(in any) (reflect.Value, error) { return reflect.ValueOf(in).Elem().Field(0), nil }, as)
		return
	}
	s.amend(func(*huma.OpenAPI) { s.rests[r.Name] = restOf(r, v.call) })
	b := s.rests[r.Name]
	if r.Has(api.TakesVersion) {
		s.addVerbBy(v, reflect.TypeFor[versionedCall](), func(in any) (reflect.Value, error) { return b.versioned(in.(*versionedCall)) }, as)
	} else {
		s.addVerbBy(v, reflect.TypeFor[oneCall](), func(in any) (reflect.Value, error) {
			one := in.(*oneCall)
			return b.read(one.ID, one.RawBody)
		}, as)
	}
	s.amend(func(o *huma.OpenAPI) {
		s.ids[r.Name].body = idform.MembersOf(v.call, "json")
		b.describe(o, r)
	})
}

// readBy is how a single form reads its call from an input of its own.
func readBy[I, C any](read func(*I) (C, error)) (reflect.Type, func(any) (reflect.Value, error)) {
	return reflect.TypeFor[I](), func(in any) (reflect.Value, error) {
		call, err := read(in.(*I))
		return reflect.ValueOf(&call).Elem(), err
	}
}

// addVerbBy is addVerb for a single form with an input of the type in.
func (s *server) addVerbBy(v *verb, in reflect.Type, read func(any) (reflect.Value, error), as answerer) {
	single := &form{server: s, route: v.single, do: v.do, with: pawl.WithItem, out: as.of}
	if as.say == nil {
		single.out = v.answer
	}
	single.read = func(_ context.Context, in any) (reflect.Value, error) {
		call, err := read(in)
		if err != nil {
			return call, err
		}
		calls := reflect.MakeSlice(reflect.SliceOf(v.call), 1, 1)
		calls.Index(0).Set(call)
		return calls, nil
	}
	single.show = func(ctx context.Context, svc pawl.Service, rs reflect.Value) (any, error) {
		value, err := onlyOf(rs)
		switch {
		case err != nil:
			return nil, err
		case as.say != nil:
			return as.say(ctx, svc, value.Interface())
		}
		out := reflect.New(v.answer)
		out.Elem().Field(0).Set(value)
		return out.Interface(), nil
	}
	s.register(v.single, in, single.out, single.run)

	many := &form{server: s, route: v.batch, do: v.do, with: asIs, out: v.results}
	many.read = func(ctx context.Context, in any) (reflect.Value, error) {
		return readBatch(ctx, in.(*manyCalls).RawBody, v.calls)
	}
	many.show = func(ctx context.Context, _ pawl.Service, rs reflect.Value) (any, error) {
		return s.results(ctx, v, rs), nil
	}
	s.register(v.batch, reflect.TypeFor[manyCalls](), v.results, many.run)
	s.amend(func(o *huma.OpenAPI) { s.describeBatch(o, v) })
}

// form is one form of a verb. read makes the list of calls from the input, and show the answer
// from the list of their results; with makes the context of the verb.
type form struct {
	*server
	route api.Route
	do    reflect.Value
	with  func(context.Context) context.Context
	out   reflect.Type
	read  func(ctx context.Context, in any) (reflect.Value, error)
	show  func(context.Context, pawl.Service, reflect.Value) (any, error)
}

// run carries out a call. With an idempotency key, the verb works in the transaction that also
// stores the answer.
func (f *form) run(ctx context.Context, in any) (any, error) {
	calls, err := f.read(ctx, in)
	if err != nil {
		return nil, f.refuse(ctx, err)
	}
	ctx, end, err := f.readingIf(ctx, anyDry(calls.Interface()))
	if err != nil {
		return nil, f.refuse(ctx, err)
	}
	defer end()
	do := f.do
	if calls.Len() == 0 && len(callOf(ctx).sifted.refused) > 0 {
		do = reflect.MakeFunc(do.Type(), func([]reflect.Value) []reflect.Value {
			return []reflect.Value{reflect.Zero(do.Type().Out(0)), reflect.Zero(do.Type().Out(1))}
		})
	}
	if k := callOf(ctx).keyed; k != nil {
		out, err := f.once(ctx, f.route, k, f.out, func(ctx context.Context, svc pawl.Service) (any, error) {
			rs := do.Call([]reflect.Value{reflect.ValueOf(svc), reflect.ValueOf(f.with(ctx)), calls})
			return f.outcome(ctx, svc, rs)
		})
		return f.answered(ctx, f.route, out, err)
	}
	rs := do.Call([]reflect.Value{reflect.ValueOf(f.svc), reflect.ValueOf(f.with(ctx)), calls})
	out, err := f.outcome(ctx, f.svc, rs)
	return f.answered(ctx, f.route, out, err)
}

// outcome returns the answer for what a verb returned: its results and an error.
func (f *form) outcome(ctx context.Context, svc pawl.Service, returned []reflect.Value) (any, error) {
	if err, _ := returned[1].Interface().(error); err != nil {
		return nil, err
	}
	return f.show(ctx, svc, returned[0])
}

// The fields of pawl.Result and of api.Result, which results reads and writes.
const (
	resultValue, resultErr                                = 0, 1
	answerStatus, answerValue, answerError, answerRetryMS = 0, 1, 2, 3
)

// onlyOf returns the result of the only call.
func onlyOf(rs reflect.Value) (reflect.Value, error) {
	if rs.Len() != 1 {
		return reflect.Zero(rs.Type().Elem().Field(resultValue).Type), nil
	}
	err, _ := rs.Index(0).Field(resultErr).Interface().(error)
	return rs.Index(0).Field(resultValue), err
}

// asIs returns the context unchanged: only single forms answer with the item.
func asIs(ctx context.Context) context.Context { return ctx }

// results answers a batch. It notes when no call had an effect: then the answer is not stored
// under an idempotency key.
func (s *server) results(ctx context.Context, v *verb, rs reflect.Value) any {
	rs = withRefused(&callOf(ctx).sifted, rs)
	answer := reflect.New(v.results)
	list := answer.Elem().Field(0).Field(0)
	list.Set(reflect.MakeSlice(list.Type(), rs.Len(), rs.Len()))
	refused := 0
	for i := range rs.Len() {
		a, out := rs.Index(i), list.Index(i)
		if err, _ := a.Field(resultErr).Interface().(error); err != nil {
			refused++
			p := s.problem(ctx, err)
			out.Field(answerStatus).SetInt(int64(p.Status))
			out.Field(answerError).Set(reflect.ValueOf(&p))
			out.Field(answerRetryMS).SetInt(retryAfter(err).Milliseconds())
			continue
		}
		out.Field(answerStatus).SetInt(int64(statusOf(v.single.Success, a.Field(resultValue).Interface())))
		out.Field(answerValue).Set(a.Field(resultValue).Addr())
	}
	if refused == rs.Len() {
		callOf(ctx).nothing = true
	}
	return answer.Interface()
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
var asAnswer answerer

// asItem shows the item as it is after the verb.
var asItem = show(func(ctx context.Context, svc pawl.Service, m pawl.Moved) (*answer[pawl.Item], error) {
	return reply(api.ItemOf(ctx, svc, m))
})

// asNothing shows nothing.
var asNothing = show(func(context.Context, pawl.Service, any) (*nothing, error) { return &nothing{}, nil })
