package server

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// keys registers the idempotency keys that callers keep for side effects of
// their own.
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
	change(s, "begin_key", func(ctx context.Context, svc pawl.Service, in *on[api.KeyBeginBody]) (*answer[pawl.KeyBegun], error) {
		b := in.Body
		return reply(one(svc.BeginKeys(ctx, []pawl.KeyBegin{{Scope: b.Scope, Key: in.ID, RequestHash: b.RequestHash,
			TaskID: b.TaskID, ItemID: b.ItemID, TTLSeconds: b.TTLSeconds, LockSeconds: b.LockSeconds}})))
	})
	change(s, "renew_key", func(ctx context.Context, svc pawl.Service, in *on[api.KeyRenewBody]) (*answer[pawl.Key], error) {
		b := in.Body
		return reply(one(svc.RenewKeys(ctx, []pawl.KeyRenew{{Scope: b.Scope, Key: in.ID, Token: b.Token, LockSeconds: b.LockSeconds}})))
	})
	s.endKey("complete_key", pawl.Service.CompleteKeys)
	s.endKey("fail_key", pawl.Service.FailKeys)
	batch(s, "get_keys", is200[pawl.Key], pawl.Service.GetKeys)
	batch(s, "begin_keys", is200[pawl.KeyBegun], pawl.Service.BeginKeys)
	batch(s, "renew_keys", is200[pawl.Key], pawl.Service.RenewKeys)
	batch(s, "complete_keys", is200[pawl.Key], pawl.Service.CompleteKeys)
	batch(s, "fail_keys", is200[pawl.Key], pawl.Service.FailKeys)
}

func (s *server) endKey(name string, verb func(pawl.Service, context.Context, []pawl.KeyDone) ([]pawl.Result[pawl.Key], error)) {
	change(s, name, func(ctx context.Context, svc pawl.Service, in *on[api.KeyDoneBody]) (*answer[pawl.Key], error) {
		b := in.Body
		return reply(one(verb(svc, ctx, []pawl.KeyDone{{Scope: b.Scope, Key: in.ID, Token: b.Token, Response: b.Response}})))
	})
}
