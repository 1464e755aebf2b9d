package server

import (
	"context"
	"net/http"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// schedulesRoutes registers the calls of schedules, and the one that receives webhooks.
func (s *server) schedulesRoutes() {
	s.inboundRoutes()
	change(s, "create_schedule", func(ctx context.Context, svc pawl.Service, in *body[pawl.NewSchedule]) (*putSchedule, error) {
		made, err := svc.CreateSchedule(ctx, in.Body)
		if err != nil {
			return nil, err
		}
		return &putSchedule{statusOf(http.StatusCreated, made), made}, nil
	})
	change(s, "put_schedule", func(ctx context.Context, svc pawl.Service, in *struct {
		ID   string `path:"id" doc:"The schedule's name."`
		Body scheduleBody
	}) (*putSchedule, error) {
		if in.Body.Name != "" && in.Body.Name != in.ID {
			return nil, pawl.Invalid("/name", "is not the name in the path; leave it out")
		}
		in.Body.Name = in.ID
		made, err := svc.PutSchedule(ctx, pawl.NewSchedule(in.Body))
		if err != nil {
			return nil, err
		}
		out := &putSchedule{http.StatusOK, made}
		if made.Created {
			out.Status = http.StatusCreated
		}
		return out, nil
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

type (
	// scheduleBody is a pawl.NewSchedule whose name is in the path, and may be here too.
	scheduleBody struct {
		Name          string       `json:"name,omitempty" doc:"That of the path, if it is here."`
		Cron          string       `json:"cron,omitempty"`
		EverySeconds  int          `json:"every_seconds,omitempty"`
		At            *time.Time   `json:"at,omitempty"`
		Zone          string       `json:"zone,omitempty"`
		Task          pawl.NewTask `json:"task"`
		Overlap       pawl.Overlap `json:"overlap,omitempty"`
		CatchUp       pawl.CatchUp `json:"catch_up,omitempty"`
		JitterSeconds int          `json:"jitter_seconds,omitempty"`
	}
	putSchedule struct {
		Status int
		Body   pawl.Schedule
	}
)
