package server

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
)

// statsRoutes registers workers, statistics, the transparency log, sweeps and archives.
func (s *server) statsRoutes() {
	add(s, "list_failures", func(ctx context.Context, in *api.FailureQuery) (*answer[pawl.List[pawl.FailureGroup]], error) {
		return page(s.svc.ListFailures(ctx, in.Filter()))
	})
	add(s, "list_workers", func(ctx context.Context, in *api.WorkerQuery) (*answer[pawl.List[pawl.WorkerInfo]], error) {
		return page(s.svc.ListWorkers(ctx, pawl.WorkerFilter{SeenSince: in.SeenSince, Page: in.Page()}))
	})
	change(s, "register_worker", func(ctx context.Context, svc pawl.Service, in *body[api.WorkerBody]) (*nothing, error) {
		return &nothing{}, svc.RegisterWorker(ctx,
			pawl.WorkerInfo{WorkerID: in.Body.WorkerID, Name: in.Body.Name, Version: in.Body.Version, Types: in.Body.Types})
	})
	add(s, "stats", func(ctx context.Context, _ *nothing) (*answer[pawl.Stats], error) {
		stats, err := s.svc.Stats(ctx)
		return reply(access.Of(ctx).Own(stats), err)
	})
	add(s, "list_namespaces", func(ctx context.Context, in *api.Paging) (*answer[pawl.List[pawl.NamespaceInfo]], error) {
		return page(s.svc.ListNamespaces(ctx, in.Page()))
	})
	add(s, "series", func(ctx context.Context, in *api.SeriesQuery) (*answer[pawl.List[pawl.QueueSeries]], error) {
		series, err := s.svc.Series(ctx, in.Query())
		return page(pawl.List[pawl.QueueSeries]{Items: series}, err)
	})
	add(s, "suggest_leases", func(ctx context.Context, in *api.TypesQuery) (*answer[pawl.List[pawl.LeaseAdvice]], error) {
		advice, err := s.svc.SuggestLeases(ctx, in.Type...)
		return page(pawl.List[pawl.LeaseAdvice]{Items: advice}, err)
	})
	add(s, "log_checkpoint", func(ctx context.Context, _ *nothing) (*answer[pawl.LogCheckpoint], error) {
		return reply(s.svc.LogCheckpoint(ctx))
	})
	add(s, "log_task", func(ctx context.Context, in *struct {
		ID string `path:"id" doc:"The task's id."`
		api.Paging
	}) (*answer[pawl.TaskProof], error) {
		return reply(s.svc.ProveTask(ctx, in.ID, in.Page()))
	})
	add(s, "log_consistency", func(ctx context.Context, in *api.LogSizes) (*answer[pawl.LogConsistency], error) {
		return reply(s.svc.ProveLog(ctx, in.From, in.To))
	})
	add(s, "list_sweeps", func(ctx context.Context, in *api.Paging) (*answer[pawl.List[pawl.SweepStats]], error) {
		return page(s.svc.ListSweeps(ctx, in.Page()))
	})
	change(s, "sweep", func(ctx context.Context, svc pawl.Service, _ *empty) (*answer[pawl.SweepStats], error) {
		return reply(svc.Sweep(ctx))
	})
	add(s, "prunable", func(ctx context.Context, _ *nothing) (*answer[pawl.Prunable], error) {
		return reply(s.svc.Prunable(ctx))
	})
	add(s, "list_relays", func(ctx context.Context, _ *nothing) (*answer[pawl.List[pawl.Relay]], error) {
		return page(s.svc.ListRelays(ctx))
	})
	change(s, "resume_relay", func(ctx context.Context, svc pawl.Service, in *onRelay) (*answer[pawl.Relay], error) {
		return reply(svc.ResumeRelay(ctx, in.ID, cmp.Or(in.Body, &api.RelayBody{}).From))
	})
	change(s, "forget_relay", func(ctx context.Context, svc pawl.Service, in *member) (*nothing, error) {
		return &nothing{}, svc.ForgetRelay(ctx, in.ID)
	})
	s.archiveRoutes()
}

func (s *server) archiveRoutes() {
	add(s, "list_archives", func(ctx context.Context, in *api.Paging) (*answer[pawl.List[pawl.Archive]], error) {
		return page(s.svc.ListArchives(ctx, in.Page()))
	})
	change(s, "restore_archive", func(ctx context.Context, svc pawl.Service, in *emptyOn) (*answer[pawl.Task], error) {
		return reply(svc.RestoreArchive(ctx, in.ID))
	})
	change(s, "delete_archive", func(ctx context.Context, svc pawl.Service, in *member) (*nothing, error) {
		return &nothing{}, svc.DeleteArchive(ctx, in.ID)
	})
}

// onRelay may say from where a relay goes on.
type onRelay struct {
	ID   string `path:"id" doc:"The id."`
	Body *api.RelayBody
}

// empty and emptyOn are calls whose body is empty: {} or none.
type (
	empty   struct{ Body *nothing }
	emptyOn struct {
		ID   string `path:"id" doc:"The id."`
		Body *nothing
	}
)

// quarantined is a service over a database that may be a copy: the engine.
type quarantined interface {
	Quarantined() bool
	Acts(ctx context.Context, op string) error
}

type readyAnswer struct {
	Quarantined string `header:"Pawl-Quarantined" doc:"true while the database is quarantined: reads work, and nothing acts."`
	Body        api.Condition
}

// readyTime bounds the check whether the database answers.
const readyTime = 2 * time.Second

var errStopping = &pawl.Error{Code: pawl.CodeUnavailable, Message: "the server is stopping", RetryAfter: time.Second}

// health registers the calls about the server itself: its health and its description.
func (s *server) health() {
	add(s, "health", func(context.Context, *nothing) (*answer[api.Condition], error) {
		return reply(api.Condition{Status: "alive"}, nil)
	})
	add(s, "ready", func(ctx context.Context, _ *nothing) (*readyAnswer, error) {
		if s.opts.Stopping.Err() != nil {
			return nil, errStopping
		}
		ctx, cancel := context.WithTimeout(ctx, readyTime)
		defer cancel()
		if err := s.opts.Ready(ctx); err != nil {
			return nil, err
		}
		out := &readyAnswer{Body: api.Condition{Status: "ready"}}
		if q, ok := s.svc.(quarantined); ok && q.Quarantined() {
			out.Quarantined = "true"
		}
		return out, nil
	})
	add(s, "reference", func(context.Context, *nothing) (*huma.StreamResponse, error) {
		return &huma.StreamResponse{Body: func(c huma.Context) {
			c.SetHeader("Content-Type", "text/html; charset=utf-8")
			c.SetHeader("Content-Security-Policy",
				"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
			_, _ = c.BodyWriter().Write(s.page())
		}}, nil
	})
	add(s, "description", func(context.Context, *nothing) (*huma.StreamResponse, error) {
		return &huma.StreamResponse{Body: func(c huma.Context) {
			c.SetHeader("Content-Type", "application/json")
			_, _ = c.BodyWriter().Write(s.spec())
		}}, nil
	})
}

// doctor registers the check of the whole database, one at a time.
func (s *server) doctor() {
	var checking sync.Mutex
	add(s, "doctor", func(ctx context.Context, in *body[pawl.DoctorCall]) (*answer[pawl.DoctorReport], error) {
		if !checking.TryLock() {
			return nil, &pawl.Error{Code: pawl.CodeLimit, Op: "doctor", Message: "another check runs on this server; try again later",
				RetryAfter: time.Second}
		}
		defer checking.Unlock()
		return reply(s.svc.Doctor(ctx, in.Body))
	})
}

// relaysOfTick bounds what a tick spends on deliveries.
const relaysOfTick = 20 * time.Second

func (s *server) ticks() {
	change(s, "tick", func(ctx context.Context, svc pawl.Service, _ *empty) (*answer[pawl.Ticked], error) {
		return reply(s.tick(ctx, svc))
	})
}

// tick does what is due, and lets the relays deliver what the feed has then.
func (s *server) tick(ctx context.Context, svc pawl.Service) (pawl.Ticked, error) {
	var pushed error
	out, ticked := svc.Tick(ctx)
	if ticked == nil && s.opts.Push != nil {
		var again time.Time
		out.Did.Pushed, again, pushed = s.opts.Push(ctx)
		out.Again(again)
	}
	if s.opts.Relay == nil || ticked != nil {
		return out, errors.Join(ticked, pushed)
	}
	ctx, cancel := context.WithTimeout(ctx, relaysOfTick)
	defer cancel()
	sent, again, err := s.opts.Relay(ctx)
	out.Did.Relayed += sent
	out.Again(again)
	return out, errors.Join(pushed, err)
}
