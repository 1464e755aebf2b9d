package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
)

// reviewItem is an item for a decision: its result, evidence, notes and author.
type reviewItem struct {
	pawl.Item
	Evidence json.RawMessage `json:"evidence"`
	Notes    string          `json:"notes"`
	By       string
	Model    string
	Parts    section[pawl.ItemPart]
}

// reviewItems reads the results of a task, item by item.
func (d *server) reviewItems(v *request, taskID string) (section[reviewItem], error) {
	ctx := v.Context()
	items, err := d.svc.ListItems(ctx, pawl.ItemFilter{TaskID: taskID, Page: v.pageOf("items", maxRows)})
	out := section[reviewItem]{List: pawl.List[reviewItem]{Next: items.Next}}
	if err != nil {
		return out, err
	}
	submitted, err := d.svc.ListEvents(ctx, pawl.EventFilter{TaskID: taskID, Event: "submitted", Page: pawl.Page{Limit: pawl.MaxPage}})
	if err != nil {
		return out, err
	}
	records, err := d.svc.ListProvenance(ctx, pawl.ProvenanceFilter{TaskID: taskID, Page: pawl.Page{Limit: pawl.MaxPage}})
	if err != nil {
		return out, err
	}
	for _, it := range items.Items {
		h := reviewItem{Item: it}
		if err := d.addSubmission(ctx, &h, submitted, records); err != nil {
			return out, err
		}
		if len(it.PartsRequired) > 0 || len(it.AssembledResult) > 0 {
			h.Parts = sectionOf(d.svc.ListParts(ctx, pawl.PartFilter{ItemID: it.ID, Page: pawl.Page{Limit: pawl.MaxParts}}))
		}
		out.Items = append(out.Items, h)
	}
	return out, nil
}

// addSubmission adds the evidence, notes and author of the item's newest submission. The lists are
// those of the task, events newest first; where they end before, those of the item are read.
func (d *server) addSubmission(ctx context.Context, h *reviewItem, submitted pawl.List[pawl.Event],
	records pawl.List[pawl.ProvenanceRecord]) (err error) {
	ofItem := func(e pawl.Event) bool { return e.ItemID == h.ID }
	if !slices.ContainsFunc(submitted.Items, ofItem) && submitted.Next != "" {
		f := pawl.EventFilter{ItemID: h.ID, Event: "submitted", Page: pawl.Page{Limit: 1}}
		if submitted, err = d.svc.ListEvents(ctx, f); err != nil {
			return err
		}
	}
	i := slices.IndexFunc(submitted.Items, ofItem)
	if i < 0 {
		return nil
	}
	e := submitted.Items[i]
	var said struct {
		Evidence json.RawMessage
		Notes    string
	}
	_ = json.Unmarshal(e.Data, &said) // empty without evidence and notes
	h.Evidence, h.Notes, h.By = said.Evidence, said.Notes, e.ActorType+"/"+e.ActorID
	ofEvent := func(p pawl.ProvenanceRecord) bool { return p.EventID == e.ID }
	f := pawl.ProvenanceFilter{ItemID: h.ID, Page: pawl.Page{Limit: pawl.MaxPage}}
	for records.Next != "" && !slices.ContainsFunc(records.Items, ofEvent) {
		if records, err = d.svc.ListProvenance(ctx, f); err != nil {
			return err
		}
		f.Cursor = records.Next
	}
	if i := slices.IndexFunc(records.Items, ofEvent); i >= 0 {
		p := records.Items[i]
		h.Model = p.Model
		if p.AgentName != "" {
			h.By += " (" + strings.TrimSpace(p.AgentName+" "+p.AgentVersion) + ")"
		}
	}
	return nil
}

// readAttempts reads an item's attempts from the events that begin and end them.
func (d *server) readAttempts(ctx context.Context, itemID string) ([]attempt, error) {
	var events []pawl.Event
	for _, name := range append([]string{"leased"}, attemptEnds()...) {
		l, err := d.svc.ListEvents(ctx, pawl.EventFilter{ItemID: itemID, Event: name, Page: pawl.Page{Limit: manyRows}})
		if err != nil {
			return nil, err
		}
		events = append(events, l.Items...)
	}
	slices.SortStableFunc(events, func(a, b pawl.Event) int { return eventNumber(b.ID) - eventNumber(a.ID) })
	return attemptsFrom(events), nil
}

// eventNumber is the number in an event's id; it orders the events of an item.
func eventNumber(id string) (n int) {
	_, _ = fmt.Sscanf(id, "evt_%d", &n) // every event id has this form
	return n
}
