package server

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// record registers the reads of the event log and of checkpoints.
func (s *server) record() {
	add(s, "list_events", func(ctx context.Context, in *struct {
		LastEventID string `header:"Last-Event-ID" pattern:"^([0-9]{1,9}-)?[0-9]{1,18}$" doc:"Of a stream: the position to go on after, EPOCH-POSITION; digits alone are of epoch 0; before that of after."`
		api.EventsQuery
	}) (*answer[pawl.List[pawl.Event]], error) {
		task, err := in.OfTask.Of()
		if err != nil {
			return nil, err
		}
		item, err := in.OfItem.Of()
		if err != nil {
			return nil, err
		}
		f := in.Filter(task, item)
		if f.After != nil && in.Order == "desc" {
			return nil, pawl.Invalid("/order", "is asc where after is given: the feed goes one way")
		}
		if call := callOf(ctx); call.streams {
			for _, p := range []struct {
				name  string
				given bool
			}{{"order", in.Order == "desc"}, {"limit", in.Limit != 0}, {"cursor", in.Cursor != ""}} {
				if p.given {
					return nil, pawl.Invalid(pointer(p.name), "has no meaning in a stream: it goes one way, from after on, and has no pages")
				}
			}
			if last, err := pawl.ParseFeedPosition(in.LastEventID); err == nil { // the pattern allows nothing else
				f.After, f.Epoch = &last.Position, last.Epoch
			}
			call.rest = func(w http.ResponseWriter, r *http.Request) {
				defer s.metrics.streaming("list_events")()
				if err := s.followEvents(ctx, s.opened(ctx, w, r, "list_events"), &f); err != nil {
					s.write(w, r, err)
				}
			}
			return &answer[pawl.List[pawl.Event]]{}, nil
		}
		return page(s.svc.ListEvents(ctx, f))
	})
	s.amend(func(o *huma.OpenAPI) {
		listed := o.Paths[api.RouteOf("list_events").Path].Get.Responses["200"]
		listed.Description = "A page; or the feed, an event a frame with its position as the id, for whoever accepts that."
		listed.Content[eventStream] = &huma.MediaType{Schema: &huma.Schema{Type: huma.TypeString}}
	})
	add(s, "list_checkpoints", func(ctx context.Context, in *api.CheckpointsQuery) (*answer[pawl.List[pawl.Checkpoint]], error) {
		task, err := in.OfTask.Of()
		if err != nil {
			return nil, err
		}
		f, err := in.Filter(task)
		if err != nil {
			return nil, err
		}
		f.TaskType, f.TaskKey = in.TaskType, in.TaskKey
		return page(s.svc.ListCheckpoints(ctx, f))
	})
}
