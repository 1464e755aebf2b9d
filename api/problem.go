// Package api is the wire of Pawl: the routes, the problem document and the
// envelopes. What a call takes and answers are the types of package pawl
// themselves wherever that is possible; here is only where the wire differs.
// The server, the client and other doors read one list, Routes.
package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/pawl-work/pawl"
)

// ProblemType is the media type of a Problem.
const ProblemType = "application/problem+json"

// typePrefix makes the problem's type out of its code. It names the error and
// points nowhere; programs match on code.
const typePrefix = "urn:pawl:error:"

// Problem is a refusal as RFC 9457 writes it, with Pawl's own members. Every
// conflict about a state carries State and Allowed, [] at an end; every
// lease_lost carries Reason, State, Holder and Attempt; a conflict about what
// somebody else decided, Holder; one about a message's offset, Expected; one with
// reason epoch, Position.
type Problem struct {
	Type     string       `json:"type"`
	Title    string       `json:"title"` // the same for every problem of its code
	Status   int          `json:"status"`
	Code     pawl.Code    `json:"code"`
	Detail   string       `json:"detail"`             // on the wire never empty: what Errors say, or what the code means
	Instance string       `json:"instance,omitempty"` // the path that was asked for
	Errors   []pawl.Field `json:"errors,omitempty"`
	State    string       `json:"state,omitempty"`
	Allowed  []string     `json:"allowed,omitzero"`
	Holder   *string      `json:"holder,omitempty"`
	Attempt  *int         `json:"attempt,omitempty"`
	Reason   string       `json:"reason,omitempty"`
	Expected *int64       `json:"expected,omitempty"` // of an append: the offset that the message has
	Position string       `json:"position,omitempty"` // with reason epoch: EPOCH-POSITION to restart from
}

// ProblemOf writes an error as a problem. What is not a *pawl.Error is
// internal, or unavailable where a context ended; nothing of an internal
// error's text is sent.
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
	if e.Restart != nil {
		p.Position = e.Restart.String()
	}
	if e.Code == pawl.CodeConflict && e.Holder != "" { // who decided first
		p.Holder = &e.Holder
	}
	return p
}

// MarshalJSON writes the problem whole, a detail included.
func (p Problem) MarshalJSON() ([]byte, error) {
	type plain Problem
	p.Detail = cmp.Or(p.Detail, p.said())
	return json.Marshal(plain(p))
}

// said is the detail of a problem that has no text of its own.
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

// title is the first half of a sentence of the table of errors.
func title(means string) string {
	head, _, _ := strings.Cut(means, ";")
	return strings.TrimSuffix(head, ".")
}

// Err is the error that the problem was written from, as far as it was sent.
func (p Problem) Err() error {
	e := &pawl.Error{
		Code:     cmp.Or(p.Code, pawl.CodeInternal),
		Message:  p.Detail,
		Fields:   p.Errors,
		State:    p.State,
		Allowed:  p.Allowed,
		Reason:   p.Reason,
		Expected: p.Expected,
	}
	if p.Detail == p.said() {
		e.Message = ""
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
