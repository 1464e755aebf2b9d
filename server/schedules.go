package server

import (
	"context"
	"net/http"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// schedulesRoutes registers the calls of schedules, and the one that receives webhooks.
func (s *server) schedulesRoutes() {
	s.inboundRoutes()
	change(s, "create_schedule", func(ctx context.Context, svc pawl.Service, in *body[pawl.NewSchedule]) (*struct {
		Status int
		Body   pawl.Schedule
	}, error) {
		made, err := svc.CreateSchedule(ctx, in.Body)
		if err != nil {
			return nil, err
		}
		return &struct {
			Status int
			Body   pawl.Schedule
		}{statusOf(http.StatusCreated, made), made}, nil
	})
	add(s, "list_schedules", func(ctx context.Context, in *api.Paging) (*answer[pawl.List[pawl.Schedule]], error) {
		return page(s.svc.ListSchedules(ctx, in.Page()))
	})
	add(s, "get_schedule", func(ctx context.Context, in *member) (*answer[pawl.Schedule], error) {
		return reply(s.svc.GetSchedule(ctx, in.ID))
	})
	add(s, "schedule_firings", func(ctx context.Context, in *struct {
		ID string `path:"id" doc:"The schedule's name."`
		api.Paging
	}) (*answer[pawl.List[pawl.Firing]], error) {
		return page(s.svc.ListFirings(ctx, pawl.FiringFilter{Schedule: in.ID, Page: in.Page()}))
	})
	change(s, "pause_schedule", func(ctx context.Context, svc pawl.Service, in *emptyOn) (*answer[pawl.Schedule], error) {
		return reply(svc.PauseSchedule(ctx, in.ID))
	})
	change(s, "resume_schedule", func(ctx context.Context, svc pawl.Service, in *emptyOn) (*answer[pawl.Schedule], error) {
		return reply(svc.ResumeSchedule(ctx, in.ID))
	})
	change(s, "run_schedule", func(ctx context.Context, svc pawl.Service, in *emptyOn) (*answer[pawl.Schedule], error) {
		return reply(svc.RunSchedule(ctx, in.ID))
	})
	change(s, "delete_schedule", func(ctx context.Context, svc pawl.Service, in *member) (*nothing, error) {
		return &nothing{}, svc.DeleteSchedule(ctx, in.ID)
	})
}
