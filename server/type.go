package server

import (
	"context"
	"net/http"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// types registers the calls of the type registry.
func (s *server) types() {
	add(s, "list_types", func(ctx context.Context, in *api.TypeQuery) (*answer[pawl.List[pawl.Type]], error) {
		return page(s.svc.ListTypes(ctx, in.Filter()))
	})
	add(s, "get_type", func(ctx context.Context, in *struct {
		ID string `path:"id" doc:"The type's name."`
		api.TypeVersion
	}) (*answer[pawl.Type], error) {
		return reply(s.svc.GetType(ctx, in.ID, in.Version))
	})
	in, read := readBy(func(in *struct {
		ID   string `path:"id" doc:"The id."`
		Body pawl.Type
	}) (pawl.Type, error) {
		t := in.Body
		if t.Name != "" && t.Name != in.ID {
			return t, pawl.Invalid("/name", "is %q; the path says %q", t.Name, in.ID)
		}
		t.Name = in.ID
		return t, nil
	})
	s.addVerbBy(verbOf(api.PutTypes), in, read, show(func(_ context.Context, _ pawl.Service, ref pawl.TypeRef) (*put, error) {
		return &put{Status: statusOf(http.StatusCreated, ref), Body: ref}, nil
	}))
	in, read = readBy(func(in *member) (string, error) { return in.ID, nil })
	s.addVerbBy(verbOf(api.RemoveTypes), in, read, asNothing)
}

type put struct {
	Status int
	Body   pawl.TypeRef
}
