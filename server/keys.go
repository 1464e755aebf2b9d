package server

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// keys registers the calls for idempotency keys that callers keep for side effects of their
// own.
func (s *server) keys() {
	add(s, "list_keys", func(ctx context.Context, in *api.KeyQuery) (*answer[pawl.List[pawl.Key]], error) {
		f, err := in.Filter()
		if err != nil {
			return nil, err
		}
		return page(s.svc.ListKeys(ctx, f))
	})
	in, read := readBy(func(in *struct {
		ID string `path:"id" doc:"The key."`
		api.KeyScope
	}) (pawl.KeyName, error) {
		return pawl.KeyName{Scope: in.Scope, Key: in.ID}, nil
	})
	s.addVerbBy(verbOf(api.GetKeys), in, read, asAnswer)
	s.addVerb(verbOf(api.BeginKeys), asAnswer)
	s.addVerb(verbOf(api.RenewKeys), asAnswer)
	s.addVerb(verbOf(api.CompleteKeys), asAnswer)
	s.addVerb(verbOf(api.FailKeys), asAnswer)
}
