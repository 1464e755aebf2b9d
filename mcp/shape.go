package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/jsonscan"
	"github.com/pawl-work/pawl/internal/nearest"
	"github.com/pawl-work/pawl/schema"
)

// shape is the JSON Schema of a tool's input or output.
type shape struct {
	raw   json.RawMessage
	check *schema.Schema
	of    *jsonschema.Schema
}

// known are the schemas of types whose JSON differs from their Go form.
func known() map[reflect.Type]*jsonschema.Schema {
	all := map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[json.RawMessage](): {Description: "any JSON"}, // 2025-11-25 wants an object here, and an empty schema is written as true
		reflect.TypeFor[time.Time]():       {Type: "string", Format: "date-time"},
		reflect.TypeFor[pawl.ItemState]():  words(pawl.ItemStates),
		reflect.TypeFor[pawl.TaskState]():  words(pawl.TaskStates),
		reflect.TypeFor[pawl.Dedupe]():     {Types: []string{"boolean", "array"}, Items: &jsonschema.Schema{Type: "string"}},
		reflect.TypeFor[pawl.Status]():     oneOf(pawl.ItemStatuses),
		reflect.TypeFor[pawl.Failure](): {Types: []string{"string", "object"}, Properties: map[string]*jsonschema.Schema{
			"code": {Type: "string"}, "message": {Type: "string"}, "detail": {Description: "any JSON"}}},
	}
	all[reflect.TypeFor[pawl.Checkpoint]()] = &jsonschema.Schema{Type: "object"} // it may have others in it
	item, err := jsonschema.For[pawl.Item](&jsonschema.ForOptions{TypeSchemas: all})
	if err != nil {
		panic("mcp: " + err.Error()) // a type of ours
	}
	all[reflect.TypeFor[pawl.Item]()] = item
	all[reflect.TypeFor[pawl.Status]()] = oneOf(pawl.TaskStatuses)
	return all
}

func oneOf[S ~string](words []S) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string"}
	for _, w := range words {
		s.Enum = append(s.Enum, w)
	}
	return s
}

func words(states []pawl.StateInfo) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string"}
	for _, i := range states {
		if i.Shown {
			s.Enum = append(s.Enum, i.Name)
		}
	}
	return s
}

func schemaOf[T any]() *jsonschema.Schema {
	s, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: known()})
	if err != nil {
		panic("mcp: " + err.Error()) // a type of ours
	}
	return s
}

// inputOf returns the schema of arguments. Unknown members are refused.
func inputOf[T any]() *shape { return compile(schemaOf[T]()) }

// outputOf returns the schema of an answer: the names and types of T's members, or a
// problem. Later versions may add members. Nested members are left to the documentation,
// because clients put the whole list of tools into the model's context. Both revisions
// need an object at the root.
func outputOf[T any]() *shape {
	full := schemaOf[T]()
	brief := &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{"problem": {Type: "object"}},
		AnyOf: []*jsonschema.Schema{{Required: full.Required}, {Required: []string{"problem"}}}}
	for name, p := range full.Properties {
		brief.Properties[name] = &jsonschema.Schema{Type: p.Type, Types: p.Types}
		if p.Type == "" && p.Types == nil {
			brief.Properties[name].Description = p.Description // an empty schema is written as true, which clients do not expect
		}
	}
	return compile(brief)
}

func compile(s *jsonschema.Schema) *shape {
	raw, err := json.Marshal(s)
	if err != nil {
		panic("mcp: " + err.Error())
	}
	check, bad := schema.Compile(raw)
	if bad != nil {
		panic("mcp: " + (&pawl.Error{Code: pawl.CodeInternal, Fields: bad}).Error())
	}
	return &shape{raw, check, s}
}

// envelopeDepth is the depth at which a value may lie in a tool's arguments.
const envelopeDepth = 16

// read validates and decodes arguments.
func (s *shape) read(args json.RawMessage, into any) error {
	if len(bytes.TrimSpace(args)) == 0 {
		args = json.RawMessage("{}")
	}
	if jsonscan.Depth(args) > pawl.MaxDepth+envelopeDepth {
		return pawl.Invalid("", "is nested more than %d levels deep", pawl.MaxDepth)
	}
	if bad := s.check.Check(args); bad != nil {
		for i := range bad {
			if meant := s.meant(bad[i].Pointer); meant != "" {
				bad[i].Message += fmt.Sprintf("; did you mean %s?", meant)
			}
		}
		return &pawl.Error{Code: pawl.CodeInvalid, Message: "the arguments do not fit the tool's input schema", Fields: bad}
	}
	err := json.Unmarshal(args, into)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return pawl.Invalid("/"+strings.ReplaceAll(wrong.Field, ".", "/"), "is no integer, or out of range")
	}
	if err != nil {
		return pawl.Invalid("", "cannot be read: %v", err)
	}
	return nil
}

// meant suggests a name for an unknown one at the end of a pointer; "" if the name is
// known or similar to none.
func (s *shape) meant(pointer string) string {
	tokens := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	at, word := s.of, tokens[len(tokens)-1]
	for _, token := range tokens[:len(tokens)-1] {
		if next := at.Properties[token]; next != nil {
			at = next
		} else if at = at.Items; at == nil {
			return ""
		}
	}
	known := slices.Sorted(maps.Keys(at.Properties))
	if word == "" || slices.Contains(known, word) {
		return ""
	}
	if near := nearest.Of(word, known); near != "" {
		return near
	}
	begun := slices.DeleteFunc(known, func(k string) bool {
		return len(word) < 3 || !strings.HasPrefix(k, word) && !strings.HasPrefix(word, k)
	})
	if len(begun) == 1 {
		return begun[0]
	}
	return ""
}

// encode encodes an answer without escaping HTML characters.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}
