// Package idform accepts the UUID form of the ids of tasks and items. Such an id is 16
// bytes. Its text is a prefix and a ULID everywhere in Pawl; callers may also write the
// same bytes as a UUID, where it is known of what noun the id is. What this package does
// not recognise is left as it is, and is refused or not found by those who use it.
package idform

import (
	"encoding/hex"
	"reflect"
	"strings"
	"sync"

	"github.com/oklog/ulid/v2"
)

// The prefixes of the ids.
const (
	task = "tsk_"
	item = "itm_"
)

// uuidLen is the length of a UUID: 8-4-4-4-12 hexadecimal digits.
const uuidLen = 36

// Task returns the text of a task's id that is given as a UUID, and any other text unchanged.
func Task(id string) string { return text(task, id) }

// Item returns the text of an item's id that is given as a UUID, and any other text unchanged.
func Item(id string) string { return text(item, id) }

func text(prefix, id string) string {
	if b, ok := ParseUUID(id); ok {
		return prefix + ulid.ULID(b).String()
	}
	return id
}

// ParseUUID reads a UUID in its usual form, in upper or lower case.
func ParseUUID(text string) (b [16]byte, ok bool) {
	if len(text) != uuidLen || text[8] != '-' || text[13] != '-' || text[18] != '-' || text[23] != '-' {
		return b, false
	}
	_, err := hex.Decode(b[:], []byte(text[:8]+text[9:13]+text[14:18]+text[19:23]+text[24:]))
	return b, err == nil
}

// noun returns the prefix of the ids in a field of Go: that of its tag `id`, or of its name.
// "" = the field has none.
func noun(f reflect.StructField) string {
	if f.Type.Kind() != reflect.String && f.Type != reflect.TypeFor[[]string]() {
		return ""
	}
	name := f.Tag.Get("id")
	if name == "" {
		name = strings.ToLower(strings.TrimSuffix(strings.TrimSuffix(f.Name, "s"), "ID"))
		if !strings.HasSuffix(strings.TrimSuffix(f.Name, "s"), "ID") {
			return ""
		}
	}
	switch name {
	case "task":
		return task
	case "item":
		return item
	}
	return ""
}

// field is a field of a struct that holds ids.
type field struct {
	index  []int
	prefix string
}

var fields sync.Map // reflect.Type → []field; a cache of what types say

func fieldsOf(t reflect.Type) []field {
	if known, ok := fields.Load(t); ok {
		return known.([]field)
	}
	var out []field
	for _, f := range reflect.VisibleFields(t) {
		if prefix := noun(f); prefix != "" && f.IsExported() {
			out = append(out, field{f.Index, prefix})
		}
	}
	fields.Store(t, out)
	return out
}

// Has reports whether a struct has fields with ids of tasks or items.
func Has(t reflect.Type) bool { return t.Kind() == reflect.Struct && len(fieldsOf(t)) > 0 }

// Call returns a call, or a filter, with its ids as text. Nothing that v refers to is changed.
func Call[C any](v C) C {
	In(&v)
	return v
}

// In is Call in place: a waiting caller keeps no second copy of a large call on its stack.
func In[C any](v *C) { change(reflect.ValueOf(v).Elem(), fieldsOf(reflect.TypeFor[C]())) }

// Calls is Call for each of several. It copies them before it changes one.
func Calls[C any](calls []C) []C {
	of, copied := fieldsOf(reflect.TypeFor[C]()), false
	for i := range calls {
		if !needs(reflect.ValueOf(&calls[i]).Elem(), of) {
			continue
		}
		if !copied {
			calls, copied = append([]C(nil), calls...), true
		}
		change(reflect.ValueOf(&calls[i]).Elem(), of)
	}
	return calls
}

func needs(v reflect.Value, of []field) bool {
	for _, f := range of {
		at := v.FieldByIndex(f.index)
		if at.Kind() == reflect.String {
			if at.Len() == uuidLen {
				return true
			}
			continue
		}
		for i := range at.Len() {
			if at.Index(i).Len() == uuidLen {
				return true
			}
		}
	}
	return false
}

func change(v reflect.Value, of []field) {
	if !needs(v, of) {
		return
	}
	for _, f := range of {
		at := v.FieldByIndex(f.index)
		if at.Kind() == reflect.String {
			at.SetString(text(f.prefix, at.String()))
			continue
		}
		list := append([]string(nil), at.Interface().([]string)...)
		for i := range list {
			list[i] = text(f.prefix, list[i])
		}
		at.Set(reflect.ValueOf(list))
	}
}
