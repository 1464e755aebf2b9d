package server

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/internal/nearest"
)

// meantTime bounds the search for a name that was meant.
const meantTime = 250 * time.Millisecond

// listed are the things that have names, by the noun of a refusal: the route that lists them, and its names.
var listed = map[string]struct {
	list  string
	names func(ctx context.Context, s pawl.Service, p pawl.Page) ([]string, error)
}{
	"type": {"list_types", func(ctx context.Context, s pawl.Service, p pawl.Page) ([]string, error) {
		l, err := s.ListTypes(ctx, pawl.TypeFilter{Page: p})
		return namesOf(l.Items, func(t pawl.Type) string { return t.Name }), err
	}},
	"queue": {"list_queues", func(ctx context.Context, s pawl.Service, p pawl.Page) ([]string, error) {
		l, err := s.ListQueues(ctx, p)
		return namesOf(l.Items, func(q pawl.Queue) string { return q.Type }), err
	}},
	"budget": {"list_budgets", func(ctx context.Context, s pawl.Service, p pawl.Page) ([]string, error) {
		l, err := s.ListBudgets(ctx, p)
		return namesOf(l.Items, func(b pawl.Budget) string { return b.Name }), err
	}},
	"schedule": {"list_schedules", func(ctx context.Context, s pawl.Service, p pawl.Page) ([]string, error) {
		l, err := s.ListSchedules(ctx, p)
		return namesOf(l.Items, func(x pawl.Schedule) string { return x.Name }), err
	}},
	"relay": {"list_relays", func(ctx context.Context, s pawl.Service, _ pawl.Page) ([]string, error) {
		l, err := s.ListRelays(ctx)
		return namesOf(l.Items, func(r pawl.Relay) string { return r.Sink }), err
	}},
}

func namesOf[T any](items []T, name func(T) string) []string {
	names := make([]string, len(items))
	for i := range items {
		names[i] = name(items[i])
	}
	return names
}

// meant adds to a refusal about a name that is not there the names that may be meant, if the caller may list them. One
// search runs at a time, over one page; a call that comes meanwhile is refused without names.
func (s *server) meant(ctx context.Context, err error) error {
	var e *pawl.Error
	if !errors.As(err, &e) || e.Code != pawl.CodeNotFound {
		return err
	}
	noun, name, _ := strings.Cut(strings.TrimPrefix(e.Message, "no "), " ")
	things, ok := listed[noun]
	if !ok {
		return err
	}
	if r := api.RouteOf(things.list); access.Of(ctx).May(string(r.Role), r.Has(api.Global)) != nil || !s.searching.TryLock() {
		return err
	}
	defer s.searching.Unlock()
	ctx, cancel := context.WithTimeout(ctx, meantTime)
	defer cancel()
	known, _ := things.names(ctx, s.svc, pawl.Page{Limit: pawl.MaxPage}) // a hint, no more
	out := *e
	out.Message += nearest.Question(name, known)
	return &out
}
