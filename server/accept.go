package server

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// accept registers the calls that hand in results and those that decide about tasks.
func (s *server) accept() {
	onItem(s, api.Submit)
	onItem(s, api.Finalize)
	both(s, api.SubmitParts)
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
	batch(s, api.ApproveTasks)
	batch(s, api.RejectTasks)
}
