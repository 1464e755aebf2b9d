package server

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// record registers what is read of the record as a whole.
func (s *server) record() {
	add(s, "list_events", func(ctx context.Context, in *api.EventsQuery) (*answer[pawl.List[pawl.Event]], error) {
		task, err := in.OfTask.Of()
		if err != nil {
			return nil, err
		}
		item, err := in.OfItem.Of()
		if err != nil {
			return nil, err
		}
		return page(s.svc.ListEvents(ctx, in.Filter(task, item)))
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
		return page(s.svc.ListCheckpoints(ctx, f))
	})
}
