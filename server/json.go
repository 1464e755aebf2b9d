package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	jsonv1 "github.com/go-json-experiment/json/v1"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/jsonscan"
)

// format reads JSON strictly and writes payloads unchanged.
var format = huma.Format{Marshal: encode, Unmarshal: decode}

// encode writes an answer in which each raw value has exactly the bytes that were stored. The
// library would reformat raw JSON, so encode has it write null for each and sends the bytes in
// its place. It returns no error if the caller has gone.
func encode(w io.Writer, v any) error {
	e := encoders.Get().(*encoder)
	defer e.free()
	if err := jsonv2.MarshalWrite(&e.text, v, e.options); err != nil {
		return err
	}
	e.text.WriteByte('\n')
	e.out.Reset(w)
	text, from := e.text.Bytes(), int64(0)
	for _, h := range e.holes {
		_, _ = e.out.Write(text[from:h.at])
		_, _ = e.out.Write(h.raw)
		from = h.at + int64(len("null"))
	}
	_, _ = e.out.Write(text[from:])
	_ = e.out.Flush()
	return nil
}

// encoder writes an answer. Encoders are reused: the library caches how a type is written by
// its options.
type encoder struct {
	options jsonv2.Options
	text    bytes.Buffer
	holes   []hole
	out     *bufio.Writer // small parts go out together, large payloads directly
}

type hole struct {
	at  int64
	raw json.RawMessage
}

var encoders = sync.Pool{New: func() any {
	e := &encoder{out: bufio.NewWriterSize(nil, 16<<10)}
	e.options = jsonv2.JoinOptions(jsonv2.WithMarshalers(jsonv2.MarshalToFunc(e.leave)),
		jsonv1.OmitEmptyWithLegacySemantics(true), jsonv2.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	return e
}}

// leave writes null for a raw value and notes the place.
func (e *encoder) leave(enc *jsontext.Encoder, raw json.RawMessage) error {
	if err := enc.WriteToken(jsontext.Null); err != nil || len(raw) == 0 {
		return err
	}
	e.holes = append(e.holes, hole{enc.OutputOffset() - int64(len("null")), raw})
	return nil
}

// free makes the encoder available again, unless an answer was so large that it would hold
// much memory.
func (e *encoder) free() {
	if e.text.Cap() > 64<<10 {
		return
	}
	e.text.Reset()
	e.out.Reset(nil)
	clear(e.holes)
	e.holes = e.holes[:0]
	encoders.Put(e)
}

// decode reads a body that scan and fits accepted. Names match exactly.
func decode(data []byte, v any) error {
	// scan has checked for duplicate names and for UTF-8.
	err := jsonv2.Unmarshal(data, v, jsonv2.RejectUnknownMembers(true), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	var wrong *jsonv2.SemanticError
	if errors.As(err, &wrong) {
		return fault{string(wrong.JSONPointer), misfit(wrong)}
	}
	return err
}

func misfit(e *jsonv2.SemanticError) string {
	switch {
	case errors.Is(e, jsonv2.ErrUnknownName):
		return "is not known here"
	case e.JSONKind == '0':
		return "is no integer, or out of range"
	}
	return "is not of the kind expected"
}

// fault passes a field through huma, which keeps only the text of an error.
type fault struct{ Pointer, Message string }

func (f fault) Error() string {
	b, _ := json.Marshal(f) // two strings always marshal
	return string(b)
}

func decodeFault(text string) (pawl.Field, bool) {
	var f fault
	err := json.Unmarshal([]byte(text), &f)
	return pawl.Field{Pointer: f.Pointer, Message: f.Message}, err == nil
}

// opaque lists the members whose values belong to the caller: they are any JSON and are kept
// unchanged.
var opaque = []string{"payload", "input", "result", "snapshot", "metadata", "detail", "response", "content", "output", "data", "usage"}

// scan refuses text that is not valid JSON and says where: wrong syntax, bytes that are not
// UTF-8, anything after the value, and a name twice in one object, except in opaque values.
func scan(data []byte) error { return scanWith(data) }

// scanHalved is scan for text that may be cut in the middle of a character: in JSON, that is
// half of a surrogate pair.
func scanHalved(data []byte) error {
	err := scan(data)
	if err != nil && utf8.Valid(data) {
		return scanWith(data, jsontext.AllowInvalidUTF8(true))
	}
	return err
}

func scanWith(data []byte, also ...jsontext.Options) error {
	if jsonscan.Depth(data) > pawl.MaxDepth+envelopeDepth {
		return pawl.Invalid(deepValue(data), tooDeep, pawl.MaxDepth)
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(data), append(also, jsontext.AllowDuplicateNames(true))...)
	var open []names
	for values := 0; ; values++ {
		if values > pawl.MaxBodyValues {
			return tooMany
		}
		token, err := dec.ReadToken()
		if err != nil {
			return unreadable(err)
		}
		switch token.Kind() {
		case '{':
			open = append(open, names{})
		case '[':
			open = append(open, names{})
		case '}', ']':
			open = open[:len(open)-1]
		case '"':
			if in, n := dec.StackIndex(dec.StackDepth()); in != '{' || n%2 == 0 {
				break // a value
			}
			name := token.String()
			if !open[len(open)-1].add(name) {
				return pawl.Invalid(string(dec.StackPointer()), "is there twice")
			}
			if err := scanOpaque(dec, name); err != nil {
				return err
			}
		}
		if dec.StackDepth() == 0 {
			if rest := bytes.TrimLeft(data[dec.InputOffset():], " \t\r\n"); len(rest) > 0 {
				return pawl.Invalid("", "has something after its end")
			}
			return nil
		}
	}
}

// envelopeDepth is how deep an opaque value may lie in its call.
const envelopeDepth = 16

const tooDeep = "is nested more than %d levels deep"

// deepValue returns the JSON Pointer of the opaque value in which data is nested too deep; ""
// if the nesting is outside such a value.
func deepValue(data []byte) string {
	dec := jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for dec.StackDepth() <= pawl.MaxDepth+envelopeDepth {
		if _, err := dec.ReadToken(); err != nil {
			return ""
		}
	}
	var pointer jsontext.Pointer
	for name := range dec.StackPointer().Tokens() {
		pointer = pointer.AppendToken(name)
		if slices.Contains(opaque, name) {
			return string(pointer)
		}
	}
	return ""
}

// scanOpaque reads past the value of a name if the name is opaque.
func scanOpaque(dec *jsontext.Decoder, name string) error {
	if !slices.Contains(opaque, name) {
		return nil
	}
	at := dec.StackPointer()
	value, err := dec.ReadValue()
	if err != nil {
		return unreadable(err)
	}
	if jsonscan.Depth(value) > pawl.MaxDepth {
		return pawl.Invalid(string(at), tooDeep, pawl.MaxDepth)
	}
	return nil
}

// names are the names that an object has so far. A few of them are compared one by one.
type names struct {
	few  []string
	many map[string]bool
}

// add adds a name and reports whether it is new.
func (n *names) add(name string) bool {
	if n.many == nil && len(n.few) < 16 {
		if slices.Contains(n.few, name) {
			return false
		}
		n.few = append(n.few, name)
		return true
	}
	if n.many == nil {
		n.many = map[string]bool{}
		for _, name := range n.few {
			n.many[name] = true
		}
	}
	if n.many[name] {
		return false
	}
	n.many[name] = true
	return true
}

func unreadable(err error) error {
	var bad *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return pawl.Invalid("", "is not JSON: it ends too soon")
	case errors.As(err, &bad):
		return pawl.Invalid(string(bad.JSONPointer), "is not JSON: %v", bad.Err)
	}
	return pawl.Invalid("", "is not JSON: %v", err)
}
