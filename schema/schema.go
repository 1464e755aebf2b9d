// Package schema compiles JSON Schemas (draft 2020-12, or draft-07 if they say so) and checks values against them.
// It never loads anything: a reference to another document is refused when the schema is
// compiled. Every check is bounded, whatever the schema and the value are: patterns run
// in linear time, and all work is charged to a budget. Violations are reported as short
// messages with JSON Pointers.
package schema

import (
	"bytes"
	"errors"
	"runtime"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/pawl-work/pawl"
)

// Dialect is the draft that schemas are read by. Those whose $schema is Draft7 are read by that one.
const (
	Dialect = "https://json-schema.org/draft/2020-12/schema"
	Draft7  = "http://json-schema.org/draft-07/schema"
)

const (
	maxBytes   = 256 << 10 // of a schema
	maxNodes   = 5000      // objects, lists and values of a schema
	maxPattern = 1000      // characters of a pattern
	maxText    = 16_000    // characters of all patterns of a schema: parsing takes up to 20 µs for each
	maxProgram = 50_000    // instructions of all patterns of a schema: a{1000} has a thousand
	schemaURL  = "pawl:///schema"

	// steps, and stepsPerByte for each byte of the value, bound the work of a check:
	// visits of a subschema and the members that they look at. Walking a tree once takes
	// a few steps for each member, and a member has at least four bytes.
	steps        = 100_000
	stepsPerByte = 8
)

// Schema is a compiled schema, safe for concurrent use. A nil Schema accepts every
// value.
type Schema struct {
	doc       any
	instances chan *instance // compiled copies; nil = not compiled yet
}

// instance is one compilation of the schema. It has a budget of its own and serves one
// check at a time.
type instance struct {
	sch      *jsonschema.Schema
	patterns map[string]*pattern
	text     int // what is left of maxText
	program  int // what is left of maxProgram
	steps    int // what is left for the current check
}

// Compile compiles a schema. Errors are returned as pointers into the schema. An empty
// text is no schema: Compile returns nil.
func Compile(raw []byte) (*Schema, []pawl.Field) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil
	}
	if len(raw) > maxBytes {
		return nil, oneField("", "has %d bytes; at most %d are allowed", len(raw), maxBytes)
	}
	doc, refused := decode(raw)
	if refused != nil {
		return nil, oneField(refused.pointer, "%s", refused.message)
	}
	switch doc.(type) {
	case map[string]any, bool:
	default:
		return nil, oneField("", "is not a schema: a schema must be an object, true or false")
	}
	if bad := inspect(doc); bad != nil {
		return nil, bad
	}
	copies := max(2, runtime.GOMAXPROCS(0))
	s := &Schema{doc: doc, instances: make(chan *instance, copies)}
	first, err := s.compile()
	if err != nil {
		return nil, explain(doc, err)
	}
	s.instances <- first
	for range copies - 1 {
		s.instances <- nil // compiled when two checks run at once
	}
	return s, nil
}

func (s *Schema) compile() (*instance, error) {
	out := &instance{steps: steps, patterns: map[string]*pattern{}, text: maxText, program: maxProgram}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(noLoader{})
	c.AssertFormat()
	c.UseRegexpEngine(out.regexp)
	if err := c.AddResource(schemaURL, s.doc); err != nil {
		return nil, err
	}
	sch, err := c.Compile(schemaURL)
	if err != nil {
		return nil, err
	}
	out.sch = sch
	out.charge(c, sch, s.doc)
	return out, nil
}

// errExternal is the error for a reference to another document.
var errExternal = errors.New("schemas are never fetched")

// noLoader is a loader that refuses everything.
type noLoader struct{}

func (noLoader) Load(string) (any, error) { return nil, errExternal }

// Check returns what in a value violates the schema, nil if nothing does: at most
// MaxErrors fields. If there are more, the last field says how many.
func (s *Schema) Check(raw []byte) []pawl.Field {
	if s == nil {
		return nil
	}
	if len(raw) == 0 {
		raw = []byte("null")
	}
	v, refused := decode(raw)
	if refused != nil {
		return oneField(refused.pointer, "%s", refused.message)
	}
	c := <-s.instances
	if c == nil {
		var err error
		if c, err = s.compile(); err != nil { // cannot happen: the schema compiled before
			s.instances <- nil
			return oneField("", "could not be checked: %v", err)
		}
	}
	c.steps = steps + stepsPerByte*len(raw)
	err := c.sch.Validate(v)
	spent := c.steps < 0
	s.instances <- c
	if spent {
		return oneField("", "takes too long to check: make the value smaller or its schema simpler")
	}
	var bad *jsonschema.ValidationError
	if errors.As(err, &bad) {
		return fieldsOf(bad)
	}
	return nil
}

// escape encodes a member's name as a token of a JSON Pointer.
func escape(token string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(token)
}
