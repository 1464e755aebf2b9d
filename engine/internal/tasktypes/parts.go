package tasktypes

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
)

// CheckPart checks a part against the type: that it has the part, whether the part is
// numbered, its size and its evidence.
func (r *Rules) CheckPart(c *pawl.PartCall) error {
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
func (r *Rules) CheckPartPayload(c *pawl.PartCall) rules.Fields {
	return r.fits("/payload", r.Part(c.Key).Schema, c.Payload)
}

// assemblable returns the validated parts, in order of their numbers. Unless bestEffort,
// it refuses drafts, rejected parts and missing required parts. It always refuses to
// assemble nothing.
func (r *Rules) assemblable(parts []pawl.ItemPart, bestEffort bool) ([]pawl.ItemPart, error) {
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
func (r *Rules) CheckRequiredParts(parts []pawl.ItemPart) (f rules.Fields) {
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

// merge makes a result of parts: an object with each part under its key, in the order of
// the type's rules. Repeatable parts are a list in the order of the parts, or one joined
// list if the type concatenates.
func (r *Rules) merge(parts []pawl.ItemPart) json.RawMessage {
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

func (r *Rules) partKeys() []string {
	keys := make([]string, len(r.Parts))
	for i := range r.Parts {
		keys[i] = r.Parts[i].Key
	}
	return keys
}

// MaxParts returns how many live parts an item of the type may have.
func (r *Rules) MaxParts() int {
	if r.Limits.MaxParts > 0 {
		return min(r.Limits.MaxParts, pawl.MaxParts)
	}
	return pawl.MaxParts
}
