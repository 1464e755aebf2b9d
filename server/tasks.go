package server

import (
	"context"
	"net/http"
	"net/url"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

func (s *server) tasks() {
	change(s, "create_task", s.createTask)
	batch(s, "create_tasks", createdStatus, pawl.Service.CreateTasks)
	s.readTasks()
	change(s, "update_task", s.updateTask)
	batch(s, "update_tasks", is200[pawl.Task], pawl.Service.UpdateTasks)
	change(s, "clone_task", func(ctx context.Context, svc pawl.Service, in *struct {
		ID   string `path:"id" doc:"The id."`
		Body *api.TaskLike
	}) (*created, error) {
		c := pawl.TaskClone{TaskID: in.ID}
		if b := in.Body; b != nil {
			c.Payload, c.Title, c.Priority, c.RunAt, c.RequestedBy, c.Metadata = b.Payload, b.Title, b.Priority, b.RunAt, b.RequestedBy, b.Metadata
		}
		return made(one(svc.CloneTasks(ctx, []pawl.TaskClone{c})))
	})
	batch(s, "clone_tasks", is201[pawl.Task], pawl.Service.CloneTasks)
	change(s, "delete_task", func(ctx context.Context, svc pawl.Service, in *struct {
		ID string `path:"id" doc:"The id."`
		api.DeleteQuery
	}) (*nothing, error) {
		_, err := one(svc.DeleteTasks(ctx, []pawl.TaskCall{{TaskID: in.ID, Force: in.Force, Reason: in.Reason}}))
		return &nothing{}, err
	})
	batch(s, "delete_tasks", is200[string], pawl.Service.DeleteTasks)
	change(s, "add_items", func(ctx context.Context, svc pawl.Service, in *on[api.NewItems]) (*versioned, error) {
		return tagged(one(svc.AddItems(ctx, []pawl.AddItems{{TaskID: in.ID, Items: in.Body.Items}})))
	})
	batch(s, "add_items_batch", is200[pawl.Task], pawl.Service.AddItems)
	s.taskVerb("cancel_task", "cancel_tasks", pawl.Service.CancelTasks)
	s.taskVerb("retry_task", "retry_tasks", pawl.Service.RetryTasks)
	s.taskVerb("bury_task", "bury_tasks", pawl.Service.BuryTasks)
	change(s, "checkpoint_task", func(ctx context.Context, svc pawl.Service, in *on[pawl.NewCheckpoint]) (*answer[pawl.CheckpointRef], error) {
		return reply(one(svc.CheckpointTasks(ctx, []pawl.TaskCheckpoint{{TaskID: in.ID, NewCheckpoint: in.Body}})))
	})
	batch(s, "checkpoint_tasks", is201[pawl.CheckpointRef], pawl.Service.CheckpointTasks)
	s.ofTask()
}

// ofTask registers what is read of a task.
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
			_, err = s.svc.GetTask(ctx, in.ID) // an unknown task has no empty list
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

// made answers with a task that a call has created.
func made(t pawl.Task, err error) (*created, error) {
	if err != nil {
		return nil, err
	}
	return &created{Status: createdStatus(t), Location: "/v1/tasks/" + url.PathEscape(t.ID), ETag: etag(t), Body: t}, nil
}

// createdStatus is 200 for a task that its dedupe found.
func createdStatus(t pawl.Task) int {
	if t.Deduplicated {
		return http.StatusOK
	}
	return http.StatusCreated
}

// taskVerb registers cancel, retry or bury and its batch form.
func (s *server) taskVerb(single, several string, verb func(pawl.Service, context.Context, []pawl.TaskCall) ([]pawl.Result[pawl.Task], error)) {
	change(s, single, func(ctx context.Context, svc pawl.Service, in *struct {
		ID   string `path:"id" doc:"The id."`
		Body *api.TaskVerb
	}) (*versioned, error) {
		c := pawl.TaskCall{TaskID: in.ID}
		if in.Body != nil {
			c.ItemIDs, c.Reason = in.Body.ItemIDs, in.Body.Reason
		}
		return tagged(one(verb(svc, ctx, []pawl.TaskCall{c})))
	})
	batch(s, several, is200[pawl.Task], verb)
}
