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
	verbOf(s, api.GetKeys, func(in *struct {
		ID string `path:"id" doc:"The key."`
		api.KeyScope
	}) (pawl.KeyName, error) {
		return pawl.KeyName{Scope: in.Scope, Key: in.ID}, nil
	}, asAnswer)
	verb(s, api.BeginKeys, asAnswer)
	verb(s, api.RenewKeys, asAnswer)
	verb(s, api.CompleteKeys, asAnswer)
	verb(s, api.FailKeys, asAnswer)
}
