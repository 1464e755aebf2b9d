package api

import (
	"net/http"

	"github.com/pawl-work/pawl"
)

// Role is the role that an API key must have for a call.
type Role string

// These are the roles, named after the interfaces of package pawl. A call with Anyone needs no
// key.
const (
	Anyone    Role = ""
	Submitter Role = "submitter"
	Claimer   Role = "claimer"
	Approver  Role = "approver"
	Operator  Role = "operator"
	Reader    Role = "reader"
)

// Route is one row of Routes.
type Route struct {
	Name     string // name of the operation, the same in every interface
	Method   string
	Path     string // {id} is one path segment, percent-encoded; a verb follows the last colon
	Role     Role
	Or       Role   // another role that is enough; "" = none
	Success  int    // status of an answer that is not a problem
	Means    string // one sentence, for the API's description
	Traits   Trait
	Found    string      // what 200 means where Success is another status; "" = 200 is not answered
	Stream   string      // what its stream holds; "" = it answers with JSON
	Document string      // content type of an answer that is one whole document; "" = it is not one
	Refuses  []pawl.Code // codes besides those that every call of its kind may refuse with
	Tools    []Tool      // the MCP tools that make this call
	Body     string      // name of a single form's body, where it is not named after its call
	Without  []string    // members of the call that the body of its single form does not have
}

// Tool is an MCP tool that makes a call.
type Tool struct {
	Name, Title string
	Means       string // for the model that chooses a tool
	Hints       ToolHint
}

// ToolHint is what a client may assume about a tool. Hints are bits.
type ToolHint uint8

// These are the hints.
const (
	ToolReads    ToolHint = 1 << iota // changes nothing
	ToolRepeats                       // a repeated call with the same arguments changes nothing more
	ToolDestroys                      // its effect cannot be undone
)

const (
	get   = http.MethodGet
	post  = http.MethodPost
	put   = http.MethodPut
	patch = http.MethodPatch
	del   = http.MethodDelete
)

// Has reports whether the call has a trait.
func (r Route) Has(t Trait) bool { return r.Traits&t != 0 }

// Mutates reports whether the call changes something.
func (r Route) Mutates() bool { return r.Method != http.MethodGet && !r.Has(ReadOnly) }

// TakesKey reports whether the call takes an idempotency key.
func (r Route) TakesKey() bool { return r.Mutates() && !r.Has(NoKey) }

// RouteOf returns the row of a name. It panics if there is none: that is a programmer's error.
func RouteOf(name string) Route {
	for _, r := range Routes {
		if r.Name == name {
			return r
		}
	}
	panic("api: no route " + name)
}

// NamespaceHeader names the namespace of a call. ActorHeader names who makes it: type/id, or a
// type alone. Both are percent-encoded. A server without API keys trusts both.
const (
	NamespaceHeader = "Pawl-Namespace"
	ActorHeader     = "Pawl-Actor"
)

// TaskTokenHeader carries the task token to check.
const TaskTokenHeader = "Pawl-Task-Token"

// These are the headers of idempotency keys. A mutating call with KeyHeader (or the same name
// after X-) is carried out once. Later calls with the key get the first answer again, with
// ReplayedHeader. KeySecondsHeader says for how long; without it, 24 hours.
const (
	KeyHeader        = "Idempotency-Key"
	KeySecondsHeader = "Idempotency-Seconds"
	ReplayedHeader   = "Idempotency-Replayed"
)
