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
	"github.com/pawl-work/pawl/api"
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

// least is the smallest value of a schema.
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

// with are bodies that each hold value at one place where any JSON may stand, by
// that place.
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

// No call takes a value that is nested deeper than allowed, wherever any JSON may
// stand in it, and none needs the database's writer to say so.
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
		if request == nil {
			continue
		}
		schema := request["content"].(map[string]any)["application/json"].(map[string]any)["schema"]
		made := bodies.with(schema, deep, 0)
		if r.Name == "chat" { // whose other members are the application's
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
				if !strings.Contains(got.text, fmt.Sprintf("nested more than %d levels", pawl.MaxDepth)) || strings.Contains(got.text, `"code":"internal"`) {
					t.Errorf("%s%s: %s %.400s", r.Name, at, got.Status, got.text)
				}
			case <-time.After(20 * time.Second):
				t.Fatalf("%s%s waits for the writer", r.Name, at)
			}
		}
	}
	if asked < 60 {
		t.Errorf("only %d places were tried", asked)
	}
	t.Log(asked, "places")
}
