package api

import (
	"encoding/json"

	"github.com/pawl-work/pawl"
)

// The bodies of handing in and deciding: the call without what the path names.
type (
	// SubmitBody hands a result in.
	SubmitBody struct {
		Holder
		Result     json.RawMessage  `json:"result,omitempty"`
		Evidence   json.RawMessage  `json:"evidence,omitempty"`
		Notes      string           `json:"notes,omitempty"`
		Provenance *pawl.Provenance `json:"provenance,omitempty"`
	}
	// FinalizeBody puts the item's parts together and submits what comes of it.
	FinalizeBody struct {
		Holder
		Mode       string           `json:"mode,omitempty"`
		Evidence   json.RawMessage  `json:"evidence,omitempty"`
		Notes      string           `json:"notes,omitempty"`
		Provenance *pawl.Provenance `json:"provenance,omitempty"`
	}
	// PartBody hands a piece of a result in.
	PartBody struct {
		Holder
		Key      string          `json:"key"`
		Seq      *int            `json:"seq,omitempty"`
		Payload  json.RawMessage `json:"payload"`
		Evidence json.RawMessage `json:"evidence,omitempty"`
		Notes    string          `json:"notes,omitempty"`
		Draft    bool            `json:"draft,omitempty"`
	}
	// ApproveBody decides for a task.
	ApproveBody struct {
		Version    *int             `json:"version,omitempty" doc:"The version that the task must still have, as If-Match says it; absent = any."`
		Comment    string           `json:"comment,omitempty"`
		Provenance *pawl.Provenance `json:"provenance,omitempty"`
	}
	// RejectBody decides against a task.
	RejectBody struct {
		Version     *int             `json:"version,omitempty" doc:"The version that the task must still have, as If-Match says it; absent = any."`
		Errors      []pawl.Complaint `json:"errors"`
		AllowRework bool             `json:"allow_rework,omitempty"`
		ItemIDs     []string         `json:"items,omitempty"`
		Comment     string           `json:"comment,omitempty"`
		Provenance  *pawl.Provenance `json:"provenance,omitempty"`
	}
)

// PartQuery is a pawl.PartFilter but for its item.
type PartQuery struct {
	Key string `query:"key" doc:"Of this key."`
	All bool   `query:"all" doc:"Those that a later part took the place of too."`
	Paging
}

// PartQueryOf writes a filter as a query.
func PartQueryOf(f pawl.PartFilter) PartQuery {
	return PartQuery{Key: f.Key, All: f.All, Paging: PagingOf(f.Page)}
}
