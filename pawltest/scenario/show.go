package scenario

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
)

// show writes every field of a task, an item, an item's parts or the events of one name, as
// they are sent over the wire.
func show(s *stage, c call) (string, error) {
	task, item, what := s.id(c.word(0)), "", c.word(1)
	if strings.HasPrefix(task, "itm_") {
		task, item = "", task
	}
	var v any
	var err error
	switch {
	case what == "parts":
		v, err = s.svc.ListParts(s.ctx, pawl.PartFilter{ItemID: item})
	case what != "":
		v, err = s.svc.ListEvents(s.ctx, pawl.EventFilter{TaskID: task, ItemID: item, Event: what})
	case item != "":
		v, err = s.svc.GetItem(s.ctx, item)
	default:
		v, err = s.svc.GetTask(s.ctx, task)
	}
	if err != nil {
		return "", err
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	var plain any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&plain); err != nil {
		return "", err
	}
	out, err := json.MarshalIndent(s.lastAnswer(plain, ""), "", "  ")
	return string(out), err
}

// lastAnswer replaces ids with their names, and Pawl's times with the time since the start.
func (s *stage) lastAnswer(v any, member string) any {
	switch v := v.(type) {
	case map[string]any:
		for name, one := range v {
			v[name] = s.lastAnswer(one, name)
		}
	case []any:
		for i := range v {
			v[i] = s.lastAnswer(v[i], "")
		}
	case string:
		if name := s.names[v]; name != "" {
			return name
		}
		if strings.HasPrefix(v, "evt_") && member == "id" {
			return "event"
		}
		if at, err := time.Parse(time.RFC3339Nano, v); err == nil && strings.HasSuffix(member, "_at") && !at.Before(s.start) {
			return s.when(at)
		}
	}
	return v
}
