package server

import (
	"context"
	"net/http"
	"net/url"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// plainEvents is how many events the plain shape shows.
const plainEvents = 100

// plainCreated answers with a task that a call created or found.
type plainCreated struct {
	Status   int
	Location string `header:"Location" doc:"The path of the task."`
	Body     api.PlainTask
}

// plain registers the routes of the plain shape (docs/contract.md §9).
func (s *server) plain() {
	change(s, "plain_create_task", func(ctx context.Context, svc pawl.Service, in *body[api.PlainNewTask]) (*plainCreated, error) {
		t, err := one(svc.CreateTasks(ctx, []pawl.NewTask{in.Body.Task()}))
		if err != nil {
			return nil, err
		}
		return &plainCreated{statusOf(http.StatusCreated, t), "/tasks/" + url.PathEscape(t.ID), api.PlainTaskOf(t)}, nil
	})
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
	change(s, "plain_task_cancel", func(ctx context.Context, svc pawl.Service, in *emptyOn) (*answer[api.PlainTask], error) {
		return plainTask(one(svc.CancelTasks(ctx, []pawl.TaskCall{{TaskID: in.ID}})))
	})
	change(s, "plain_task_retry", func(ctx context.Context, svc pawl.Service, in *emptyOn) (*answer[api.PlainTask], error) {
		return plainTask(one(svc.RetryTasks(ctx, []pawl.TaskCall{{TaskID: in.ID}})))
	})
}

func plainTask(t pawl.Task, err error) (*answer[api.PlainTask], error) {
	if err != nil {
		return nil, err
	}
	return reply(api.PlainTaskOf(t), nil)
}
