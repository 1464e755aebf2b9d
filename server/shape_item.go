package server

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// itemViews lists items with what the caller asked to include.
func (s *server) itemViews(ctx context.Context, f pawl.ItemFilter, include []string) (pawl.List[api.ItemView], error) {
	if len(include) > 0 && f.Limit > pawl.DefaultPage {
		return pawl.List[api.ItemView]{}, pawl.Invalid("/limit", "is at most %d with include", pawl.DefaultPage)
	}
	return viewed(f.Limit, func(limit int) (pawl.List[pawl.Item], error) {
		f.Limit = limit
		return s.svc.ListItems(ctx, f)
	}, func(it pawl.Item) (api.ItemView, int, error) {
		v, err := s.viewItem(ctx, it, include)
		return v, sizeOfItem(v.Included), err
	})
}

// sizeOfItem returns about how many bytes the included values have.
func sizeOfItem(in *api.ItemIncluded) int {
	if in == nil {
		return 0
	}
	n := sizeOfRecord(in.Parts, in.Events, in.Checkpoints, in.Provenances)
	for i := range in.Messages {
		n += len(in.Messages[i].Content)
	}
	return n
}

// viewItem adds to an item what the caller asked to include. An item that was deleted meanwhile
// has nothing to include.
func (s *server) viewItem(ctx context.Context, it pawl.Item, include []string) (api.ItemView, error) {
	v := api.ItemView{Item: it}
	if len(include) == 0 {
		return v, nil
	}
	v.Included = &api.ItemIncluded{}
	for _, what := range include {
		var err error
		switch what {
		case "parts":
			v.Included.Parts, err = rows(s.svc.ListParts(ctx, pawl.PartFilter{ItemID: it.ID}))
		case "events":
			v.Included.Events, err = rows(s.svc.ListEvents(ctx, pawl.EventFilter{ItemID: it.ID}))
		case "checkpoints":
			v.Included.Checkpoints, err = rows(s.svc.ListCheckpoints(ctx, pawl.CheckpointFilter{ItemID: it.ID, Desc: true}))
		case "messages":
			v.Included.Messages, err = rows(s.svc.ListMessages(ctx, pawl.MessageFilter{ItemID: it.ID}))
		case "provenances":
			v.Included.Provenances, err = rows(s.svc.ListProvenance(ctx, pawl.ProvenanceFilter{ItemID: it.ID}))
		}
		if err != nil && pawl.CodeOf(err) != pawl.CodeNotFound {
			return v, err
		}
	}
	return v, nil
}

// partsOf lists the first live parts of the first items of a task.
func (s *server) partsOf(ctx context.Context, taskID string) ([]pawl.ItemPart, error) {
	items, err := s.svc.ListItems(ctx, pawl.ItemFilter{TaskID: taskID, Fields: []string{"id"}})
	if err != nil {
		return nil, err
	}
	var out []pawl.ItemPart
	for _, it := range items.Items {
		list, err := s.svc.ListParts(ctx, pawl.PartFilter{ItemID: it.ID, Page: pawl.Page{Limit: pawl.DefaultPage - len(out)}})
		if err != nil && pawl.CodeOf(err) != pawl.CodeNotFound {
			return out, err
		}
		if out = append(out, list.Items...); len(out) >= pawl.DefaultPage {
			break
		}
	}
	return out, nil
}

// sizeOfRecord returns about how many bytes these values have.
func sizeOfRecord(parts []pawl.ItemPart, events []pawl.Event, checkpoints []pawl.Checkpoint, provenances []pawl.ProvenanceRecord) (n int) {
	for i := range parts {
		n += len(parts[i].Payload) + len(parts[i].Evidence)
	}
	for i := range events {
		n += len(events[i].Data) + len(events[i].Diff)
	}
	for i := range checkpoints {
		n += len(checkpoints[i].Snapshot) + len(checkpoints[i].Metadata)
	}
	for i := range provenances {
		n += len(provenances[i].Extra) + len(provenances[i].Data)
	}
	return n
}
