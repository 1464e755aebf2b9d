package server

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// plainEvents is how many events the older shape shows.
const plainEvents = 100

// plain registers the three routes of the older shape (seed 3).
func (s *server) plain() {
	add(s, "plain_task", func(ctx context.Context, in *member) (*answer[api.PlainTask], error) {
		return plainTask(s.svc.GetTask(ctx, in.ID))
	})
	add(s, "plain_task_events", func(ctx context.Context, in *member) (*answer[[]api.PlainEvent], error) {
		list, err := s.svc.ListEvents(ctx, pawl.EventFilter{TaskID: in.ID, Page: pawl.Page{Limit: plainEvents}})
		if err != nil {
			return nil, err
		}
		out := make([]api.PlainEvent, len(list.Items))
		for i, e := range list.Items {
			out[i] = api.PlainEventOf(e)
		}
		return reply(out, nil)
	})
	add(s, "plain_task_retry", func(ctx context.Context, in *emptyOn) (*answer[api.PlainTask], error) {
		return plainTask(one(s.svc.RetryTasks(ctx, []pawl.TaskCall{{TaskID: in.ID}})))
	})
}

func plainTask(t pawl.Task, err error) (*answer[api.PlainTask], error) {
	if err != nil {
		return nil, err
	}
	return reply(api.PlainTaskOf(t), nil)
}
