package server

import (
	"context"
	"net/http"
	"net/url"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

func (s *server) tasks() {
	s.bulkRoutes()
	s.addVerb(verbOf(api.CreateTasks), asCreated)
	s.addVerb(verbOf(api.CloneTasks), asCreated)
	s.addVerb(verbOf(api.ForkTasks), asCreated)
	s.addVerb(verbOf(api.UpdateTasks), asTask)
	s.addVerb(verbOf(api.AddItems), asTask)
	s.addVerb(verbOf(api.CancelTasks), asTask)
	s.addVerb(verbOf(api.RetryTasks), asTask)
	s.addVerb(verbOf(api.BuryTasks), asTask)
	s.addVerb(verbOf(api.CheckpointTasks), asAnswer)
	s.addVerb(verbOf(api.AppendTasks), asAnswer)
	s.addVerb(verbOf(api.PruneTasks), asAnswer)
	s.addVerb(verbOf(api.SendSignals), asAnswer)
	in, read := readBy(func(in *struct {
		ID string `path:"id" doc:"The id."`
		api.DeleteQuery
	}) (pawl.TaskCall, error) {
		return pawl.TaskCall{TaskID: in.ID, Force: in.Force, Reason: in.Reason}, nil
	})
	s.addVerbBy(verbOf(api.DeleteTasks), in, read, asNothing)
	s.readTasks()
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
		list, err := s.itemViews(ctx, f, in.Include)
		if err == nil && len(list.Items) == 0 {
			_, err = s.svc.GetTask(ctx, in.ID) // an unknown task is an error, not an empty list
		}
		return page(list, err)
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

// asTask shows a task with its version as the ETag.
var asTask = show(func(_ context.Context, _ pawl.Service, t pawl.Task) (*versioned, error) {
	return &versioned{ETag: etag(t), Body: t}, nil
})

// asCreated shows a task that a call created or found.
var asCreated = show(func(_ context.Context, _ pawl.Service, t pawl.Task) (*created, error) {
	return &created{Status: statusOf(http.StatusCreated, t), Location: "/v1/tasks/" + url.PathEscape(t.ID), ETag: etag(t), Body: t}, nil
})
