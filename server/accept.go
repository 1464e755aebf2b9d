package server

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// accept registers the calls that hand in results and those that decide about tasks.
func (s *server) accept() {
	s.addVerb(verbOf(api.Submit), asItem)
	s.addVerb(verbOf(api.Finalize), asItem)
	s.addVerb(verbOf(api.SubmitParts), asAnswer)
	add(s, "item_parts", func(ctx context.Context, in *struct {
		ID string `path:"id" doc:"The item's id."`
		api.PartQuery
	}) (*answer[pawl.List[pawl.ItemPart]], error) {
		return page(s.svc.ListParts(ctx, pawl.PartFilter{ItemID: in.ID, Key: in.Key, All: in.All, Page: in.Page()}))
	})
	s.addVerb(verbOf(api.ApproveTasks), asTask)
	s.addVerb(verbOf(api.RejectTasks), asTask)
}
