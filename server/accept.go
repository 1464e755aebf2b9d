package server

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// accept registers what hands in and what decides.
func (s *server) accept() {
	itemVerb(s, "submit", pawl.Service.Submit, func(f pawl.Fence, b api.SubmitBody) pawl.SubmitCall {
		return pawl.SubmitCall{Fence: f, Result: b.Result, Evidence: b.Evidence, Notes: b.Notes, Provenance: b.Provenance}
	})
	itemVerb(s, "finalize", pawl.Service.Finalize, func(f pawl.Fence, b api.FinalizeBody) pawl.FinalizeCall {
		return pawl.FinalizeCall{Fence: f, Mode: b.Mode, Evidence: b.Evidence, Notes: b.Notes, Provenance: b.Provenance}
	})
	change(s, "submit_part", func(ctx context.Context, svc pawl.Service, in *on[api.PartBody]) (*answer[pawl.ItemPart], error) {
		b := in.Body
		return reply(one(svc.SubmitParts(ctx, []pawl.PartCall{{Fence: b.Fence(in.ID), Key: b.Key, Seq: b.Seq, Payload: b.Payload,
			Evidence: b.Evidence, Notes: b.Notes, Draft: b.Draft}})))
	})
	batch(s, "submit_items", is200[pawl.Moved], pawl.Service.Submit)
	batch(s, "finalize_items", is200[pawl.Moved], pawl.Service.Finalize)
	batch(s, "submit_parts", is201[pawl.ItemPart], pawl.Service.SubmitParts)
	add(s, "item_parts", func(ctx context.Context, in *struct {
		ID string `path:"id" doc:"The item's id."`
		api.PartQuery
	}) (*answer[pawl.List[pawl.ItemPart]], error) {
		return page(s.svc.ListParts(ctx, pawl.PartFilter{ItemID: in.ID, Key: in.Key, All: in.All, Page: in.Page()}))
	})
	change(s, "approve_task", func(ctx context.Context, svc pawl.Service, in *struct {
		ID string `path:"id" doc:"The id."`
		Versioned
		Body *api.ApproveBody
	}) (*versioned, error) {
		var b api.ApproveBody
		if in.Body != nil {
			b = *in.Body
		}
		v, err := in.version(b.Version)
		if err != nil {
			return nil, err
		}
		return tagged(one(svc.ApproveTasks(ctx, []pawl.ApproveCall{{TaskID: in.ID, Version: v, Comment: b.Comment, Provenance: b.Provenance}})))
	})
	change(s, "reject_task", func(ctx context.Context, svc pawl.Service, in *struct {
		ID string `path:"id" doc:"The id."`
		Versioned
		Body api.RejectBody
	}) (*versioned, error) {
		b := in.Body
		v, err := in.version(b.Version)
		if err != nil {
			return nil, err
		}
		return tagged(one(svc.RejectTasks(ctx, []pawl.RejectCall{{TaskID: in.ID, Version: v, Errors: b.Errors, AllowRework: b.AllowRework, ItemIDs: b.ItemIDs, Comment: b.Comment, Provenance: b.Provenance}})))
	})
	batch(s, "approve_tasks", is200[pawl.Task], pawl.Service.ApproveTasks)
	batch(s, "reject_tasks", is200[pawl.Task], pawl.Service.RejectTasks)
}
