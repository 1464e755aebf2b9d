package mcpgate

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/internal/gate"
)

// call takes a call of a tool: it passes it on, or makes it an effect.
func (p *Proxy) call(ctx context.Context, m *message) {
	c, err := readToolCall(m.Params)
	if err != nil || c.Name == "" {
		p.toClient(ctx, errorTo(m.ID, codeInvalidParams, "the call names no tool"))
		return
	}
	rule := p.rule(c.Name)
	if rule.Deny {
		p.refuse(ctx, m, &pawl.Error{Code: pawl.CodeForbidden, Message: "the tool " + c.Name + " is not allowed here"})
		return
	}
	h := p.hintsOf(ctx, &c)
	if rule.Read || h.ReadOnlyHint && !rule.Approve && rule.Budget == "" {
		p.forward(ctx, m)
		return
	}
	f := p.identify(&c)
	if c.Resumes && p.goesOn(m, f) {
		p.forwardCall(ctx, m, f)
		return
	}
	out, err := p.open(ctx, &c, f, rule, h.IdempotentHint || rule.Repeatable)
	switch {
	case err != nil:
		p.refuse(ctx, m, err)
	case out.Send:
		p.sent.Meet(f.key)
		f.effect, f.sending = out.ID, out.Sending
		if !p.takeOff(m, f) {
			p.failed(ctx, f, "not_sent", "the id of the request is that of another one")
			p.toClient(ctx, errorTo(m.ID, codeInvalidRequest, "a request with this id is not answered yet"))
			return
		}
		p.forwardCall(ctx, m, f)
	case out.State == pawl.EffectDone:
		p.sent.Meet(f.key)
		p.sent.Count(f.digest)
		p.toClient(ctx, responseTo(m.ID, marked(out.Answer, out.ID, true)))
	default:
		p.refuse(ctx, m, notNow(&out))
	}
}

// notNow says why an effect is not sent now.
func notNow(out *pawl.OpenedEffect) error {
	e := &pawl.Error{Code: pawl.CodeConflict, EffectID: out.ID, State: string(out.State)}
	switch out.State {
	case pawl.EffectWaiting:
		e.Message = "effect " + out.ID + " waits for a person to approve it; call again later with the same arguments"
	case pawl.EffectFailed:
		e.Code, e.Message = pawl.CodeForbidden, "effect "+out.ID+" was rejected"
	default:
		e.Reason, e.Message = pawl.ReasonEffectOpen, "effect "+out.ID+" is being sent; call again later with the same arguments"
	}
	return e
}

func (p *Proxy) refuse(ctx context.Context, m *message, err error) {
	p.toClient(ctx, responseTo(m.ID, refusal(err)))
}

// identify returns the key and digest of a call: what the client says, or the item, the call, and how many
// equal ones of this session were answered before.
func (p *Proxy) identify(c *toolCall) *flight {
	f := &flight{digest: gate.Digest(p.Name, c.Name, string(canonical(c.Arguments)))}
	if own := c.Meta[KeyMeta]; own != nil && json.Unmarshal(own, &f.key) == nil && f.key != "" {
		return f
	}
	f.key = gate.KeyOf(p.Fence.ItemID, f.digest, strconv.Itoa(p.sent.Answered(f.digest)))
	return f
}

// takeOff notes a call that is sent now. It returns false if its id is that of another one.
func (p *Proxy) takeOff(m *message, f *flight) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.flights[idOf(m.ID)] != nil {
		return false
	}
	p.flights[idOf(m.ID)] = f
	return true
}

// goesOn reports whether a call carries on one that has asked for input. Its effect is still open.
func (p *Proxy) goesOn(m *message, f *flight) bool {
	p.mu.Lock()
	asked := p.going[f.key]
	delete(p.going, f.key)
	p.mu.Unlock()
	if asked == nil {
		return false
	}
	f.effect, f.sending, f.amount, f.charge = asked.effect, asked.sending, asked.amount, asked.charge
	return p.takeOff(m, f)
}

// open opens the effect of a call, and waits for an approval, or while an equal call is being sent.
func (p *Proxy) open(ctx context.Context, c *toolCall, f *flight, rule Tool, repeatable bool) (out pawl.OpenedEffect, err error) {
	name := p.Name + " " + c.Name
	if runes := []rune(name); len(runes) > pawl.MaxEffectNameLen {
		name = string(runes[:pawl.MaxEffectNameLen])
	}
	if rule.AmountAt != "" {
		if rule.Amount, err = gate.AmountAt(c.Arguments, rule.AmountAt); err != nil {
			return out, err
		}
	}
	f.amount, f.charge = rule.Amount, rule.Charge
	ask := false
	if rule.Changed != "new" && !rule.Approve {
		ask, err = p.sent.Changed(ctx, p.Ledger, gate.Request{Fence: p.Fence, Upstream: p.Name, Key: f.key, Digest: f.digest})
		if err != nil {
			return out, err
		}
	}
	call := pawl.OpenEffectCall{ItemID: p.Fence.ItemID, WorkerID: p.Fence.WorkerID, Attempt: p.Fence.Attempt, Name: name, Key: f.key,
		RequestHash: f.digest, Repeatable: repeatable, Budget: rule.Budget, Amount: rule.Amount,
		Approve: rule.Approve || ask, LeaseSeconds: p.Lease}
	end := clock.Now().Add(p.Wait)
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, 2*time.Second) {
		out, err = p.Ledger.OpenEffect(ctx, call)
		waits := err == nil && !out.Send && (out.State == pawl.EffectOpen || out.State == pawl.EffectWaiting)
		if !waits || end.Sub(clock.Now()) < pause {
			return out, err
		}
		select {
		case <-ctx.Done():
			return out, ctx.Err()
		case <-time.After(pause):
		}
	}
}

// forwardCall sends a call whose effect is open.
func (p *Proxy) forwardCall(ctx context.Context, m *message, f *flight) {
	if err := p.server.Send(ctx, m); err != nil && p.land(idOf(m.ID)) != nil {
		p.unknown(ctx, f, "the call was not sent whole: "+err.Error())
		p.refuse(ctx, m, &pawl.Error{Code: pawl.CodeEffectUnknown, EffectID: f.effect, State: string(pawl.EffectUnknown),
			Message: "it is not known whether effect " + f.effect + " happened"})
	}
}

// answer records what the server has answered, and then passes it on.
func (p *Proxy) answer(ctx context.Context, m *message, f *flight) {
	if f == nil {
		return
	}
	ctx = context.WithoutCancel(ctx)
	if m.Result == nil {
		p.refused(ctx, m, f)
		return
	}
	var kind struct {
		Type string `json:"resultType"`
	}
	_ = json.Unmarshal(m.Result, &kind) // a result that is no object has none
	if kind.Type == "input_required" {
		p.mu.Lock()
		p.going[f.key] = f
		p.mu.Unlock()
		p.toClient(ctx, m.text)
		return
	}
	charge := gate.Charge(ctx, p.Log, f.effect, m.Result, f.charge, f.amount)
	err := gate.Report(ctx, time.Duration(p.Lease)*time.Second, func(ctx context.Context) error {
		_, err := p.Ledger.EffectDone(ctx, f.effect, pawl.EffectDoneCall{ItemID: p.Fence.ItemID, WorkerID: p.Fence.WorkerID,
			Attempt: p.Fence.Attempt, Sending: f.sending, Answer: m.Result, Amount: charge})
		return err
	})
	if err != nil { // it happened, and nothing says so
		p.Log.ErrorContext(ctx, "the answer of an effect could not be recorded", "effect", f.effect, "error", err)
		p.unknown(ctx, f, "the answer could not be recorded")
		p.refuse(ctx, m, &pawl.Error{Code: pawl.CodeEffectUnknown, EffectID: f.effect, State: string(pawl.EffectUnknown),
			Message: "what became of effect " + f.effect + " could not be recorded"})
		return
	}
	p.sent.Count(f.digest)
	p.toClient(ctx, responseTo(m.ID, marked(m.Result, f.effect, false)))
}

// notRun are the errors that say that the tool did not run.
var notRun = []int{codeParse, codeInvalidRequest, codeNoMethod, codeInvalidParams}

// refused records an error of the protocol. Of most it is not known whether the tool ran.
func (p *Proxy) refused(ctx context.Context, m *message, f *flight) {
	var e struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	}
	_ = json.Unmarshal(m.Error, &e) // an error of another form has no code
	if slices.Contains(notRun, e.Code) {
		p.failed(ctx, f, "refused", fmt.Sprintf("the server answered %d: %s", e.Code, e.Message))
		p.toClient(ctx, m.text)
		return
	}
	p.unknown(ctx, f, fmt.Sprintf("the server answered %d: %s", e.Code, e.Message))
	p.toClient(ctx, m.text)
}

// marked adds to an answer which effect it is of. What a person said happened may have any form.
func marked(answer json.RawMessage, effect string, replayed bool) json.RawMessage {
	var result, meta map[string]json.RawMessage
	if json.Unmarshal(answer, &result) != nil || result == nil ||
		result["content"] == nil && result["task"] == nil && result["resultType"] == nil && replayed {
		text := string(answer)
		result = map[string]json.RawMessage{"content": encode([]any{map[string]any{"type": "text", "text": text}})}
	}
	_ = json.Unmarshal(result["_meta"], &meta)
	if meta == nil {
		meta = map[string]json.RawMessage{}
	}
	meta[EffectMeta] = encode(effect)
	if replayed {
		meta[ReplayedMeta] = encode(true)
	}
	result["_meta"] = encode(meta)
	return encode(result)
}

func (p *Proxy) failed(ctx context.Context, f *flight, code, why string) {
	err := gate.Report(ctx, endTime, func(ctx context.Context) error {
		_, err := p.Ledger.EffectFailed(ctx, f.effect, pawl.EffectFailedCall{ItemID: p.Fence.ItemID, WorkerID: p.Fence.WorkerID,
			Attempt: p.Fence.Attempt, Sending: f.sending, Error: pawl.Failure{Code: code, Message: why}})
		return err
	})
	if err != nil {
		p.Log.ErrorContext(ctx, "what became of an effect could not be recorded", "effect", f.effect, "error", err)
	}
}

func (p *Proxy) unknown(ctx context.Context, f *flight, why string) {
	err := gate.Report(ctx, endTime, func(ctx context.Context) error {
		_, err := p.Ledger.EffectUnknown(ctx, f.effect, pawl.EffectUnknownCall{ItemID: p.Fence.ItemID, WorkerID: p.Fence.WorkerID,
			Attempt: p.Fence.Attempt, Sending: f.sending, Error: &pawl.Failure{Code: "no_answer", Message: why}})
		return err
	})
	if err != nil { // the lease ends, and then it is unknown too
		p.Log.WarnContext(ctx, "what became of an effect could not be recorded", "effect", f.effect, "error", err)
	}
}
