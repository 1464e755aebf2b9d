package schema

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
		panic("schema: " + err.Error())
	}
	raw, err := json.Marshal(s)
	if err != nil {
		panic("schema: " + err.Error())
	}
	return raw
}
