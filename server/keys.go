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
	add(s, "get_key", func(ctx context.Context, in *struct {
		ID string `path:"id" doc:"The key."`
		api.KeyScope
	}) (*answer[pawl.Key], error) {
		return reply(one(s.svc.GetKeys(ctx, []pawl.KeyName{{Scope: in.Scope, Key: in.ID}})))
	})
	batch(s, api.GetKeys)
	both(s, api.BeginKeys)
	both(s, api.RenewKeys)
	both(s, api.CompleteKeys)
	both(s, api.FailKeys)
}
