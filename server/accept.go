package server

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// accept registers the calls that hand in results and those that decide about tasks.
func (s *server) accept() {
	verb(s, api.Submit, asItem)
	verb(s, api.Finalize, asItem)
	verb(s, api.SubmitParts, asAnswer)
	add(s, "item_parts", func(ctx context.Context, in *struct {
		ID string `path:"id" doc:"The item's id."`
		api.PartQuery
	}) (*answer[pawl.List[pawl.ItemPart]], error) {
		return page(s.svc.ListParts(ctx, pawl.PartFilter{ItemID: in.ID, Key: in.Key, All: in.All, Page: in.Page()}))
	})
	verb(s, api.ApproveTasks, asTask)
	verb(s, api.RejectTasks, asTask)
}
