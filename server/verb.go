package server

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// onItem registers both forms of a verb that moves an item. The single form answers with the
// item as it is after the verb.
func onItem[C any](s *server, v api.Verb[C, pawl.Moved]) {
	single(s, v, pawl.WithItem, func(ctx context.Context, svc pawl.Service, m pawl.Moved) (*answer[pawl.Item], error) {
		return reply(pawl.ItemOf(ctx, svc, m))
	})
	batch(s, v)
}

// onTask registers both forms of a verb that answers with a task.
func onTask[C any](s *server, v api.Verb[C, pawl.Task]) {
	single(s, v, asIs, func(_ context.Context, _ pawl.Service, t pawl.Task) (*versioned, error) { return tagged(t, nil) })
	batch(s, v)
}

// both registers both forms of any other verb.
func both[C, V any](s *server, v api.Verb[C, V]) {
	single(s, v, asIs, func(_ context.Context, _ pawl.Service, answer V) (*answer[V], error) { return reply(answer, nil) })
	batch(s, v)
}

// oneCall is a call whose subject is named by the path; its body is the rest of the call.
type oneCall struct {
	ID      string `path:"id" doc:"The id."`
	RawBody []byte `contentType:"application/json"`
}

// asIs returns the context unchanged, for verbs that need nothing more.
func asIs(ctx context.Context) context.Context { return ctx }

// single registers the single form of a verb: a batch of one. with makes the context of the
// verb, and show turns the answer of the call into that of the operation.
func single[C, V, O any](s *server, v api.Verb[C, V], with func(context.Context) context.Context,
	show func(context.Context, pawl.Service, V) (*O, error)) {
	r := api.RouteOf(v.Single)
	subject := r.Subject()
	change(s, v.Single, func(ctx context.Context, svc pawl.Service, in *oneCall) (*O, error) {
		var call C
		if err := readCall(in, subject, &call); err != nil {
			return nil, err
		}
		answer, err := one(v.Do(svc, with(ctx), []C{call}))
		if err != nil {
			return nil, err
		}
		return show(ctx, svc, answer)
	})
	op := s.api.OpenAPI().Paths[r.Path].Post
	schema := callSchema[C](s.api.OpenAPI().Components.Schemas, subject)
	op.RequestBody = &huma.RequestBody{Required: len(s.api.OpenAPI().Components.Schemas.SchemaFromRef(schema.Ref).Required) > 0,
		Content: map[string]*huma.MediaType{"application/json": {Schema: schema}}}
}

// readCall reads a call whose subject is named by the path.
func readCall(in *oneCall, subject string, call any) error {
	if len(in.RawBody) > 0 {
		if err := decode(in.RawBody, call); err != nil {
			var f fault
			if errors.As(err, &f) {
				err = pawl.Invalid(f.Pointer, "%s", f.Message)
			}
			return err
		}
	}
	id := memberOf(reflect.ValueOf(call).Elem(), subject)
	if id.String() != "" {
		return pawl.Invalid(pointer(subject), "is not known here")
	}
	id.SetString(in.ID)
	return nil
}

// memberOf returns the field of a struct that has this name in JSON; it panics if none has.
func memberOf(v reflect.Value, name string) reflect.Value {
	for _, f := range reflect.VisibleFields(v.Type()) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name {
			return v.FieldByIndex(f.Index)
		}
	}
	panic("server: " + v.Type().String() + " has no " + name)
}

// callSchema returns a reference to the schema of a call without its subject.
func callSchema[C any](schemas huma.Registry, subject string) *huma.Schema {
	whole := schemas.Schema(reflect.TypeFor[C](), true, "")
	name := strings.TrimSuffix(reflect.TypeFor[C]().Name(), "Call") + "Body"
	rest := *schemas.SchemaFromRef(whole.Ref)
	rest.Properties = maps.Clone(rest.Properties)
	delete(rest.Properties, subject)
	rest.Required = slices.DeleteFunc(slices.Clone(rest.Required), func(m string) bool { return m == subject })
	rest.PrecomputeMessages()
	schemas.Map()[name] = &rest
	return &huma.Schema{Ref: "#/components/schemas/" + name}
}

// statusOf returns the status of a call that was carried out: 200 if an earlier call had
// created the result already.
func statusOf(single api.Route, answer any) int {
	found := false
	switch a := answer.(type) {
	case pawl.Task:
		found = a.Deduplicated
	case pawl.TypeRef:
		found = a.Unchanged
	}
	if found || single.Success == http.StatusNoContent {
		return http.StatusOK
	}
	return single.Success
}
