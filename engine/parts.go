package engine

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/store"
)

// checkPartCall checks the call that hands in a part, except for the rules of the type.
func checkPartCall(c *pawl.PartCall) error {
	var f rules.Fields
	f.Fence(c.Fence)
	f.Text("/key", c.Key, 1, pawl.MaxPartKeyLen)
	if c.Seq != nil {
		f.Number("/seq", *c.Seq, 0, 1<<31-1)
	}
	if len(c.Payload) == 0 {
		f.Add("/payload", "is required")
	}
	f.JSON("/payload", c.Payload, pawl.MaxPayloadBytes)
	f.Extras(c.Evidence, c.Notes)
	return f.Err("part")
}

// partsState returns the count and the worst status of the live parts of each key, as
// JSON.
func partsState(parts []pawl.ItemPart) json.RawMessage {
	type state struct {
		Status string `json:"status"` // the worst: rejected, draft, validated
		Count  int    `json:"count"`
	}
	worse := []string{pawl.PartValidated, pawl.PartDraft, pawl.PartRejected}
	out := map[string]state{}
	for _, p := range parts {
		s := out[p.Key]
		s.Count++
		if slices.Index(worse, p.Status) >= slices.Index(worse, s.Status) {
			s.Status = p.Status
		}
		out[p.Key] = s
	}
	return rules.Encode(out)
}

// liveParts returns all live parts of an item, oldest first.
func liveParts(ctx context.Context, tx store.Tx, namespace, itemID string) (out []pawl.ItemPart, err error) {
	l := pawl.List[pawl.ItemPart]{}
	for more := true; more && err == nil; more = l.Next != "" {
		l, err = listParts(ctx, tx, namespace, pawl.PartFilter{ItemID: itemID, Page: pawl.Page{Limit: pawl.MaxParts, Cursor: l.Next}})
		out = append(out, l.Items...)
	}
	return out, err
}

// listParts lists parts of an item, oldest first.
func listParts(ctx context.Context, tx store.Tx, namespace string, q pawl.PartFilter) (pawl.List[pawl.ItemPart], error) {
	return partsIn(ctx, tx, store.NewPageRoom(), namespace, q)
}

// partsIn is ListParts for a page that contains other lists too. r is the room left on
// that page.
func partsIn(ctx context.Context, tx store.Tx, r *store.PageRoom, namespace string,
	q pawl.PartFilter) (pawl.List[pawl.ItemPart], error) {
	id := func(p pawl.ItemPart) string { return p.ID }
	return store.PagesIn(r, q.Page, sizeOfPart, id, func(p pawl.Page) (pawl.List[pawl.ItemPart], error) {
		q.Page = p
		return partRows(ctx, tx, namespace, q)
	})
}

// sizeOfPart is an upper bound for the size of the part's JSON.
func sizeOfPart(p *pawl.ItemPart) (int, error) {
	n := 512 + len(p.Payload) + len(p.Evidence) + len(p.Notes) + len(p.Key) + len(p.WorkerID)
	for _, f := range p.Errors {
		n += 40 + len(f.Pointer) + len(f.Message)
	}
	return n, nil
}

func partRows(ctx context.Context, tx store.Tx, namespace string, q pawl.PartFilter) (pawl.List[pawl.ItemPart], error) {
	var w store.Where
	w.And("p.item_id = ?", store.ItemID(q.ItemID))
	w.And("p.namespace = ?", namespace)
	if q.Key != "" {
		w.And("p.part_key = ?", q.Key)
	}
	if !q.All {
		w.And("p.superseded_at IS NULL")
	}
	if q.Cursor != "" {
		w.And("p.id > ?", q.Cursor)
	}
	rows, err := tx.Query(ctx, w.Text(acceptSQL["parts"], "p.id", q.Limit+1), w.Args...)
	if err != nil {
		return pawl.List[pawl.ItemPart]{}, err
	}
	defer rows.Close()
	var out []pawl.ItemPart
	for rows.Next() {
		var p pawl.ItemPart
		var payload string
		var evidence, notes, errs, checksum store.Text
		var created int64
		var superseded *int64
		if err := rows.Scan(&p.ID, (*store.ItemID)(&p.ItemID), &p.Key, &p.Seq, &p.Status, &payload, &evidence, &notes, &errs, &checksum,
			&p.WorkerID,
			&p.Attempt,
			&created, &superseded); err != nil {
			return pawl.List[pawl.ItemPart]{}, err
		}
		p.Payload, p.Evidence, p.Notes, p.Checksum = json.RawMessage(payload), store.Raw(evidence), string(notes), string(checksum)
		p.CreatedAt, p.SupersededAt, p.UpdatedAt = store.Stamp(created), store.StampOf(superseded), store.Stamp(created)
		if p.SupersededAt != nil {
			p.UpdatedAt = *p.SupersededAt
		}
		if errs != "" {
			_ = json.Unmarshal([]byte(errs), &p.Errors) // written by us
		}
		out = append(out, p)
	}
	return store.Paged(out, q.Limit, func(p pawl.ItemPart) string { return p.ID }), rows.Err()
}
