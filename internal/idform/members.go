package idform

import (
	"bytes"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Members are the members of a JSON object, or the parameters of a query, that hold ids.
// nil has none.
type Members struct {
	prefix string              // of the id that this value is, or of those in this list
	under  map[string]*Members // by name; in a list: of each element
}

// MembersOf returns the members of a type by the names in a tag: "json" or "query". Objects
// deeper than those of a batch are not looked at.
func MembersOf(t reflect.Type, tag string) *Members { return membersOf(t, tag, 2) }

func membersOf(t reflect.Type, tag string, depth int) *Members {
	for t.Kind() == reflect.Slice || t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	m := &Members{under: map[string]*Members{}}
	for n := range t.NumField() { // not VisibleFields: a parameter of a query is one also where a path's has its name in Go
		f := t.Field(n)
		name, _, _ := strings.Cut(f.Tag.Get(tag), ",")
		if f.Anonymous {
			if embedded := membersOf(f.Type, tag, depth); embedded != nil {
				maps.Copy(m.under, embedded.under)
			}
		}
		if name == "" || name == "-" || !f.IsExported() {
			continue
		}
		if prefix := noun(f); prefix != "" {
			m.under[name] = &Members{prefix: prefix}
		} else if tag == "json" && depth > 0 {
			if under := membersOf(f.Type, tag, depth-1); under != nil {
				m.under[name] = under
			}
		}
	}
	if len(m.under) == 0 {
		return nil
	}
	return m
}

// Text returns the value of a member, or a parameter's values separated by commas, with ids
// as text.
func (m *Members) Text(name, value string) string {
	if m == nil || m.under[name] == nil || len(value) < uuidLen {
		return value
	}
	values := strings.Split(value, ",")
	for i := range values {
		values[i] = text(m.under[name].prefix, values[i])
	}
	return strings.Join(values, ",")
}

// Names returns the names of the members in order, those of nested objects after a slash.
func (m *Members) Names() (out []string) {
	if m == nil {
		return nil
	}
	for name, under := range m.under {
		if under.prefix != "" {
			out = append(out, name)
		}
		for _, below := range under.Names() {
			out = append(out, name+"/"+below)
		}
	}
	slices.Sort(out)
	return out
}

// JSON returns an object of JSON with its ids as text. The rest is left byte for byte. What
// is not JSON, and an id that is written with escapes, are left as they are.
func (m *Members) JSON(data []byte) []byte {
	if m == nil || !mayHave(data) {
		return data
	}
	w := rewriter{data: data, dec: jsontext.NewDecoder(bytes.NewReader(data), jsontext.AllowDuplicateNames(true),
		jsontext.AllowInvalidUTF8(true))}
	if err := w.value(m); err != nil || len(w.out) == 0 {
		return data
	}
	return append(w.out, data[w.from:]...)
}

// mayHave reports whether some string of JSON may be a UUID.
func mayHave(data []byte) bool {
	for at := 0; ; at++ {
		next := bytes.IndexByte(data[at:], '-')
		if next < 0 {
			return false
		}
		at += next
		if at >= 9 && at+28 < len(data) && data[at-9] == '"' && data[at+28] == '"' {
			return true
		}
	}
}

// rewriter copies JSON and replaces ids.
type rewriter struct {
	data, out []byte
	from      int // what of data is copied already
	dec       *jsontext.Decoder
}

func (w *rewriter) value(m *Members) error {
	if m == nil {
		return w.dec.SkipValue()
	}
	switch w.dec.PeekKind() {
	case '{':
		return w.object(m)
	case '[':
		if _, err := w.dec.ReadToken(); err != nil {
			return err
		}
		for w.dec.PeekKind() != ']' {
			if err := w.value(m); err != nil {
				return err
			}
		}
		_, err := w.dec.ReadToken()
		return err
	case '"':
		raw, err := w.dec.ReadValue()
		if err == nil && m.prefix != "" && len(raw) == uuidLen+2 {
			w.id(m.prefix, string(raw[1:len(raw)-1]))
		}
		return err
	}
	return w.dec.SkipValue()
}

func (w *rewriter) object(m *Members) error {
	if _, err := w.dec.ReadToken(); err != nil {
		return err
	}
	for w.dec.PeekKind() != '}' {
		name, err := w.dec.ReadToken()
		if err != nil {
			return err
		}
		if err := w.value(m.under[name.String()]); err != nil {
			return err
		}
	}
	_, err := w.dec.ReadToken()
	return err
}

// id replaces the id that was just read.
func (w *rewriter) id(prefix, id string) {
	if is := text(prefix, id); is != id {
		end := int(w.dec.InputOffset()) - 1
		w.out = append(append(w.out, w.data[w.from:end-uuidLen]...), is...)
		w.from = end
	}
}
