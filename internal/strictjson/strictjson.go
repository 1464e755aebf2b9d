// Package strictjson reads the JSON that callers send. What it refuses is refused at every door: names that
// are unknown or there twice, text that is no Unicode, values that are nested too deep.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/jsonscan"
	"github.com/pawl-work/pawl/internal/nearest"
)

// Read reads a text into v.
func Read(data []byte, v any) error {
	if err := Scan(data); err != nil {
		return err
	}
	err := Decode(data, v)
	var wrong *jsonv2.SemanticError
	if errors.As(err, &wrong) {
		return pawl.Invalid(string(wrong.JSONPointer), "%s", Misfit(wrong))
	}
	return err
}

// Decode reads a text that Scan accepted. Names match exactly.
func Decode(data []byte, v any) error {
	// Scan has checked for duplicate names and for UTF-8.
	return jsonv2.Unmarshal(data, v, jsonv2.RejectUnknownMembers(true), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// Misfit says why a value does not fit.
func Misfit(e *jsonv2.SemanticError) string {
	want := kindOf(e.GoType)
	switch {
	case errors.Is(e, jsonv2.ErrUnknownName):
		return "is not known here" + meant(e)
	case want != "" && (want != integer || e.JSONKind != '0'):
		return "must be " + want
	case e.JSONKind == '0':
		return "is no integer, or out of range"
	}
	return "is not of the kind expected"
}

const integer = "an integer"

// kindOf says what JSON a type takes; "" = that depends on the value.
func kindOf(t reflect.Type) string {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == nil || reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return ""
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a text"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	if t.Kind() >= reflect.Int && t.Kind() <= reflect.Uint64 {
		return integer
	}
	return ""
}

// meant asks whether another member of the object is meant; "" if none is near.
func meant(e *jsonv2.SemanticError) string {
	if e.GoType == nil || e.GoType.Kind() != reflect.Struct {
		return ""
	}
	var known []string
	for _, f := range reflect.VisibleFields(e.GoType) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			known = append(known, name)
		}
	}
	return nearest.Question(e.JSONPointer.LastToken(), known)
}

// Values returns the texts of the values of a list, and what follows the list. ok = the text begins with a
// list. It counts brackets and reads no value.
func Values(text []byte) (values [][]byte, rest []byte, ok bool) {
	return ValuesUpTo(text, math.MaxInt)
}

// ValuesUpTo is Values for lists of bounded length: ok is false for a longer one.
func ValuesUpTo(text []byte, most int) (values [][]byte, rest []byte, ok bool) {
	rest, ok = bytes.CutPrefix(space(text), []byte("["))
	rest = space(rest)
	for ok && len(rest) > 0 && rest[0] != ']' {
		if len(values) == most {
			return nil, nil, false
		}
		n := jsonscan.End(rest)
		values, rest = append(values, rest[:n]), space(rest[n:])
		if len(rest) == 0 || rest[0] != ',' {
			break
		}
		if rest = space(rest[1:]); len(rest) == 0 || rest[0] == ']' {
			return nil, nil, false
		}
	}
	rest, closed := bytes.CutPrefix(rest, []byte("]"))
	return values, rest, ok && closed
}

func space(text []byte) []byte { return bytes.TrimLeft(text, " \t\r\n") }

// Opaque lists the members whose values belong to the caller: they are any JSON and are kept
// unchanged.
var Opaque = []string{"payload", "input", "result", "snapshot", "metadata", "detail", "response", "content", "output", "data", "usage"}

// Scan refuses text that is not valid JSON and says where: wrong syntax, bytes that are not
// UTF-8, anything after the value, and a name twice in one object, except in opaque values.
func Scan(data []byte) error { return scanWith(data) }

// ScanHalved is Scan for text that may be cut in the middle of a character: in JSON, that is
// half of a surrogate pair.
func ScanHalved(data []byte) error {
	err := Scan(data)
	if err != nil && utf8.Valid(data) {
		return scanWith(data, jsontext.AllowInvalidUTF8(true))
	}
	return err
}

func scanWith(data []byte, also ...jsontext.Options) error {
	if jsonscan.Depth(data) > pawl.MaxDepth+EnvelopeDepth {
		return pawl.Invalid(deepValue(data), tooDeep, pawl.MaxDepth)
	}
	dec := jsontext.NewDecoder(bytes.NewBuffer(data), append(also, jsontext.AllowDuplicateNames(true))...)
	var open []names
	for values := 0; ; values++ {
		if values > pawl.MaxBodyValues {
			return TooMany
		}
		token, err := dec.ReadToken()
		if err != nil {
			return Unreadable(err)
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

// EnvelopeDepth is how deep an opaque value may lie in its call.
const EnvelopeDepth = 16

const tooDeep = "is nested more than %d levels deep"

// deepValue returns the JSON Pointer of the opaque value in which data is nested too deep; ""
// if the nesting is outside such a value.
func deepValue(data []byte) string {
	dec := jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	for dec.StackDepth() <= pawl.MaxDepth+EnvelopeDepth {
		if _, err := dec.ReadToken(); err != nil {
			return ""
		}
	}
	var pointer jsontext.Pointer
	for name := range dec.StackPointer().Tokens() {
		pointer = pointer.AppendToken(name)
		if slices.Contains(Opaque, name) {
			return string(pointer)
		}
	}
	return ""
}

// scanOpaque reads past the value of a name if the name is opaque.
func scanOpaque(dec *jsontext.Decoder, name string) error {
	if !slices.Contains(Opaque, name) {
		return nil
	}
	at := dec.StackPointer()
	value, err := dec.ReadValue()
	if err != nil {
		return Unreadable(err)
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

// Unreadable returns the error of a text that is not JSON.
func Unreadable(err error) error {
	var bad *jsontext.SyntacticError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return pawl.Invalid("", "is not JSON: it ends too soon")
	case errors.As(err, &bad):
		return pawl.Invalid(string(bad.JSONPointer), "is not JSON: %v", bad.Err)
	}
	return pawl.Invalid("", "is not JSON: %v", err)
}

// TooMany refuses a body with more values, not counting those in opaque values, than any call
// needs.
var TooMany = &pawl.Error{Code: pawl.CodeTooLarge, Message: "the body holds too many values"}
