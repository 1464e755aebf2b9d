package client

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/pawl-work/pawl"
)

// encode writes a call as JSON. It differs from encoding/json where stored data needs it. Raw
// values are written byte for byte. Text that is not UTF-8 and raw values that are not JSON are
// refused with their place in the call; encoding/json would change such text, and refuse such
// values without their place. encode supports the kinds of types that calls are made of.
func encode(v any) ([]byte, error) {
	var w writer
	w.value(reflect.ValueOf(v), "")
	if w.fields != nil {
		return nil, &pawl.Error{Code: pawl.CodeInvalid, Fields: w.fields}
	}
	return w.Bytes(), nil
}

type writer struct {
	bytes.Buffer
	fields []pawl.Field
}

func (w *writer) refuse(at, format string, args ...any) {
	w.fields = append(w.fields, pawl.Field{Pointer: at, Message: fmt.Sprintf(format, args...)})
}

func (w *writer) value(v reflect.Value, at string) {
	if v.Kind() == reflect.Pointer && v.IsNil() {
		w.WriteString("null")
		return
	}
	switch x := v.Interface().(type) {
	case json.RawMessage:
		w.raw(x, at)
		return
	case json.Marshaler:
		b, err := x.MarshalJSON()
		if err != nil {
			w.refuse(at, "cannot be written as JSON: %v", err)
		}
		w.Write(b)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		w.value(v.Elem(), at)
	case reflect.Struct:
		w.WriteByte('{')
		w.members(v, at)
		w.WriteByte('}')
	case reflect.Slice:
		w.list(v, at)
	case reflect.String:
		w.text(v.String(), at)
	case reflect.Int, reflect.Int64:
		w.WriteString(strconv.FormatInt(v.Int(), 10))
	case reflect.Bool:
		w.WriteString(strconv.FormatBool(v.Bool()))
	default:
		w.refuse(at, "a %s cannot be written as JSON", v.Type())
	}
}

func (w *writer) raw(x json.RawMessage, at string) {
	switch {
	case len(x) == 0:
		w.WriteString("null")
	case !json.Valid(x):
		w.refuse(at, "is not valid JSON")
	default:
		w.Write(x)
	}
}

func (w *writer) text(s, at string) {
	if !utf8.ValidString(s) {
		w.refuse(at, "is not valid UTF-8")
		return
	}
	b, _ := json.Marshal(s) // text always marshals
	w.Write(b)
}

func (w *writer) list(v reflect.Value, at string) {
	w.WriteByte('[')
	for i := range v.Len() {
		if i > 0 {
			w.WriteByte(',')
		}
		w.value(v.Index(i), fmt.Sprintf("%s/%d", at, i))
	}
	w.WriteByte(']')
}

// members writes a struct's fields by their tags. Fields with omitempty or omitzero are left
// out if they are zero. An empty snapshot is left out too: it is missing, not null.
func (w *writer) members(v reflect.Value, at string) {
	for i := range v.NumField() {
		f, x := v.Type().Field(i), v.Field(i)
		name, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			w.members(x, at)
			continue
		}
		missing := x.IsZero() || x.Kind() == reflect.Slice && x.Len() == 0
		if missing && (strings.HasPrefix(opts, "omit") || name == "snapshot") {
			continue
		}
		if last := w.Bytes()[w.Len()-1]; last != '{' {
			w.WriteByte(',')
		}
		w.WriteString(strconv.Quote(name) + ":")
		w.value(x, at+"/"+name)
	}
}
