package api

import (
	"github.com/pawl-work/pawl"
)

// These types are the bodies of approve and reject: the call without the task, and with the
// version, which If-Match may also name.
type (
	// ApproveBody approves a task.
	ApproveBody struct {
		Version    *int             `json:"version,omitempty" doc:"The version that the task must still have, as If-Match says it; absent = any."`
		Comment    string           `json:"comment,omitempty"`
		Provenance *pawl.Provenance `json:"provenance,omitempty"`
	}
	// RejectBody rejects a task.
	RejectBody struct {
		Version     *int             `json:"version,omitempty" doc:"The version that the task must still have, as If-Match says it; absent = any."`
		Errors      []pawl.Complaint `json:"errors"`
		AllowRework bool             `json:"allow_rework,omitempty"`
		ItemIDs     []string         `json:"items,omitempty"`
		Comment     string           `json:"comment,omitempty"`
		Provenance  *pawl.Provenance `json:"provenance,omitempty"`
	}
)

// PartQuery is a pawl.PartFilter without its item.
type PartQuery struct {
	Key string `query:"key" doc:"Of this key."`
	All bool   `query:"all" doc:"Those that a later part took the place of too."`
	Paging
}

// PartQueryOf returns a filter as a query.
func PartQueryOf(f pawl.PartFilter) PartQuery {
	return PartQuery{Key: f.Key, All: f.All, Paging: PagingOf(f.Page)}
}
