package server

import (
	"context"
	"net/http"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// types registers the registry of types.
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
		return &put{Status: putStatus(ref), Body: ref}, err
	})
	batch(s, "put_types", putStatus, pawl.Service.PutTypes)
	change(s, "remove_type", func(ctx context.Context, svc pawl.Service, in *member) (*nothing, error) {
		_, err := one(svc.RemoveTypes(ctx, []string{in.ID}))
		return &nothing{}, err
	})
	batch(s, "remove_types", is200[string], pawl.Service.RemoveTypes)
}

type put struct {
	Status int
	Body   pawl.TypeRef
}

// putStatus is 200 for a definition that was there already.
func putStatus(r pawl.TypeRef) int {
	if r.Unchanged {
		return http.StatusOK
	}
	return http.StatusCreated
}
