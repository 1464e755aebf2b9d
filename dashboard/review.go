package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
)

// handedIn is an item with all that is decided about: its result, what it rests on,
// and who made it.
type handedIn struct {
	pawl.Item
	Evidence json.RawMessage `json:"evidence"`
	Notes    string          `json:"notes"`
	By       string
	Model    string
	Parts    part[pawl.ItemPart]
}

// work reads what a task came to, item by item.
func (d *desk) work(v *visit, taskID string) (part[handedIn], error) {
	ctx := v.Context()
	items, err := d.svc.ListItems(ctx, pawl.ItemFilter{TaskID: taskID, Page: v.page("items", few)})
	out := part[handedIn]{List: pawl.List[handedIn]{Next: items.Next}}
	for _, it := range items.Items {
		h := handedIn{Item: it}
		if err := d.submission(ctx, &h); err != nil {
			return out, err
		}
		h.Parts = partOf(d.svc.ListParts(ctx, pawl.PartFilter{ItemID: it.ID, Page: pawl.Page{Limit: pawl.MaxParts}}))
		out.Items = append(out.Items, h)
	}
	return out, err
}

// submission adds what was said with the newest submission of an item.
func (d *desk) submission(ctx context.Context, h *handedIn) error {
	events, err := d.svc.ListEvents(ctx, pawl.EventFilter{ItemID: h.ID, Event: "submitted", Page: pawl.Page{Limit: 1}})
	if err != nil || len(events.Items) == 0 {
		return err
	}
	e := events.Items[0]
	var said struct {
		Evidence json.RawMessage
		Notes    string
	}
	_ = json.Unmarshal(e.Data, &said) // none, when nothing was said
	h.Evidence, h.Notes, h.By = said.Evidence, said.Notes, e.ActorType+"/"+e.ActorID
	f := pawl.ProvenanceFilter{ItemID: h.ID, Page: pawl.Page{Limit: pawl.MaxPage}}
	records, err := d.svc.ListProvenance(ctx, f)
	for _, p := range records.Items {
		if p.EventID == e.ID {
			h.Model = p.Model
			if p.AgentName != "" {
				h.By += " (" + strings.TrimSpace(p.AgentName+" "+p.AgentVersion) + ")"
			}
		}
	}
	return err
}

// attemptsOf reads an item's attempts from the events that begin and end them.
func (d *desk) attemptsOf(ctx context.Context, itemID string) ([]attempt, error) {
	var events []pawl.Event
	for _, name := range append([]string{"leased"}, left...) {
		l, err := d.svc.ListEvents(ctx, pawl.EventFilter{ItemID: itemID, Event: name, Page: pawl.Page{Limit: many}})
		if err != nil {
			return nil, err
		}
		events = append(events, l.Items...)
	}
	slices.SortStableFunc(events, func(a, b pawl.Event) int { return number(b.ID) - number(a.ID) })
	return attempts(events), nil
}

// number is an event's, by which events of an item follow each other.
func number(id string) (n int) {
	_, _ = fmt.Sscanf(id, "evt_%d", &n) // all ids of events are such
	return n
}
