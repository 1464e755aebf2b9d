package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// bodyOf makes bodies of a described schema.
type bodyOf struct{ schemas map[string]any }

func (b bodyOf) resolve(s any) map[string]any {
	m, _ := s.(map[string]any)
	for m["$ref"] != nil {
		m = b.schemas[m["$ref"].(string)[strings.LastIndexByte(m["$ref"].(string), '/')+1:]].(map[string]any)
	}
	return m
}

// least returns the smallest value of a schema.
func (b bodyOf) least(s any) any {
	m := b.resolve(s)
	if values, ok := m["enum"].([]any); ok {
		return values[0]
	}
	if ways, ok := m["oneOf"].([]any); ok {
		return b.least(ways[0])
	}
	switch m["type"] {
	case "object":
		out := map[string]any{}
		required, _ := m["required"].([]any)
		for _, name := range required {
			out[name.(string)] = b.least(m["properties"].(map[string]any)[name.(string)])
		}
		return out
	case "array":
		return []any{b.least(m["items"])}
	case "string":
		return "x"
	case "integer", "number":
		return 1
	case "boolean":
		return true
	}
	return 1
}

// with returns bodies that each hold value at one place where any JSON is allowed, by that
// place.
func (b bodyOf) with(s any, value json.RawMessage, depth int) map[string]any {
	m, out := b.resolve(s), map[string]any{}
	properties, _ := m["properties"].(map[string]any)
	switch {
	case depth > 5 || s == nil:
	case m["type"] == "object" && properties != nil:
		for name, of := range properties {
			for at, v := range b.with(of, value, depth+1) {
				whole := b.least(s).(map[string]any)
				whole[name] = v
				out["/"+name+at] = whole
			}
		}
	case m["type"] == "array":
		for at, v := range b.with(m["items"], value, depth+1) {
			out["/0"+at] = []any{v}
		}
	case m["type"] == nil && m["oneOf"] == nil && m["anyOf"] == nil && m["enum"] == nil:
		out[""] = value
	}
	return out
}

// No call accepts a value that is nested deeper than allowed, wherever any JSON is allowed. No
// such refusal needs the database's writer.
func TestDepthHoldsAtEveryDoor(t *testing.T) {
	h := open(t)
	said := h.do(200, "GET", "/openapi.json", "").json
	bodies := bodyOf{said["components"].(map[string]any)["schemas"].(map[string]any)}
	release, held := make(chan struct{}), make(chan struct{})
	defer close(release)
	go func() {
		_ = h.p.Engine.DB().Do(context.WithoutCancel(t.Context()), func(context.Context, store.Tx) error {
			close(held)
			<-release
			return nil
		})
	}()
	<-held
	deep := json.RawMessage(strings.Repeat("[", pawl.MaxDepth+1) + strings.Repeat("]", pawl.MaxDepth+1))
	asked := 0
	for _, r := range api.Routes {
		op := said["paths"].(map[string]any)[r.Path].(map[string]any)[strings.ToLower(r.Method)].(map[string]any)
		request, _ := op["requestBody"].(map[string]any)
		if request == nil || r.Has(api.TakesBytes) {
			continue
		}
		if r.Name == "receive_webhook" {
			continue // its signature is checked first: see TestADeepDelivery
		}
		schema := request["content"].(map[string]any)["application/json"].(map[string]any)["schema"]
		made := bodies.with(schema, deep, 0)
		if r.Name == "chat" { // its other members belong to the application
			text := map[string]any{"id": "m", "role": "user", "parts": []any{map[string]any{"type": "text", "text": "x"}}}
			made = map[string]any{"/anything": map[string]any{"id": "c", "messages": []any{text}, "anything": deep}}
		}
		for _, at := range slices.Sorted(maps.Keys(made)) {
			body, err := json.Marshal(made[at])
			if err != nil {
				t.Fatal(err)
			}
			asked++
			done := make(chan reply, 1)
			go func() {
				done <- ask(t, h.srv, r.Method, strings.NewReplacer("{id}", "x", "{type}", "a").Replace(r.Path), string(body))
			}()
			select {
			case got := <-done:
				if !strings.Contains(got.text, fmt.Sprintf("nested more than %d levels", pawl.MaxDepth)) ||
					strings.Contains(got.text, `"code":"internal"`) {
					t.Errorf("%s%s: %s %.400s", r.Name, at, got.Status, got.text)
				}
			case <-time.After(60 * time.Second):
				t.Fatalf("%s%s waits for the writer", r.Name, at)
			}
		}
	}
	if asked < 60 {
		t.Errorf("only %d places were tried", asked)
	}
	t.Log(asked, "places")
}

// names maps the members and parameters with which calls name things to the kind of thing that
// each names in this test.
var names = map[string]string{"task_id": "task", "task": "task", "item_id": "item", "item": "item", "item_ids": "item",
	"message_id": "message", "id": "item"}

// besides lists members that a call needs in addition to those that its schema requires.
var besides = map[string]map[string]any{
	"update_tasks":    {"title": "x"},
	"suspend_items":   {"signal": "s"},
	"start_messages":  {"role": "tool", "content": "x"},
	"open_messages":   {"role": "tool"},
	"step_messages":   {"worker_id": "w", "attempt": 1},
	"finish_messages": {"worker_id": "w", "attempt": 1},
	"append_messages": {"worker_id": "w", "attempt": 1, "offset": 0, "chunks": []any{map[string]any{"type": "text", "text": "x"}}},
}

// naming returns bodies of a schema that each name one thing of another namespace, by its
// place.
func (b bodyOf) naming(route string, s any, ids map[string]string, depth int) map[string]any {
	m, out := b.resolve(s), map[string]any{}
	properties, _ := m["properties"].(map[string]any)
	switch {
	case depth > 3 || s == nil:
	case m["type"] == "array":
		for at, v := range b.naming(route, m["items"], ids, depth+1) {
			out["/0"+at] = []any{v}
		}
	case m["type"] == "object":
		for name, of := range properties {
			if name == "requested_by" { // the application's own value
				continue
			}
			member, id := b.resolve(of), ids[names[name]]
			if name == "id" && strings.HasSuffix(route, "_messages") && route != "start_messages" {
				id = ids["message"]
			}
			var v any
			switch {
			case id != "" && member["type"] == "string":
				v = id
			case id != "" && member["type"] == "array" && b.resolve(member["items"])["type"] == "string":
				v = []any{id}
			}
			if v != nil {
				whole := b.least(s).(map[string]any)
				maps.Copy(whole, besides[route])
				whole[name] = v
				out["/"+name] = whole
				continue
			}
			for at, v := range b.naming(route, of, ids, depth+1) {
				whole := b.least(s).(map[string]any)
				whole[name] = v
				out["/"+name+at] = whole
			}
		}
	}
	return out
}

// A thing of another namespace that a call names in its body or its query does not exist for
// that call, whichever call it is.
func TestIDsOfOthersAreUnknownEverywhere(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := gated(t, p, access.Options{})
		_, ours := h.key(pawl.NewAPIKey{Roles: pawl.KeyRoles, Namespace: "ours"})
		theirs := pawl.As(t.Context(), pawl.Caller{Namespace: "theirs"})
		task, err := pawl.Create(theirs, p.Service, pawl.NewTask{Type: "a", Payload: []byte(`"secret"`), Thread: "th",
			Messages: []pawl.NewMessage{{Role: pawl.RoleUser, Content: json.RawMessage(`"secret"`)}}, Reply: &pawl.Reply{}})
		if err != nil {
			t.Fatal(err)
		}
		ls, err := p.Service.Claim(theirs, pawl.ClaimRequest{WorkerID: "x"})
		if err != nil || len(ls) != 1 || ls[0].OpenMessage == nil {
			t.Fatal(ls, err)
		}
		ids := map[string]string{"task": task.ID, "item": ls[0].ID, "message": ls[0].OpenMessage.ID}
		before, _ := p.Service.GetTask(theirs, task.ID)
		own, err := pawl.Create(pawl.As(t.Context(), pawl.Caller{Namespace: "ours"}), p.Service, pawl.NewTask{Type: "b"})
		if err != nil {
			t.Fatal(err)
		}
		said := h.ask(ours, "GET", "/openapi.json", "").json
		bodies := bodyOf{said["components"].(map[string]any)["schemas"].(map[string]any)}
		asked := 0
		check := func(r api.Route, at, path, body string) {
			asked++
			got := h.ask(ours, r.Method, path, body)
			var results struct {
				Results []struct{ Status int } `json:"results"`
			}
			_ = json.Unmarshal([]byte(got.text), &results)
			unknown := got.StatusCode == 404 || len(results.Results) == 1 && results.Results[0].Status == 404 ||
				got.StatusCode == 200 && r.Method == "GET" && len(got.items()) == 0 && got.json["items"] != nil
			if !unknown || strings.Contains(got.text, "secret") {
				t.Errorf("%s%s: %s %.300s\n%s", r.Name, at, got.Status, got.text, body)
			}
		}
		for _, r := range api.Routes {
			path := strings.NewReplacer("{id}", own.ID, "{type}", "a").Replace(r.Path)
			if strings.Contains(r.Path, "/idempotency-keys/") {
				path = strings.Replace(r.Path, "{id}", "k", 1)
			}
			op := said["paths"].(map[string]any)[r.Path].(map[string]any)[strings.ToLower(r.Method)].(map[string]any)
			params, _ := op["parameters"].([]any)
			for _, param := range params {
				m := bodies.resolve(param)
				if name, _ := m["name"].(string); m["in"] == "query" && names[name] != "" {
					check(r, "?"+name, path+"?"+name+"="+ids[names[name]], "")
				}
			}
			request, _ := op["requestBody"].(map[string]any)
			if request == nil || r.Name == "chat" || r.Has(api.TakesBytes) {
				continue
			}
			schema := request["content"].(map[string]any)["application/json"].(map[string]any)["schema"]
			made := bodies.naming(r.Name, schema, ids, 0)
			for _, at := range slices.Sorted(maps.Keys(made)) {
				body, err := json.Marshal(made[at])
				if err != nil {
					t.Fatal(err)
				}
				check(r, at, path, string(body))
			}
		}
		if after, err := p.Service.GetTask(theirs, task.ID); err != nil || after.Version != before.Version || after.State != before.State {
			t.Errorf("their task is %+v, %v", after, err)
		}
		if asked < 40 {
			t.Errorf("only %d places were tried", asked)
		}
	})
}
