// Package schema compiles JSON Schemas (draft 2020-12) and checks values
// against them. Nothing is ever loaded: a reference that leads out of its own
// schema is refused when it is compiled. Whatever a schema or a value say, a
// check ends soon: patterns run in linear time and all work is counted against
// a budget. What does not fit is told by JSON Pointer, in few words.
package schema

import (
	"bytes"
	"errors"
	"runtime"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/pawl-work/pawl"
)

// Dialect is the draft that schemas are read by.
const Dialect = "https://json-schema.org/draft/2020-12/schema"

const (
	maxBytes   = 256 << 10 // of a schema
	maxNodes   = 5000      // objects, lists and values of a schema
	maxPattern = 1000      // characters of a pattern
	maxText    = 16_000    // characters of all of a schema's patterns: to read one takes up to 20 µs each
	maxProgram = 50_000    // instructions that all of them come to: a{1000} is a thousand
	home       = "pawl:///schema"

	// A check may take so many steps: visits of a subschema, each with the
	// members it looks at. A tree that is walked once takes a few for each member,
	// and a member has four bytes or more.
	steps        = 100_000
	stepsPerByte = 8
)

// Schema is a compiled schema, good for any number of goroutines. A nil Schema
// fits everything.
type Schema struct {
	doc  any
	free chan *copied // compiled copies, made as they are needed
}

// copied is one compilation. Each has a budget of its own and serves one check
// at a time.
type copied struct {
	sch      *jsonschema.Schema
	patterns map[string]*pattern
	text     int // left of maxText
	program  int // left of maxProgram
	steps    int // left of the check under way
}

// Compile compiles a schema; what is wrong with it is told by pointers into it.
// An empty text is no schema: nil.
func Compile(raw []byte) (*Schema, []pawl.Field) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, nil
	}
	if len(raw) > maxBytes {
		return nil, one("", "has %d bytes; at most %d are allowed", len(raw), maxBytes)
	}
	doc, no := decode(raw)
	if no != nil {
		return nil, one(no.pointer, "%s", no.message)
	}
	switch doc.(type) {
	case map[string]any, bool:
	default:
		return nil, one("", "is no schema: a schema is an object, true or false")
	}
	if bad := inspect(doc); bad != nil {
		return nil, bad
	}
	copies := max(2, runtime.GOMAXPROCS(0))
	s := &Schema{doc: doc, free: make(chan *copied, copies)}
	first, err := s.compile()
	if err != nil {
		return nil, explain(doc, err)
	}
	s.free <- first
	for range copies - 1 {
		s.free <- nil // compiled when two checks first meet
	}
	return s, nil
}

func (s *Schema) compile() (*copied, error) {
	out := &copied{steps: steps, patterns: map[string]*pattern{}, text: maxText, program: maxProgram}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.UseLoader(nowhere{})
	c.AssertFormat()
	c.UseRegexpEngine(out.regexp)
	if err := c.AddResource(home, s.doc); err != nil {
		return nil, err
	}
	sch, err := c.Compile(home)
	if err != nil {
		return nil, err
	}
	out.sch = sch
	out.count(sch, map[*jsonschema.Schema]bool{})
	return out, nil
}

// errElsewhere is what a reference that leads out of its schema meets.
var errElsewhere = errors.New("schemas are never fetched")

// nowhere is the loader: it refuses everything.
type nowhere struct{}

func (nowhere) Load(string) (any, error) { return nil, errElsewhere }

// Check says what in a value does not fit, nil when all does: at most MaxErrors
// fields, the last of which says how many more there are.
func (s *Schema) Check(raw []byte) []pawl.Field {
	if s == nil {
		return nil
	}
	if len(raw) == 0 {
		raw = []byte("null")
	}
	v, no := decode(raw)
	if no != nil {
		return one(no.pointer, "%s", no.message)
	}
	c := <-s.free
	if c == nil {
		var err error
		if c, err = s.compile(); err != nil { // it compiled before
			s.free <- nil
			return one("", "could not be checked: %v", err)
		}
	}
	c.steps = steps + stepsPerByte*len(raw)
	err := c.sch.Validate(v)
	spent := c.steps < 0
	s.free <- c
	if spent {
		return one("", "takes too long to check: make it smaller, or its schema simpler")
	}
	var bad *jsonschema.ValidationError
	if errors.As(err, &bad) {
		return tell(bad)
	}
	return nil
}

// escape writes a member's name as a token of a JSON Pointer.
func escape(token string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(token)
}
