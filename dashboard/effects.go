package dashboard

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
)

// effectsPage is the effects that wait for a person, unknown ones first, and all others.
type effectsPage struct {
	Unknown, Waiting, Others section[pawl.EffectRecord]
	Names                    names // of their items
	May                      bool  // the caller may decide
}

// Quiet reports whether there are no effects.
func (p *effectsPage) Quiet() bool {
	return len(p.Unknown.Items)+len(p.Waiting.Items)+len(p.Others.Items) == 0
}

func (d *server) effects(v *request) (any, error) {
	v.shows("/v1/effects?state=unknown", pawlCommand("effect", "ls", "--state=unknown"), pawlCommand("effect", "ls"))
	list := func(cursor string, limit int, states ...pawl.EffectState) section[pawl.EffectRecord] {
		return sectionOf(d.svc.ListEffects(v.Context(), pawl.EffectFilter{States: states, Page: v.pageOf(cursor, limit)}))
	}
	p := &effectsPage{
		Unknown: list("unknown", mediumRows, pawl.EffectUnknown),
		Waiting: list("waiting", mediumRows, pawl.EffectWaiting),
		Others:  list("cursor", mediumRows, pawl.EffectOpen, pawl.EffectDone, pawl.EffectFailed),
		May:     v.pass.May("approver", false) == nil,
	}
	all := slices.Concat(p.Unknown.Items, p.Waiting.Items, p.Others.Items)
	p.Names = d.itemsNamed(v.Context(), distinct(all, func(f pawl.EffectRecord) string { return f.ItemID }))
	return p, nil
}

// effectRows are effects with the names of their items.
type effectRows struct {
	Items []pawl.EffectRecord
	Names names
}

// Rows are those of one list of the page.
func (p *effectsPage) Rows(s section[pawl.EffectRecord]) effectRows {
	return effectRows{s.Items, p.Names}
}

// effectPage is an effect.
type effectPage struct {
	pawl.EffectRecord
	Task, Item ref
	May        bool // the caller may decide
}

// Undecided reports whether a person may say what became of it.
func (p *effectPage) Undecided() bool { return p.State == pawl.EffectUnknown && p.Outcome == "" }

// Asks reports whether it waits for an approval.
func (p *effectPage) Asks() bool { return p.State == pawl.EffectWaiting && p.Approval == "asked" }

func (d *server) effect(v *request) (any, error) {
	f, err := d.svc.GetEffect(v.Context(), v.PathValue("id"))
	if err != nil {
		return nil, err
	}
	p := &effectPage{EffectRecord: f, May: v.pass.May("approver", false) == nil}
	p.Task, p.Item = d.tasksNamed(v.Context(), []string{f.TaskID}).of(f.TaskID), d.itemsNamed(v.Context(), []string{f.ItemID}).of(f.ItemID)
	commands := []command{pawlCommand("effect", "get").on(f.ID)}
	switch {
	case p.Undecided():
		commands = append(commands, pawlCommand("effect", "resolve", "--outcome=happened").on(f.ID))
	case p.Asks():
		commands = append(commands, pawlCommand("effect", "approve").on(f.ID))
	case f.Source == "":
		commands = append(commands, pawlCommand("effect", "receipt").on(f.ID))
	}
	v.shows("/v1/effects/"+escape(f.ID), commands...)
	return p, nil
}

func approveEffect(ctx context.Context, d *server, id string, form url.Values) error {
	_, err := d.svc.ApproveEffect(ctx, id, pawl.EffectDecision{Comment: strings.TrimSpace(form.Get("comment"))})
	return err
}

func rejectEffect(ctx context.Context, d *server, id string, form url.Values) error {
	_, err := d.svc.RejectEffect(ctx, id, pawl.EffectDecision{Comment: strings.TrimSpace(form.Get("comment"))})
	return err
}

// resolveEffect decides as the form says. An answer that is no JSON is refused by the service.
func resolveEffect(ctx context.Context, d *server, id string, form url.Values) error {
	call := pawl.ResolveEffectCall{Outcome: form.Get("outcome"), Comment: strings.TrimSpace(form.Get("comment"))}
	if answer := strings.TrimSpace(form.Get("answer")); answer != "" {
		call.Answer = json.RawMessage(answer)
	}
	_, err := d.svc.ResolveEffect(ctx, id, call)
	return err
}
