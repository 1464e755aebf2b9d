package scenario

import (
	"encoding/json"
	"strings"

	"github.com/pawl-work/pawl"
)

func begin(s *stage, c call) (string, error) {
	b, err := first(s.svc.BeginKeys(s.ctx, []pawl.KeyBegin{{
		Scope: c.named["scope"], Key: c.word(0), RequestHash: c.named["hash"], TTLSeconds: int64(c.number("ttl")),
		TaskID: s.id(c.named["task"]), ItemID: s.id(c.named["item"]),
	}}))
	if err != nil {
		return "", err
	}
	if b.Run {
		s.tokens[c.word(0)] = b.Token
		return "run", nil
	}
	return s.keyLine(b.Key), nil
}

// keyLine returns a key in one line.
func (s *stage) keyLine(k pawl.Key) string {
	out := k.Status
	if k.Response != nil {
		out += " " + string(k.Response)
	}
	if k.TaskID != "" {
		out += ", of " + strings.TrimSpace(s.name("task", k.TaskID)+" "+s.name("item", k.ItemID))
	}
	if k.ExpiresAt != nil {
		out += ", expires at " + s.when(*k.ExpiresAt)
	}
	return out
}

func finish(s *stage, c call) (string, error) {
	k, err := first(
		s.svc.CompleteKeys(
			s.ctx,
			[]pawl.KeyDone{{Scope: c.named["scope"], Key: c.word(0), Token: s.tokens[c.word(0)], Response: json.RawMessage(c.word(1))}},
		),
	)
	return s.keyLine(k), err
}

func giveUp(s *stage, c call) (string, error) {
	k, err := first(
		s.svc.FailKeys(
			s.ctx,
			[]pawl.KeyDone{{Scope: c.named["scope"], Key: c.word(0), Token: s.tokens[c.word(0)], Response: json.RawMessage(c.word(1))}},
		),
	)
	return s.keyLine(k), err
}
