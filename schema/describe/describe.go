// Package describe makes JSON Schemas of Go types. It is apart from schema, so that a program that only checks links no more
// than that.
package describe

import (
	"encoding/json"

	"github.com/google/jsonschema-go/jsonschema"
)

// For returns the JSON Schema of a Go type, as encoding/json writes it: for the payload_schema or
// the result_schema of a pawl.Type. Members without omitempty or omitzero are required; others are
// refused. A jsonschema tag describes a member. A type that JSON cannot hold panics: schemas belong
// to the declarations of a program.
func For[T any]() json.RawMessage {
	s, err := jsonschema.For[T](nil)
	if err != nil {
		panic("describe: " + err.Error())
	}
	raw, err := json.Marshal(s)
	if err != nil {
		panic("describe: " + err.Error())
	}
	return raw
}
