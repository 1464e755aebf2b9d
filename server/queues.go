package server

import (
	"context"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// queuesRoutes registers what reads and changes queues.
func (s *server) queuesRoutes() {
	add(s, "list_queues", func(ctx context.Context, in *api.Paging) (*answer[pawl.List[pawl.Queue]], error) {
		return page(s.svc.ListQueues(ctx, in.Page()))
	})
	add(s, "get_queue", func(ctx context.Context, in *member) (*answer[pawl.Queue], error) {
		return reply(s.svc.GetQueue(ctx, in.ID))
	})
	change(s, "put_queue", func(ctx context.Context, svc pawl.Service, in *struct {
		ID   string `path:"id" doc:"The type."`
		Body pawl.QueuePatch
	}) (*answer[pawl.Queue], error) {
		return reply(svc.SetQueue(ctx, in.ID, in.Body))
	})
	change(s, "pause_queue", func(ctx context.Context, svc pawl.Service, in *emptyOn) (*answer[pawl.Queue], error) {
		return reply(svc.PauseQueue(ctx, in.ID))
	})
	change(s, "resume_queue", func(ctx context.Context, svc pawl.Service, in *emptyOn) (*answer[pawl.Queue], error) {
		return reply(svc.ResumeQueue(ctx, in.ID))
	})
	change(s, "pause_namespace", func(ctx context.Context, svc pawl.Service, _ *empty) (*nothing, error) {
		return &nothing{}, svc.PauseNamespace(ctx)
	})
	change(s, "resume_namespace", func(ctx context.Context, svc pawl.Service, _ *empty) (*nothing, error) {
		return &nothing{}, svc.ResumeNamespace(ctx)
	})
}

func (queuePatch) Schema(huma.Registry) *huma.Schema {
	number := &huma.Schema{Type: huma.TypeInteger, Nullable: true}
	object := func(members map[string]*huma.Schema) *huma.Schema {
		return &huma.Schema{Type: huma.TypeObject, Nullable: true, Properties: members, AdditionalProperties: false}
	}
	rate := object(map[string]*huma.Schema{"limit": number, "seconds": number, "burst": number})
	limits := object(map[string]*huma.Schema{"concurrency": number, "per_worker": number, "rate": rate,
		"per_key": object(map[string]*huma.Schema{
			"pointer": {Type: huma.TypeString}, "concurrency": number, "rate": rate,
			"weights": {Type: huma.TypeObject, Nullable: true, AdditionalProperties: number},
			"order":   {Type: huma.TypeString, Nullable: true, Enum: []any{pawl.OrderCreated, nil}},
			"fair":    {Type: huma.TypeBoolean, Nullable: true},
		})})
	limits.Nullable, limits.Description = false, "A JSON Merge Patch (RFC 7396) of the queue's limits."
	return limits
}
