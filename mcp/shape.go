package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/jsonscan"
	"github.com/pawl-work/pawl/schema"
)

// shape is what a tool takes or answers, as a JSON Schema.
type shape struct {
	raw   json.RawMessage
	check *schema.Schema
}

// known are the schemas of types that are written otherwise than Go has them.
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

// inputOf is the shape of arguments: what it does not name is refused.
func inputOf[T any]() *shape { return compile(schemaOf[T]()) }

// outputOf is the shape of an answer: T's members, which later versions may add
// to, or a problem. Both revisions want an object at the root.
func outputOf[T any]() *shape {
	s := schemaOf[T]()
	loosen(s)
	p := schemaOf[problem]()
	loosen(p)
	s.Properties["problem"] = p
	s.AnyOf = []*jsonschema.Schema{{Required: s.Required}, {Required: []string{"problem"}}}
	s.Required = nil
	return compile(s)
}

func loosen(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if s.Properties != nil {
		s.AdditionalProperties = nil
	}
	for _, p := range s.Properties {
		loosen(p)
	}
	loosen(s.Items)
	loosen(s.AdditionalProperties)
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
	return &shape{raw, check}
}

// envelopeDepth is how deep a value may lie in a tool's arguments.
const envelopeDepth = 16

// read checks arguments and reads them.
func (s *shape) read(args json.RawMessage, into any) error {
	if len(bytes.TrimSpace(args)) == 0 {
		args = json.RawMessage("{}")
	}
	if jsonscan.Depth(args) > pawl.MaxDepth+envelopeDepth {
		return pawl.Invalid("", "is nested more than %d levels deep", pawl.MaxDepth)
	}
	if bad := s.check.Check(args); bad != nil {
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

// encode writes an answer; text stays as legible as it was.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}
