package scenario

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pawl-work/pawl"
)

// by returns the stage on which a command runs: its calls carry the actor and the provenance
// that the command names.
func (s *stage) by(c call) *stage {
	other := *s
	if kind := c.named["as"]; kind != "" {
		caller := pawl.CallerOf(s.ctx)
		caller.ActorType = kind
		other.ctx = pawl.As(s.ctx, caller)
	}
	if agent, key := c.named["by"], c.named["once"]; agent != "" || key != "" {
		p := pawl.Provenance{IdempotencyKey: key}
		s.keys[fmt.Sprintf("%x", sha256.Sum256([]byte(key)))] = key
		p.AgentName, agent, _ = strings.Cut(agent, "/")
		p.AgentVersion, p.Model, _ = strings.Cut(agent, "/")
		other.ctx = pawl.WithProvenance(other.ctx, p)
	}
	return &other
}

func putType(s *stage, c call) (string, error) {
	var t pawl.Type
	if err := json.Unmarshal([]byte(c.word(0)), &t); err != nil {
		return "", err
	}
	ref, err := first(s.svc.PutTypes(s.ctx, []pawl.Type{t}))
	return fmt.Sprintf("%s version %d", ref.Name, ref.Version), err
}

func deliver(s *stage, c call) (string, error) {
	m, err := first(
		s.svc.Submit(
			s.ctx,
			[]pawl.SubmitCall{{Fence: s.fence(c), Result: json.RawMessage(c.word(2)), Evidence: c.raw("evidence"), Notes: c.named["notes"]}},
		),
	)
	return fmt.Sprintf("%s %s", s.name("item", m.ID), m.State), err
}

func putPart(s *stage, c call) (string, error) {
	call := pawl.PartCall{
		Fence:    s.fence(c),
		Key:      c.named["key"],
		Payload:  json.RawMessage(c.word(2)),
		Evidence: c.raw("evidence"),
		Notes:    c.named["notes"],
		Draft:    c.word(3) == "draft",
	}
	if _, found := c.named["seq"]; found {
		n := c.number("seq")
		call.Seq = &n
	}
	p, err := first(s.svc.SubmitParts(s.ctx, []pawl.PartCall{call}))
	return fmt.Sprintf("%s %s", s.name("part", p.ID), p.Status), err
}

func approve(s *stage, c call) (string, error) {
	call := pawl.ApproveCall{TaskID: s.id(c.word(0)), Comment: c.named["comment"]}
	if c.named["limit"] != "" {
		limit := int64(c.number("limit"))
		call.Limit = &limit
	}
	t, err := first(s.svc.ApproveTasks(s.ctx, []pawl.ApproveCall{call}))
	return s.taskLine(t), err
}

func reject(s *stage, c call) (string, error) {
	t, err := first(
		s.svc.RejectTasks(
			s.ctx,
			[]pawl.RejectCall{
				{TaskID: s.id(c.word(0)), Errors: []pawl.Complaint{{Code: c.word(1), Message: c.word(2)}}, AllowRework: c.word(3) == "rework"},
			},
		),
	)
	return s.taskLine(t), err
}

// readProvenance writes who did what: the verb and its subject, by whom, under which key, and
// what the event says.
func readProvenance(s *stage, c call) (string, error) {
	f := pawl.ProvenanceFilter{TaskID: s.id(c.word(0))}
	if strings.HasPrefix(f.TaskID, "itm_") {
		f = pawl.ProvenanceFilter{ItemID: f.TaskID}
	}
	list, err := s.svc.ListProvenance(s.ctx, f)
	var out strings.Builder
	for _, p := range list.Items {
		about := s.name("task", p.TaskID)
		if p.ItemID != "" {
			about = fmt.Sprintf("%s attempt %d", s.name("item", p.ItemID), p.Attempt)
		}
		fmt.Fprintf(&out, "%s %s %s by %s", s.when(p.CreatedAt), p.Verb, about, strings.Join([]string{p.AgentName, p.AgentVersion, p.Model}, "/"))
		if p.AgentID != "" {
			fmt.Fprintf(&out, ", agent %s", p.AgentID)
		}
		if key := s.keys[p.IdempotencyKey]; key != "" { // a client also makes keys of its own
			fmt.Fprintf(&out, ", key %s", key)
		}
		if len(p.RequestFingerprint) != 64 {
			fmt.Fprintf(&out, ", fingerprint %q", p.RequestFingerprint)
		}
		if p.Data != nil && p.Verb != "create" {
			fmt.Fprintf(&out, ": %s", p.Data)
		}
		fmt.Fprintln(&out)
	}
	if len(list.Items) == 0 {
		return "none", err
	}
	return out.String(), err
}
