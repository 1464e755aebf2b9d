package mcp

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/pawl-work/pawl"
)

// effectTools are the tools about calls to the outside.
func effectTools() map[string]verb {
	return map[string]verb{
		"work_effects":        of(effects),
		"work_effect_open":    of(openEffect),
		"work_effect_report":  of(reportEffect),
		"work_effect_resolve": of(resolveEffect),
	}
}

type effectsIn struct {
	EffectID string             `json:"effect_id,omitempty" jsonschema:"only this one"`
	States   []pawl.EffectState `json:"states,omitempty" jsonschema:"unknown, waiting, open, done, failed"`
	TaskID   string             `json:"task_id,omitempty"`
	ItemID   string             `json:"item_id,omitempty"`
	paging
}

func effects(ctx context.Context, s *Server, in effectsIn) (pageOut[pawl.EffectRecord], error) {
	if in.EffectID != "" {
		f, err := s.svc.GetEffect(ctx, in.EffectID)
		if err == nil && (in.TaskID != "" && in.TaskID != f.TaskID || in.ItemID != "" && in.ItemID != f.ItemID ||
			len(in.States) > 0 && !slices.Contains(in.States, f.State)) {
			return pageOut[pawl.EffectRecord]{Items: []pawl.EffectRecord{}}, nil
		}
		return pageOut[pawl.EffectRecord]{Items: []pawl.EffectRecord{f}}, err
	}
	return paged(in.page(), func(p pawl.Page) (pawl.List[pawl.EffectRecord], error) {
		return s.svc.ListEffects(ctx, pawl.EffectFilter{States: in.States, TaskID: in.TaskID, ItemID: in.ItemID, Page: p})
	})
}

type openEffectIn struct {
	holding
	Name        string `json:"name" jsonschema:"within the item, such as charge"`
	Key         string `json:"key,omitempty" jsonschema:"its identity in the namespace; the item and the name by default"`
	RequestHash string `json:"request_hash" jsonschema:"a digest of the request"`
	Repeatable  bool   `json:"repeatable,omitempty" jsonschema:"true: the outside recognises the key"`
	Budget      string `json:"budget,omitempty"`
	Amount      int64  `json:"amount,omitempty" jsonschema:"what it costs, with a budget"`
	Approve     bool   `json:"approve,omitempty" jsonschema:"true: a person approves it first"`
}

func openEffect(ctx context.Context, s *Server, in openEffectIn) (pawl.OpenedEffect, error) {
	f := in.fence()
	return s.svc.OpenEffect(ctx, pawl.OpenEffectCall{ItemID: f.ItemID, WorkerID: f.WorkerID, Attempt: f.Attempt, Name: in.Name, Key: in.Key,
		RequestHash: in.RequestHash, Repeatable: in.Repeatable, Budget: in.Budget, Amount: in.Amount, Approve: in.Approve})
}

type reportEffectIn struct {
	holding
	EffectID string           `json:"effect_id"`
	Sending  int              `json:"sending,omitempty" jsonschema:"the number that opening it has answered"`
	State    pawl.EffectState `json:"state" jsonschema:"done: it happened; failed: it is certain that it did not; unknown"`
	Answer   json.RawMessage  `json:"answer,omitempty" jsonschema:"of done: any JSON"`
	Amount   *int64           `json:"amount,omitempty" jsonschema:"of done: what it cost, if it differs"`
	Error    *pawl.Failure    `json:"error,omitempty" jsonschema:"of failed and unknown"`
}

// effectOut returns an effect.
type effectOut struct {
	Effect pawl.EffectRecord `json:"effect"`
}

func reportEffect(ctx context.Context, s *Server, in reportEffectIn) (out effectOut, err error) {
	f := in.fence()
	switch {
	case in.State != pawl.EffectDone && (in.Answer != nil || in.Amount != nil):
		err = pawl.Invalid("/state", "is %q; an answer or amount is for done", in.State)
	case in.State == pawl.EffectDone && in.Error != nil:
		err = pawl.Invalid("/error", "is for failed or unknown")
	case in.State == pawl.EffectDone:
		out.Effect, err = s.svc.EffectDone(ctx, in.EffectID, pawl.EffectDoneCall{ItemID: f.ItemID, WorkerID: f.WorkerID, Attempt: f.Attempt,
			Sending: in.Sending, Answer: in.Answer, Amount: in.Amount})
	case in.State == pawl.EffectFailed && in.Error == nil:
		err = pawl.Invalid("/error", "is required for failed")
	case in.State == pawl.EffectFailed:
		out.Effect, err = s.svc.EffectFailed(ctx, in.EffectID, pawl.EffectFailedCall{ItemID: f.ItemID, WorkerID: f.WorkerID, Attempt: f.Attempt,
			Sending: in.Sending, Error: *in.Error})
	case in.State == pawl.EffectUnknown:
		out.Effect, err = s.svc.EffectUnknown(ctx, in.EffectID, pawl.EffectUnknownCall{ItemID: f.ItemID, WorkerID: f.WorkerID, Attempt: f.Attempt,
			Sending: in.Sending, Error: in.Error})
	default:
		err = pawl.Invalid("/state", "is %q; it must be done, failed or unknown", in.State)
	}
	return out, err
}

type resolveEffectIn struct {
	EffectID string          `json:"effect_id"`
	Decision string          `json:"decision" jsonschema:"of a waiting one: approve or reject; of an unknown one: happened, did_not_happen or give_up"`
	Answer   json.RawMessage `json:"answer,omitempty" jsonschema:"of happened, if there is one"`
	Comment  string          `json:"comment,omitempty" jsonschema:"for the record"`
}

func resolveEffect(ctx context.Context, s *Server, in resolveEffectIn) (out effectOut, err error) {
	decision := pawl.EffectDecision{Comment: in.Comment}
	switch {
	case in.Answer != nil && in.Decision != pawl.Happened:
		err = pawl.Invalid("/answer", "is for the decision happened")
	case in.Decision == "approve":
		out.Effect, err = s.svc.ApproveEffect(ctx, in.EffectID, decision)
	case in.Decision == "reject":
		out.Effect, err = s.svc.RejectEffect(ctx, in.EffectID, decision)
	case slices.Contains(pawl.EffectOutcomes, in.Decision):
		call := pawl.ResolveEffectCall{Outcome: in.Decision, Answer: in.Answer, Comment: in.Comment}
		out.Effect, err = s.svc.ResolveEffect(ctx, in.EffectID, call)
	default:
		err = pawl.Invalid("/decision", "is %q; it must be approve, reject, happened, did_not_happen or give_up", in.Decision)
	}
	return out, err
}
