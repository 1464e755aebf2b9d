package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/pawl-work/pawl"
)

// assemble makes an item's result from its live parts. Strict: every required
// part is there, and none is a draft or rejected. Best effort takes what is
// validated.
func (r *rules) assemble(ctx context.Context, item pawl.Item, parts []pawl.ItemPart, bestEffort bool) (json.RawMessage, error) {
	var bad fields
	good := make([]pawl.ItemPart, 0, len(parts))
	for _, p := range parts {
		switch {
		case p.Status == pawl.PartValidated:
			good = append(good, p)
		case !bestEffort:
			bad.add("/parts/"+p.Key, "is %s%s", p.Status, numbered(p.Seq))
		}
	}
	if !bestEffort {
		for _, key := range r.RequiredParts() {
			if !slices.ContainsFunc(parts, func(p pawl.ItemPart) bool { return p.Key == key }) {
				bad.add("/parts/"+key, "is missing")
			}
		}
	}
	if len(good) == 0 && len(bad) == 0 {
		bad.add("/parts", "holds nothing that is validated")
	}
	if err := bad.err("finalize"); err != nil {
		return nil, err
	}
	slices.SortStableFunc(good, func(a, b pawl.ItemPart) int { return seqOf(a) - seqOf(b) })
	if r.Assembly.Mode == pawl.AssembleGo {
		return r.assembleByHook(ctx, item, good)
	}
	return r.merged(good)
}

func (r *rules) assembleByHook(ctx context.Context, item pawl.Item, parts []pawl.ItemPart) (out json.RawMessage, err error) {
	if r.hooks.Assemble == nil {
		return nil, r.noHook("Assemble")
	}
	err = guarded(func() (err error) {
		out, err = r.hooks.Assemble(ctx, item, parts)
		return err
	})
	if err == nil && !json.Valid(out) {
		err = fmt.Errorf("the hook Assemble of %s made what is no JSON", r.Name)
	}
	return out, err
}

// merged is an object with each part under its key, in the order of the type's
// rules; repeatable ones are a list by seq, joined into one where the type
// concatenates.
func (r *rules) merged(parts []pawl.ItemPart) (json.RawMessage, error) {
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
				values = concatenated(values)
			}
			value = asJSON(values)
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		out.Write(asJSON(rule.Key))
		out.WriteByte(':')
		out.Write(value)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// concatenated joins the elements of those values that are lists.
func concatenated(values []json.RawMessage) []json.RawMessage {
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

func numbered(seq *int) string {
	if seq == nil {
		return ""
	}
	return fmt.Sprintf(", number %d", *seq)
}

func seqOf(p pawl.ItemPart) int {
	if p.Seq == nil {
		return 0
	}
	return *p.Seq
}

// guarded runs a hook; a panic is its error.
func guarded(hook func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return hook()
}
