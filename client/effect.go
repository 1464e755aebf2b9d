package client

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// OpenEffect asks for the right to send an effect; see pawl.EffectSender.
func (c *Client) OpenEffect(ctx context.Context, call pawl.OpenEffectCall) (pawl.OpenedEffect, error) {
	return write[pawl.OpenedEffect](ctx, c, "open_effect", "", call)
}

// EffectDone reports that an effect happened; see pawl.EffectSender.
func (c *Client) EffectDone(ctx context.Context, id string, call pawl.EffectDoneCall) (pawl.EffectRecord, error) {
	return write[pawl.EffectRecord](ctx, c, "report_effect_done", id, call)
}

// EffectFailed reports that an effect did not happen; see pawl.EffectSender.
func (c *Client) EffectFailed(ctx context.Context, id string, call pawl.EffectFailedCall) (pawl.EffectRecord, error) {
	return write[pawl.EffectRecord](ctx, c, "report_effect_failed", id, call)
}

// EffectUnknown reports that it is not known whether an effect happened; see pawl.EffectSender.
func (c *Client) EffectUnknown(ctx context.Context, id string, call pawl.EffectUnknownCall) (pawl.EffectRecord, error) {
	return write[pawl.EffectRecord](ctx, c, "report_effect_unknown", id, call)
}

// KeepEffect extends the lease of a gate that sends an effect; see pawl.EffectSender.
func (c *Client) KeepEffect(ctx context.Context, id string, call pawl.KeepEffectCall) (pawl.EffectRecord, error) {
	return write[pawl.EffectRecord](ctx, c, "keep_effect", id, call)
}

// ApproveEffect lets an effect be sent; see pawl.EffectDecider.
func (c *Client) ApproveEffect(ctx context.Context, id string, call pawl.EffectDecision) (pawl.EffectRecord, error) {
	return write[pawl.EffectRecord](ctx, c, "approve_effect", id, call)
}

// RejectEffect makes an effect failed that waits to be sent; see pawl.EffectDecider.
func (c *Client) RejectEffect(ctx context.Context, id string, call pawl.EffectDecision) (pawl.EffectRecord, error) {
	return write[pawl.EffectRecord](ctx, c, "reject_effect", id, call)
}

// ResolveEffect decides an unknown effect; see pawl.EffectDecider.
func (c *Client) ResolveEffect(ctx context.Context, id string, call pawl.ResolveEffectCall) (pawl.EffectRecord, error) {
	return write[pawl.EffectRecord](ctx, c, "resolve_effect", id, call)
}

// GetEffect reads an effect; see pawl.EffectReader.
func (c *Client) GetEffect(ctx context.Context, id string) (pawl.EffectRecord, error) {
	return read[pawl.EffectRecord](ctx, c, "get_effect", id, nil)
}

// ListEffects lists effects; see pawl.EffectReader.
func (c *Client) ListEffects(ctx context.Context, f pawl.EffectFilter) (pawl.List[pawl.EffectRecord], error) {
	return read[pawl.List[pawl.EffectRecord]](ctx, c, "list_effects", "", api.EffectQueryOf(f))
}

// EffectReceipt proves what became of an effect; see pawl.EffectReader.
func (c *Client) EffectReceipt(ctx context.Context, id string) (pawl.EffectReceipt, error) {
	return read[pawl.EffectReceipt](ctx, c, "effect_receipt", id, nil)
}
