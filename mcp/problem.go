package mcp

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// problem is an api.Problem without the members of HTTP.
type problem struct {
	api.Members
	Title        string `json:"title"`
	Retryable    bool   `json:"retryable"`
	RetryAfterMS int64  `json:"retry_after_ms,omitempty"`
}

// refusal is the structured answer of a refused call; every tool's output schema allows
// it.
type refusal struct {
	Problem problem `json:"problem"`
}

func problemOf(p api.Problem, err error) problem {
	out := problem{Members: p.Members(), Title: p.Title, Retryable: p.Code.Info().Retryable}
	var e *pawl.Error
	if errors.As(err, &e) {
		out.RetryAfterMS = e.RetryAfter.Milliseconds()
	}
	return out
}

// next says what a model should do about an error.
var next = map[pawl.Code]string{
	pawl.CodeInvalid:         "Correct it and call again; nothing else has changed.",
	pawl.CodeLeaseLost:       "Stop working on this item; check out again.",
	pawl.CodeEffectUnknown:   "Do not make the call again; a person says with work_effect_resolve whether it happened.",
	pawl.CodeNotFound:        "Look it up with work_list or work_get.",
	pawl.CodeConflict:        "Read it again before you decide anew.",
	pawl.CodePrecondition:    "Somebody else has changed it; read it again before you decide anew.",
	pawl.CodeBudgetExhausted: "Do not spend more: on_exhausted says whether to give the item up or to wait, and task_id who is asked.",
	pawl.CodeUnauthenticated: "Ask the operator for an API key.",
	pawl.CodeForbidden:       "Ask a user who has the role.",
	pawl.CodeTooLarge:        "Make it smaller, or submit it in parts.",
	pawl.CodeKeyInFlight:     "Call again in a moment with the same key.",
	pawl.CodeKeyReused:       "Use a new key for a new request.",
	pawl.CodeKeyRequired:     "Send a key in _meta as " + KeyMeta + ".",
	pawl.CodeLimit:           "Wait, then call again.",
	pawl.CodeUnavailable:     "Call again in a moment.",
	pawl.CodeMoved:           "Tell the operator; the work is elsewhere now.",
	pawl.CodeQuarantined:     "Tell the operator; reads work.",
	pawl.CodeInternal:        "This is an error in Pawl, not in your call; tell the operator.",
}

// sentence describes a problem for a model: what is wrong, where, and what to do.
func sentence(p api.Problem) string {
	var b strings.Builder
	switch {
	case p.Code == pawl.CodeLeaseLost:
		b.WriteString(lost(p))
	case p.Detail != "":
		b.WriteString(ended(p.Detail))
	default:
		b.WriteString(ended(p.Title))
	}
	for _, f := range p.Errors {
		fmt.Fprintf(&b, "\n- %s %s", f.Pointer, f.Message)
	}
	if len(p.Errors) > 0 {
		b.WriteString("\n")
	} else {
		b.WriteString(" ")
	}
	if p.Code == pawl.CodeConflict && p.State != "" {
		fmt.Fprintf(&b, "Its state is %s", p.State)
		if len(p.Allowed) > 0 {
			fmt.Fprintf(&b, ", which allows: %s", strings.Join(p.Allowed, ", "))
		}
		b.WriteString(". ")
	}
	b.WriteString(next[p.Code])
	return strings.TrimSpace(b.String()) + " (" + string(p.Code) + ")"
}

// lost describes how a lease was lost, and to which worker.
func lost(p api.Problem) string {
	holder, attempt := "", 0
	if p.Holder != nil {
		holder = *p.Holder
	}
	if p.Attempt != nil {
		attempt = *p.Attempt
	}
	switch p.Reason {
	case pawl.ReasonExpired:
		return fmt.Sprintf("The lease of attempt %d ran out.", attempt)
	case pawl.ReasonReleased:
		return fmt.Sprintf("The lease of attempt %d was given back.", attempt)
	}
	return fmt.Sprintf("The lease was lost to %s, attempt %d.", holder, attempt)
}

func ended(s string) string {
	return strings.ToUpper(s[:1]) + strings.TrimSuffix(s[1:], ".") + "."
}
