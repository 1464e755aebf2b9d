package server

import (
	"context"

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
	change(s, "put_type", func(ctx context.Context, svc pawl.Service, in *on[pawl.Type]) (*put, error) {
		t := in.Body
		if t.Name != "" && t.Name != in.ID {
			return nil, pawl.Invalid("/name", "is %q; the path says %q", t.Name, in.ID)
		}
		t.Name = in.ID
		ref, err := one(svc.PutTypes(ctx, []pawl.Type{t}))
		return &put{Status: statusOf(api.RouteOf("put_type"), ref), Body: ref}, err
	})
	batch(s, api.PutTypes)
	change(s, "remove_type", func(ctx context.Context, svc pawl.Service, in *member) (*nothing, error) {
		_, err := one(svc.RemoveTypes(ctx, []string{in.ID}))
		return &nothing{}, err
	})
	batch(s, api.RemoveTypes)
}

type put struct {
	Status int
	Body   pawl.TypeRef
}
