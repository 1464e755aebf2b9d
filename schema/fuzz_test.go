package schema

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/cost"
)

// For every schema and value, compiling and checking end without a panic, messages are short, and
// the decoder reads what encoding/json reads.
func FuzzCheck(f *testing.F) {
	f.Add([]byte(person), []byte(`{"name":"Ann","age":7,"pet":{"dog":"rex"},"tags":["a"]}`))
	for _, b := range bombs {
		if len(b[0])+len(b[1]) < 10_000 {
			f.Add([]byte(b[0]), []byte(b[1]))
		}
	}
	for _, v := range []string{`"\ud800\n"`, `[1,-0,1.50e+3,01]`, `{"a":{"a":[]},"a":1}`, ` {"a" : [ null , true ] } `, `"`, `"\`,
		"\"\x01\"", `[1,]`, `{"a"}`, `-`, `1.`, `1e`, `tru`} {
		f.Add([]byte(`{"type":["object","string"],"unevaluatedProperties":false,"if":{"minProperties":1},"then":{"required":["a"]}}`), []byte(v))
	}
	f.Fuzz(func(t *testing.T, schema, value []byte) {
		var v any
		var no *refusal
		cost.Check(t, len(value), func() { v, no = decode(value) })
		var want any
		dec := json.NewDecoder(bytes.NewReader(value))
		dec.UseNumber()
		switch err := dec.Decode(&want); {
		case no == nil && (err != nil || !json.Valid(value)):
			t.Errorf("%q: read as %v, encoding/json says %v", value, v, err)
		case no == nil && !reflect.DeepEqual(v, want):
			t.Errorf("%q: read as %v, by encoding/json %v", value, v, want)
		case no != nil && json.Valid(value) && utf8.Valid(value) && (no.message == notJSON || strings.Contains(no.message, "something else")):
			t.Errorf("%q: %v, encoding/json takes it", value, no)
		}
		var s *Schema
		var bad, violations []pawl.Field
		// A pattern of a few bytes may have many steps, which are bounded.
		cost.Base{Time: time.Second, Bytes: 128 << 20}.Check(t, len(schema)+len(value), func() {
			s, bad = Compile(schema)
			violations = s.Check(value)
		})
		if (s == nil) == (bad == nil) && len(bytes.TrimSpace(schema)) > 0 {
			t.Errorf("%q: %v and %v", schema, s, bad)
		}
		for _, field := range append(bad, violations...) {
			if utf8.RuneCountInString(field.Message) > maxMessage || utf8.RuneCountInString(field.Pointer) > maxPointer {
				t.Errorf("%q, %q: %v", schema, value, field)
			}
		}
	})
}
