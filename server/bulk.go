package server

import (
	"context"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// bulkAnswer is the answer to a bulk call: its task, or the count of a dry run.
type bulkAnswer struct {
	Status int
	Body   bulkBody
}

// bulkBody has one of its members.
type bulkBody struct {
	*pawl.Task
	*api.BulkCount
}

// bulkSchema describes a bulkBody.
type bulkSchema struct{}

func (bulkSchema) Schema(r huma.Registry) *huma.Schema {
	return &huma.Schema{OneOf: []*huma.Schema{
		r.Schema(reflect.TypeFor[pawl.Task](), true, ""),
		r.Schema(reflect.TypeFor[api.BulkCount](), true, ""),
	}}
}

// bulkRoutes registers the calls that change many tasks.
func (s *server) bulkRoutes() {
	change(s, "bulk", func(ctx context.Context, svc pawl.Service, in *body[pawl.BulkCall]) (*bulkAnswer, error) {
		ctx, end, err := s.readingIf(ctx, in.Body.DryRun)
		if err != nil {
			return nil, err
		}
		defer end()
		if in.Body.DryRun {
			n, err := svc.CountBulk(ctx, in.Body)
			if err != nil {
				return nil, err
			}
			return &bulkAnswer{http.StatusOK, bulkBody{BulkCount: &api.BulkCount{Count: n}}}, nil
		}
		t, err := svc.Bulk(ctx, in.Body)
		if err != nil {
			return nil, err
		}
		return &bulkAnswer{http.StatusAccepted, bulkBody{Task: &t}}, nil
	})
}
