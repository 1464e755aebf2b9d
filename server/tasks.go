package server

import (
	"context"
	"net/url"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

func (s *server) tasks() {
	change(s, "create_task", s.createTask)
	batch(s, api.CreateTasks)
	s.readTasks()
	change(s, "update_task", s.updateTask)
	batch(s, api.UpdateTasks)
	single(s, api.CloneTasks, asIs, func(_ context.Context, _ pawl.Service, t pawl.Task) (*created, error) { return made(t, nil) })
	batch(s, api.CloneTasks)
	change(s, "delete_task", func(ctx context.Context, svc pawl.Service, in *struct {
		ID string `path:"id" doc:"The id."`
		api.DeleteQuery
	}) (*nothing, error) {
		_, err := one(svc.DeleteTasks(ctx, []pawl.TaskCall{{TaskID: in.ID, Force: in.Force, Reason: in.Reason}}))
		return &nothing{}, err
	})
	batch(s, api.DeleteTasks)
	onTask(s, api.AddItems)
	s.taskVerb(api.CancelTasks)
	s.taskVerb(api.RetryTasks)
	s.taskVerb(api.BuryTasks)
	both(s, api.CheckpointTasks)
	s.ofTask()
}

// ofTask registers the reads of a task.
func (s *server) ofTask() {
	add(s, "task_result", func(ctx context.Context, in *struct {
		ID string `path:"id" doc:"The task's id."`
		api.ResultQuery
	}) (*answer[pawl.TaskResult], error) {
		if in.Partial {
			return reply(s.svc.PartialResult(ctx, in.ID))
		}
		return reply(s.svc.TaskResult(ctx, in.ID))
	})
	add(s, "task_items", func(ctx context.Context, in *struct {
		ID string `path:"id" doc:"The task's id."`
		api.ItemQuery
		api.ItemShape
	}) (*answer[pawl.List[api.ItemView]], error) {
		f := in.Filter(in.ID)
		f.Fields = in.Fields
		list, err := s.svc.ListItems(ctx, f)
		if err == nil && len(list.Items) == 0 {
			_, err = s.svc.GetTask(ctx, in.ID) // an unknown task is an error, not an empty list
		}
		return page(itemViews(list), err)
	})
	add(s, "task_events", func(ctx context.Context, in *struct {
		ID string `path:"id" doc:"The task's id."`
		api.EventQuery
	}) (*answer[pawl.List[pawl.Event]], error) {
		return page(s.svc.ListEvents(ctx, in.Filter(in.ID, "")))
	})
	add(s, "task_provenance", func(ctx context.Context, in *struct {
		ID string `path:"id" doc:"The task's id."`
		api.Paging
	}) (*answer[pawl.List[pawl.ProvenanceRecord]], error) {
		return page(s.svc.ListProvenance(ctx, pawl.ProvenanceFilter{TaskID: in.ID, Page: in.Page()}))
	})
	add(s, "task_checkpoints", func(ctx context.Context, in *struct {
		ID string `path:"id" doc:"The task's id."`
		api.CheckpointQuery
	}) (*answer[pawl.List[pawl.Checkpoint]], error) {
		f, err := in.Filter(in.ID)
		if err != nil {
			return nil, err
		}
		return page(s.svc.ListCheckpoints(ctx, f))
	})
	add(s, "count_checkpoints", func(ctx context.Context, in *member) (*answer[api.Counts], error) {
		counts, err := s.svc.CountCheckpoints(ctx, in.ID)
		if counts == nil {
			counts = map[string]int64{}
		}
		return reply(api.Counts{Counts: counts}, err)
	})
}

func (s *server) createTask(ctx context.Context, svc pawl.Service, in *body[pawl.NewTask]) (*created, error) {
	return made(one(svc.CreateTasks(ctx, []pawl.NewTask{in.Body})))
}

// made answers with a task that a call created.
func made(t pawl.Task, err error) (*created, error) {
	if err != nil {
		return nil, err
	}
	return &created{Status: statusOf(api.RouteOf("create_task"), t), Location: "/v1/tasks/" + url.PathEscape(t.ID), ETag: etag(t), Body: t}, nil
}

// taskVerb registers cancel, retry or bury. Their body has no force: only delete takes it.
func (s *server) taskVerb(v api.Verb[pawl.TaskCall, pawl.Task]) {
	change(s, v.Single, func(ctx context.Context, svc pawl.Service, in *struct {
		ID   string `path:"id" doc:"The id."`
		Body *api.TaskVerb
	}) (*versioned, error) {
		c := pawl.TaskCall{TaskID: in.ID}
		if in.Body != nil {
			c.ItemIDs, c.Reason = in.Body.ItemIDs, in.Body.Reason
		}
		return tagged(one(v.Do(svc, ctx, []pawl.TaskCall{c})))
	})
	batch(s, v)
}
