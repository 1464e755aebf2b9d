package server

import (
	"context"
	"net/http"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// isStream reports whether the time for a call is not bounded: a stream lasts as long as its reader wants, and the check of a
// large database as long as it takes.
func isStream(r api.Route, c *call) bool {
	return c.streams || r.Has(api.Streams) || r.Has(api.SendsBytes) || r.Has(api.TakesLong)
}

// bounded limits how long a read may take, and how many reads of its key run at once; end
// frees them.
func (s *server) bounded(r *http.Request, route api.Route) (_ *http.Request, end func(), err error) {
	if isStream(route, callOf(r.Context())) {
		return r, func() {}, nil
	}
	ctx, end, err := s.reading(r.Context())
	return r.WithContext(ctx), end, err
}

// reading is bounded for a context.
func (s *server) reading(ctx context.Context) (_ context.Context, end func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.ReadTime)
	leave, err := s.gate.BeginRead(ctx)
	if err != nil {
		cancel()
		return ctx, func() {}, err
	}
	return ctx, func() { leave(); cancel() }, nil
}

// readingIf is reading for a call that may be a dry run.
func (s *server) readingIf(ctx context.Context, dry bool) (_ context.Context, end func(), err error) {
	if !dry {
		return ctx, func() {}, nil
	}
	return s.reading(ctx)
}

// isRead reports whether a call only reads, and reads from the database.
func isRead(r api.Route) bool {
	return r.Method == http.MethodGet && r.Role != api.Anyone || r.Has(api.ReadOnly)
}

// anyDry reports whether one of the calls is a dry run, which only reads too.
func anyDry(calls any) bool {
	tasks, _ := calls.([]pawl.NewTask)
	return slices.ContainsFunc(tasks, func(t pawl.NewTask) bool { return t.DryRun })
}
