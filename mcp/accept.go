package mcp

import (
	"context"
	"encoding/json"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// acceptTools are the tools that submit results and decide on them.
func acceptTools() map[string]verb {
	return map[string]verb{
		"work_submit":      of(submit),
		"work_submit_part": of(submitPart),
		"work_list_parts":  of(listParts),
		"work_finalize":    of(finalize),
		"work_approve":     of(approve),
		"work_reject":      of(reject),
	}
}

type submitIn struct {
	holding
	Result   json.RawMessage `json:"result" jsonschema:"any JSON that fits the type's result_schema"`
	Evidence json.RawMessage `json:"evidence,omitempty" jsonschema:"what the result rests on; some types require it"`
	Notes    string          `json:"notes,omitempty" jsonschema:"for the approver"`
}

func submit(ctx context.Context, s *Server, in submitIn) (itemOut, error) {
	return move(ctx, s, api.Submit, pawl.SubmitCall{Fence: in.fence(), Result: in.Result, Evidence: in.Evidence, Notes: in.Notes})
}

type submitPartIn struct {
	holding
	Key      string          `json:"key" jsonschema:"which piece: one of the type's parts"`
	Seq      *int            `json:"seq,omitempty" jsonschema:"of a repeatable part: its number, from 0"`
	Payload  json.RawMessage `json:"payload" jsonschema:"any JSON that fits the part's schema"`
	Evidence json.RawMessage `json:"evidence,omitempty" jsonschema:"what it rests on; some types require it"`
	Notes    string          `json:"notes,omitempty"`
	Draft    bool            `json:"draft,omitempty" jsonschema:"true: kept unchecked, and not part of the result"`
}

type partOut struct {
	Part pawl.ItemPart `json:"part"`
}

func submitPart(ctx context.Context, s *Server, in submitPartIn) (partOut, error) {
	p, err := one(s.svc.SubmitParts(ctx, []pawl.PartCall{{Fence: in.fence(), Key: in.Key, Seq: in.Seq, Payload: in.Payload,
		Evidence: in.Evidence, Notes: in.Notes, Draft: in.Draft}}))
	return partOut{p}, err
}

type listPartsIn struct {
	ItemID string `json:"item_id"`
	Key    string `json:"key,omitempty" jsonschema:"only this piece"`
	All    bool   `json:"all,omitempty" jsonschema:"those too that a later part took the place of"`
	paging
}

func listParts(ctx context.Context, s *Server, in listPartsIn) (pageOut[pawl.ItemPart], error) {
	return paged(in.page(), func(p pawl.Page) (pawl.List[pawl.ItemPart], error) {
		return s.svc.ListParts(ctx, pawl.PartFilter{ItemID: in.ItemID, Key: in.Key, All: in.All, Page: p})
	})
}

type finalizeIn struct {
	holding
	Mode     string          `json:"mode,omitempty" jsonschema:"strict (default): all required parts must be validated; best_effort: of what is validated"`
	Evidence json.RawMessage `json:"evidence,omitempty" jsonschema:"what the result rests on; some types require it"`
	Notes    string          `json:"notes,omitempty" jsonschema:"for the approver"`
}

func finalize(ctx context.Context, s *Server, in finalizeIn) (itemOut, error) {
	return move(ctx, s, api.Finalize, pawl.FinalizeCall{Fence: in.fence(), Mode: in.Mode, Evidence: in.Evidence, Notes: in.Notes})
}

type approveIn struct {
	TaskID  string `json:"task_id"`
	Version int    `json:"version" jsonschema:"the task's version that you looked at, as work_get and work_wait answer it"`
	Comment string `json:"comment,omitempty" jsonschema:"for the record"`
	Limit   int64  `json:"limit,omitempty" jsonschema:"budget"`
}

func approve(ctx context.Context, s *Server, in approveIn) (taskOut, error) {
	call := pawl.ApproveCall{TaskID: in.TaskID, Version: &in.Version, Comment: in.Comment}
	if in.Limit != 0 {
		call.Limit = &in.Limit
	}
	t, err := one(s.svc.ApproveTasks(ctx, []pawl.ApproveCall{call}))
	return taskOut{t}, err
}

type rejectIn struct {
	TaskID      string           `json:"task_id"`
	Version     int              `json:"version" jsonschema:"the task's version that you looked at, as work_get and work_wait answer it"`
	Errors      []pawl.Complaint `json:"errors" jsonschema:"why, at least one: a code, a message, and the field as a JSON Pointer into the result"`
	AllowRework bool             `json:"allow_rework,omitempty" jsonschema:"true: send items back to be worked on again; else the task is rejected for good"`
	ItemIDs     []string         `json:"items,omitempty" jsonschema:"rework: only these items; none = all"`
	Comment     string           `json:"comment,omitempty" jsonschema:"for the record"`
}

func reject(ctx context.Context, s *Server, in rejectIn) (taskOut, error) {
	t, err := one(s.svc.RejectTasks(ctx, []pawl.RejectCall{{TaskID: in.TaskID, Version: &in.Version, Errors: in.Errors,
		AllowRework: in.AllowRework, ItemIDs: in.ItemIDs, Comment: in.Comment}}))
	return taskOut{t}, err
}
