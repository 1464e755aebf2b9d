// Package api defines the wire format of Pawl: the routes, the problem document and the
// envelopes. Requests and answers are the types of package pawl wherever that is possible;
// this package has only those that differ. The server, the client and the other interfaces
// read one list, Routes.
package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

// ProblemType is the media type of a Problem.
const ProblemType = "application/problem+json"

// typePrefix and a code make the type of a problem. It names the error and is not a link;
// programs match on code.
const typePrefix = "urn:pawl:error:"

// Problem is a refusal as defined by RFC 9457, with members of Pawl. A conflict about a state
// has State and Allowed; Allowed is [] in a final state. A lease_lost has Reason, State,
// Holder and Attempt. A conflict with an earlier decision has Holder. A conflict about a
// message's offset has Expected. One of a create with unique has TaskID. One with reason epoch has Position. A budget_exhausted has what
// is left of the budget. A fork from a checkpoint that is not there has Kept.
type Problem struct {
	Type     string       `json:"type"`
	Title    string       `json:"title"` // the same for every problem of its code
	Status   int          `json:"status"`
	Code     pawl.Code    `json:"code"`
	Detail   string       `json:"detail"`             // never empty on the wire: the text of Errors, or the meaning of the code
	Instance string       `json:"instance,omitempty"` // the path of the request
	Errors   []pawl.Field `json:"errors,omitempty"`
	State    string       `json:"state,omitempty"`
	Allowed  []string     `json:"allowed,omitzero"`
	Holder   *string      `json:"holder,omitempty"`
	Attempt  *int         `json:"attempt,omitempty"`
	Reason   string       `json:"reason,omitempty"`
	Expected *int64       `json:"expected,omitempty"` // of an append: the message's current offset
	Position string       `json:"position,omitempty"` // with reason epoch: the EPOCH-POSITION to restart from

	// Of a create with unique: the older task. With budget_exhausted: the one by which the item asks a person.
	TaskID string `json:"task_id,omitempty"`

	URL      string `json:"url,omitempty"`       // of moved: where callers are to go
	EffectID string `json:"effect_id,omitempty"` // of effect_unknown, and of refusals about an effect

	// of a fork: the numbers of the checkpoints that are left, oldest first; at most the newest 100
	Kept []int64 `json:"kept,omitzero"`

	Budget      string     `json:"budget,omitempty"`       // budget_exhausted: its name
	OnExhausted string     `json:"on_exhausted,omitempty"` // what the worker does then: fail, suspend, ask
	Limit       *int64     `json:"limit,omitempty"`        // of the budget
	Remaining   *int64     `json:"remaining,omitempty"`
	Reserved    *int64     `json:"reserved,omitempty"`   // by attempts that have not settled yet
	PeriodEnd   *time.Time `json:"period_end,omitempty"` // absent = the budget has no periods
	SignalKey   string     `json:"signal_key,omitempty"` // of the signal pawl.budget, which is sent when the budget is changed
}

// Members are the members of a Problem that doors other than HTTP have too, under the same names.
type Members struct {
	Type        string       `json:"-"`
	Title       string       `json:"-"`
	Status      int          `json:"-"`
	Code        pawl.Code    `json:"code"`
	Detail      string       `json:"detail"`
	Instance    string       `json:"-"`
	Errors      []pawl.Field `json:"errors,omitempty"`
	State       string       `json:"state,omitempty"`
	Allowed     []string     `json:"allowed,omitzero"`
	Holder      *string      `json:"holder,omitempty"`
	Attempt     *int         `json:"attempt,omitempty"`
	Reason      string       `json:"reason,omitempty"`
	Expected    *int64       `json:"expected,omitempty"`
	Position    string       `json:"position,omitempty"`
	TaskID      string       `json:"task_id,omitempty"`
	URL         string       `json:"url,omitempty"`
	EffectID    string       `json:"effect_id,omitempty"`
	Kept        []int64      `json:"kept,omitzero"`
	Budget      string       `json:"budget,omitempty"`
	OnExhausted string       `json:"on_exhausted,omitempty"`
	Limit       *int64       `json:"limit,omitempty"`
	Remaining   *int64       `json:"remaining,omitempty"`
	Reserved    *int64       `json:"reserved,omitempty"`
	PeriodEnd   *time.Time   `json:"period_end,omitempty"`
	SignalKey   string       `json:"signal_key,omitempty"`
}

// Members returns those of the problem. The conversion compiles only while both have the same fields.
func (p Problem) Members() Members {
	p.Detail = cmp.Or(p.Detail, p.said())
	return Members(p)
}

// ProblemOf returns an error as a problem. An error that is not a *pawl.Error is internal, or
// unavailable if a context ended. The text of an internal error is not sent.
func ProblemOf(err error, instance string) Problem {
	e := asError(err)
	info := e.Code.Info()
	p := Problem{
		Type:     typePrefix + string(info.Code),
		Title:    title(info.Means),
		Status:   info.HTTP,
		Code:     info.Code,
		Instance: instance,
	}
	if info.Code == pawl.CodeInternal {
		return p
	}
	p.Detail, p.Errors, p.State, p.Allowed, p.Reason, p.Expected = e.Message, e.Fields, e.State, e.Allowed, e.Reason, e.Expected
	switch {
	case e.Code == pawl.CodeLeaseLost:
		p.Holder, p.Attempt = &e.Holder, &e.Attempt
	case e.Code == pawl.CodeConflict && e.State != "" && e.Allowed == nil:
		p.Allowed = []string{}
	}
	p.TaskID, p.EffectID, p.URL, p.Kept = e.TaskID, e.EffectID, e.URL, e.Kept
	if e.Restart != nil {
		p.Position = e.Restart.String()
	}
	if x := e.Exhausted; x != nil {
		p.Budget, p.OnExhausted, p.Limit, p.Remaining, p.Reserved = x.Budget, x.OnExhausted, &x.Limit, &x.Remaining, &x.Reserved
		p.PeriodEnd, p.SignalKey, p.TaskID = x.PeriodEnd, x.SignalKey, x.TaskID
	}
	if e.Code == pawl.CodeConflict && e.Holder != "" { // who decided first
		p.Holder = &e.Holder
	}
	return p
}

// MarshalJSON writes the problem with a detail, also if it has no text of its own.
func (p Problem) MarshalJSON() ([]byte, error) {
	type plain Problem
	p.Detail = cmp.Or(p.Detail, p.said())
	return json.Marshal(plain(p))
}

// said returns the detail of a problem that has no text of its own.
func (p Problem) said() string {
	const most = 3
	var b strings.Builder
	for i, f := range p.Errors {
		if i == most {
			fmt.Fprintf(&b, "; and %d more", len(p.Errors)-most)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(strings.TrimSpace(f.Pointer + " " + f.Message))
	}
	return cmp.Or(b.String(), strings.TrimSuffix(p.Code.Info().Means, "."))
}

func asError(err error) *pawl.Error {
	var e *pawl.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return &pawl.Error{Code: pawl.CodeUnavailable}
	}
	return pawl.ErrInternal
}

// title returns the part before the semicolon of a sentence of the table of errors.
func title(means string) string {
	head, _, _ := strings.Cut(means, ";")
	return strings.TrimSuffix(head, ".")
}

// Err returns the error that the problem was made from, as far as it was sent.
func (p Problem) Err() error {
	e := &pawl.Error{
		Code:     cmp.Or(p.Code, pawl.CodeInternal),
		Message:  p.Detail,
		Fields:   p.Errors,
		State:    p.State,
		Allowed:  p.Allowed,
		Reason:   p.Reason,
		Expected: p.Expected,
		TaskID:   p.TaskID,
		URL:      p.URL,
		EffectID: p.EffectID,
		Kept:     p.Kept,
	}
	if p.Detail == p.said() {
		e.Message = ""
	}
	if p.Remaining != nil && p.Limit != nil && p.Reserved != nil {
		e.Exhausted = &pawl.Exhausted{Budget: p.Budget, OnExhausted: p.OnExhausted, Limit: *p.Limit, Remaining: *p.Remaining,
			Reserved: *p.Reserved, PeriodEnd: p.PeriodEnd, SignalKey: p.SignalKey, TaskID: p.TaskID}
	}
	if p.Holder != nil {
		e.Holder = *p.Holder
	}
	if at, err := pawl.ParseFeedPosition(p.Position); err == nil {
		e.Restart = &at
	}
	if p.Attempt != nil {
		e.Attempt = *p.Attempt
	}
	return e
}
