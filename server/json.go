package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"

	"github.com/danielgtaylor/huma/v2"
	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/pawl-work/pawl"
)

// format reads strictly and writes payloads as they are.
var format = huma.Format{Marshal: encode, Unmarshal: decode}

// encode writes the whole answer at once; a caller that is gone is no error.
func encode(w io.Writer, v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, _ = w.Write(b.Bytes())
	return nil
}

// decode reads a body that scan has passed: first as a tree that huma checks
// against the schema, then as the type itself, names matched exactly.
func decode(data []byte, v any) error {
	if tree, ok := v.(*any); ok {
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber() // 1e400 is a number too
		return dec.Decode(tree)
	}
	err := jsonv2.Unmarshal(data, v, jsonv2.RejectUnknownMembers(true))
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

// fault carries a field through huma, which keeps only an error's text.
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

// scan says where a text is not JSON: broken syntax, a name twice in one
// object, bytes that are not UTF-8, anything after the value.
func scan(data []byte) error {
	dec := jsontext.NewDecoder(bytes.NewReader(data))
	for {
		_, err := dec.ReadToken()
		if err == io.EOF {
			return nil
		}
		var bad *jsontext.SyntacticError
		if errors.As(err, &bad) {
			return pawl.Invalid(string(bad.JSONPointer), "is not JSON: %v", reason(bad))
		}
		if err != nil {
			return pawl.Invalid("", "is not JSON: %v", err)
		}
		if dec.StackDepth() == 0 {
			if rest := bytes.TrimLeft(data[dec.InputOffset():], " \t\r\n"); len(rest) > 0 {
				return pawl.Invalid("", "has something after its end")
			}
			return nil
		}
	}
}

func reason(e *jsontext.SyntacticError) error {
	if errors.Is(e, io.ErrUnexpectedEOF) {
		return errors.New("it ends too soon")
	}
	return e.Err
}
