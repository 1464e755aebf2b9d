package engine

import (
	"bytes"
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

// CheckPart checks a part against the type: that it has the part, whether the part is
// numbered, its size and its evidence.
func (r *typeRules) CheckPart(c *pawl.PartCall) error {
	var f rules.Fields
	rule := r.Part(c.Key)
	switch {
	case rule == nil:
		f.Add("/key", "is %q, which the type %s has no part for%s", c.Key, r.Name, rules.OneOf(r.partKeys()))
	case c.Seq != nil && !rule.Repeatable:
		f.Add("/seq", "must be absent: there is one part %s", c.Key)
	case c.Seq == nil && rule.Repeatable:
		f.Add("/seq", "is required: parts %s are numbered from 0", c.Key)
	}
	if limit := r.Limits.MaxPartBytes; limit > 0 && len(c.Payload) > limit {
		f.Add("/payload", "has %d bytes; at most %d are allowed", len(c.Payload), limit)
	}
	if !c.Draft {
		r.evidence(&f, c.Evidence)
	}
	return f.Err("part")
}

// CheckPartPayload checks the payload of a part against the schema of its rule. A part
// that does not fit is stored as rejected, with these faults.
func (r *typeRules) CheckPartPayload(c *pawl.PartCall) rules.Fields {
	return r.fits("/payload", r.Part(c.Key).Schema, c.Payload)
}

// Assemblable returns the validated parts, in order of their numbers. Unless bestEffort,
// it refuses drafts, rejected parts and missing required parts. It always refuses to
// assemble nothing.
func (r *typeRules) Assemblable(parts []pawl.ItemPart, bestEffort bool) ([]pawl.ItemPart, error) {
	var f rules.Fields
	good := make([]pawl.ItemPart, 0, len(parts))
	for i := range parts {
		if parts[i].Status == pawl.PartValidated {
			good = append(good, parts[i])
		} else if !bestEffort {
			f.UnlessValidated(&parts[i])
		}
	}
	if !bestEffort {
		for _, key := range r.RequiredParts() {
			if !slices.ContainsFunc(parts, func(p pawl.ItemPart) bool { return p.Key == key }) {
				f.Add("/parts/"+key, "is missing")
			}
		}
	}
	if len(good) == 0 && len(f) == 0 {
		f.Add("/parts", "holds nothing that is validated")
	}
	if err := f.Err("finalize"); err != nil {
		return nil, err
	}
	slices.SortStableFunc(good, func(a, b pawl.ItemPart) int { return seqOf(a) - seqOf(b) })
	return good, nil
}

// CheckRequiredParts names the required parts that are missing or not validated.
func (r *typeRules) CheckRequiredParts(parts []pawl.ItemPart) (f rules.Fields) {
	for _, key := range r.RequiredParts() {
		found := false
		for i := range parts {
			if parts[i].Key == key {
				found = true
				f.UnlessValidated(&parts[i])
			}
		}
		if !found {
			f.Add("/parts/"+key, "is missing")
		}
	}
	return f
}

// Merge makes a result of parts: an object with each part under its key, in the order of
// the type's rules. Repeatable parts are a list in the order of the parts, or one joined
// list if the type concatenates.
func (r *typeRules) Merge(parts []pawl.ItemPart) json.RawMessage {
	out := bytes.NewBufferString("{")
	for _, rule := range r.Parts {
		var values []json.RawMessage
		for _, p := range parts {
			if p.Key == rule.Key {
				values = append(values, p.Payload)
			}
		}
		if len(values) == 0 {
			continue
		}
		value := values[0]
		if rule.Repeatable {
			if r.Assembly.Mode == pawl.AssembleConcat {
				values = concatenate(values)
			}
			value = rules.Encode(values)
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		out.Write(rules.Encode(rule.Key))
		out.WriteByte(':')
		out.Write(value)
	}
	out.WriteByte('}')
	return out.Bytes()
}

// concatenate joins the elements of the values that are lists; other values are elements
// themselves.
func concatenate(values []json.RawMessage) []json.RawMessage {
	all := []json.RawMessage{}
	for _, v := range values {
		var list []json.RawMessage
		if json.Unmarshal(v, &list) != nil {
			list = []json.RawMessage{v}
		}
		all = append(all, list...)
	}
	return all
}

func seqOf(p pawl.ItemPart) int {
	if p.Seq == nil {
		return 0
	}
	return *p.Seq
}

func (r *typeRules) partKeys() []string {
	keys := make([]string, len(r.Parts))
	for i := range r.Parts {
		keys[i] = r.Parts[i].Key
	}
	return keys
}

// MaxParts returns how many live parts an item of the type may have.
func (r *typeRules) MaxParts() int {
	if r.Limits.MaxParts > 0 {
		return min(r.Limits.MaxParts, pawl.MaxParts)
	}
	return pawl.MaxParts
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
