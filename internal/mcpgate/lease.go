package mcpgate

import (
	"context"
	"maps"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/gate"
)

// A keeper is a Ledger that lets the gate send under a lease of its own: an engine. Over HTTP the attempt is the
// sender, under its own lease.
type keeper interface {
	OpenEffectFor(ctx context.Context, call pawl.OpenEffectCall, gateSeconds int) (pawl.OpenedEffect, error)
	KeepEffect(ctx context.Context, id string, f pawl.Fence, seconds int) error
}

// defaultLease is the length of the gate's own lease in seconds. It is extended three times in that time.
const defaultLease = 15

// openAsSender opens an effect with the gate as its sender, where the ledger knows of gates.
func (p *Proxy) openAsSender(ctx context.Context, call pawl.OpenEffectCall) (pawl.OpenedEffect, error) {
	if k, can := p.Ledger.(keeper); can {
		return k.OpenEffectFor(ctx, call, p.Lease)
	}
	return p.Ledger.OpenEffect(ctx, call)
}

// keep extends the gate's lease on all calls that are not answered, until the context ends.
func (p *Proxy) keep(ctx context.Context) {
	k, can := p.Ledger.(keeper)
	if !can {
		return
	}
	gate.Renew(ctx, p.Lease, func() {
		for _, id := range p.unanswered() {
			if err := k.KeepEffect(ctx, id, p.Fence, p.Lease); err != nil && ctx.Err() == nil { // that of a cancelled call may be unknown by now
				p.Log.WarnContext(ctx, "the lease of the gate was not extended", "effect", id, "error", err)
			}
		}
	})
}

// unanswered returns the effects of calls that are not answered, also of those that wait for input.
func (p *Proxy) unanswered() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := slices.Collect(maps.Values(p.going))
	for _, f := range p.flights {
		if f.effect != "" && !f.unknown {
			out = append(out, f.effect)
		}
	}
	return out
}
