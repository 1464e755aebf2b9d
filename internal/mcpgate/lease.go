package mcpgate

import (
	"context"
	"maps"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/gate"
)

// defaultLease is the length of the gate's own lease in seconds. It is extended three times in that time.
const defaultLease = 15

// keep extends the gate's lease on all calls that are not answered, until the context ends.
func (p *Proxy) keep(ctx context.Context) {
	call := pawl.KeepEffectCall{ItemID: p.Fence.ItemID, WorkerID: p.Fence.WorkerID, Attempt: p.Fence.Attempt, LeaseSeconds: p.Lease}
	defer gate.Renew(ctx, p.Lease, func(ctx context.Context) {
		for _, id := range p.unanswered() {
			if _, err := p.Ledger.KeepEffect(ctx, id, call); err != nil && ctx.Err() == nil { // that of a cancelled call may be unknown by now
				p.Log.WarnContext(ctx, "the lease of the gate was not extended", "effect", id, "error", err)
			}
		}
	})()
	<-ctx.Done()
}

// unanswered returns the effects of calls that are not answered, also of those that wait for input.
func (p *Proxy) unanswered() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for _, f := range slices.AppendSeq(slices.Collect(maps.Values(p.going)), maps.Values(p.flights)) {
		if f.effect != "" && !f.unknown {
			out = append(out, f.effect)
		}
	}
	return out
}
