package rules

import (
	"strings"

	"github.com/pawl-work/pawl"
)

// Actor is a caller that decides about a task.
type Actor struct {
	Type, ID string
	Key      string // the API key that the call came with; "" = none
}

// NotSeparate returns the refusal of an approver that asked for the task or worked on it;
// did says which. An agent without an API key has the name that it states: all such
// agents count as one.
func NotSeparate(by Actor, did string) error {
	who := "the caller (" + strings.TrimSuffix(by.Type+"/"+by.ID, "/") + ")"
	switch {
	case by.Key != "":
		who += ", or its API key,"
	case by.Type == pawl.ActorAgent:
		who += ", or another agent without an API key,"
	}
	return &pawl.Error{Code: pawl.CodeForbidden, Op: "approve", Message: who + " " + did + ": another person or API key must approve it"}
}
