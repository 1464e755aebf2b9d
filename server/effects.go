package server

import (
	"cmp"
	"context"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
)

// effects registers the calls for effects.
func (s *server) effects() {
	add(s, "list_effects", func(ctx context.Context, in *api.EffectQuery) (*answer[pawl.List[pawl.EffectRecord]], error) {
		task, err := in.OfTask.Of()
		if err != nil {
			return nil, err
		}
		item, err := in.OfItem.Of()
		if err != nil {
			return nil, err
		}
		return page(s.svc.ListEffects(ctx, in.Filter(task, item)))
	})
	add(s, "get_effect", func(ctx context.Context, in *member) (*answer[pawl.EffectRecord], error) {
		return reply(s.svc.GetEffect(ctx, in.ID))
	})
	add(s, "effect_receipt", func(ctx context.Context, in *member) (*answer[pawl.EffectReceipt], error) {
		return reply(s.svc.EffectReceipt(ctx, in.ID))
	})
	type opening struct{ Body pawl.OpenEffectCall }
	change(s, "open_effect", func(ctx context.Context, svc pawl.Service, in *opening) (*answer[pawl.OpenedEffect], error) {
		if in.Body.WaitSeconds <= 0 {
			return reply(svc.OpenEffect(ctx, in.Body))
		}
		waiting, end, err := s.longCall(ctx)
		if err != nil {
			return nil, err
		}
		defer end()
		if k := callOf(ctx).keyed; k != nil {
			s.awaitEffect(waiting, k, &in.Body)
			if why := access.Ended(waiting); why != nil {
				return nil, why
			}
			return reply(svc.OpenEffect(ctx, in.Body))
		}
		return reply(openWaiting(ctx, waiting, svc, in.Body))
	})
	change(s, "report_effect_done", effectVerb(pawl.Service.EffectDone))
	change(s, "report_effect_failed", effectVerb(pawl.Service.EffectFailed))
	change(s, "report_effect_unknown", effectVerb(pawl.Service.EffectUnknown))
	change(s, "keep_effect", effectVerb(pawl.Service.KeepEffect))
	change(s, "approve_effect", effectVerb(pawl.Service.ApproveEffect))
	change(s, "reject_effect", effectVerb(pawl.Service.RejectEffect))
	change(s, "resolve_effect", effectVerb(pawl.Service.ResolveEffect))
}

// openWaiting opens an effect, and waits while it is open elsewhere or waits to be approved. The end of waiting cuts the wait
// short, and no opening: its caller would not know whether it may send.
func openWaiting(ctx, waiting context.Context, svc pawl.Service, call pawl.OpenEffectCall) (out pawl.OpenedEffect, err error) {
	until := time.After(time.Duration(call.WaitSeconds) * time.Second)
	waits := call.WaitSeconds <= pawl.MaxWaitSeconds // else it is refused
	if waits {
		call.WaitSeconds = 0
	}
	for pause := effectPause; ; pause = min(2*pause, maxEffectPause) {
		out, err = svc.OpenEffect(ctx, call)
		if err != nil || !waits || out.Send || out.State != pawl.EffectOpen && out.State != pawl.EffectWaiting {
			return out, err
		}
		select {
		case <-until:
			waits = false // the last try
		case <-waiting.Done():
			return out, cmp.Or(access.Ended(waiting), ctx.Err(), error(errStopping))
		case <-time.After(pause):
		}
	}
}

// effectVerb is the handler of a verb on an effect.
func effectVerb[B any](do func(pawl.Service, context.Context, string, B) (pawl.EffectRecord, error),
) func(context.Context, pawl.Service, *onEffect[B]) (*answer[pawl.EffectRecord], error) {
	return func(ctx context.Context, svc pawl.Service, in *onEffect[B]) (*answer[pawl.EffectRecord], error) {
		return reply(do(svc, ctx, in.ID, in.Body))
	}
}

// onEffect is a call about the effect in the path.
type onEffect[B any] struct {
	ID   string `path:"id" doc:"The effect."`
	Body B
}

// The pause between two looks of a call that waits, and the most of them.
const (
	effectPause    = 50 * time.Millisecond
	maxEffectPause = time.Second
)

// awaitEffect waits, before the call begins its key, while the effect of a key is open elsewhere or waits
// to be approved. A call that was answered already waits for nothing: its answer is there.
func (s *server) awaitEffect(ctx context.Context, k *pawl.KeyBegin, call *pawl.OpenEffectCall) {
	until := time.Duration(min(call.WaitSeconds, pawl.MaxWaitSeconds)) * time.Second
	if until <= 0 {
		return
	}
	if known, err := s.svc.GetKeys(ctx, []pawl.KeyName{{Scope: k.Scope, Key: k.Key}}); err != nil || len(known) == 0 || known[0].Err == nil {
		return
	}
	key := call.Key
	if key == "" {
		key = call.ItemID + "/" + call.Name
	}
	ctx, cancel := context.WithTimeout(ctx, until)
	defer cancel()
	for pause := effectPause; ctx.Err() == nil; pause = min(2*pause, maxEffectPause) {
		f := pawl.EffectFilter{Key: key, ItemID: call.ItemID, Page: pawl.Page{Limit: 1}}
		list, err := s.svc.ListEffects(ctx, f) // in a fork, the key's effect there
		if err == nil && len(list.Items) == 0 {
			f.ItemID = ""
			list, err = s.svc.ListEffects(ctx, f)
		}
		if err != nil || len(list.Items) == 0 || !waits(&list.Items[0]) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// waits reports whether an effect is open elsewhere, or has no approval yet.
func waits(f *pawl.EffectRecord) bool {
	return f.State == pawl.EffectOpen || f.State == pawl.EffectWaiting && f.Approval == "asked"
}
