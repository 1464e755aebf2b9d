package access

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

// payloads are the members that carry the content of work. Metadata, titles, stages and
// error messages are not among them.
var payloads = []string{
	"payload",
	"input",
	"result",
	"assembled_result",
	"snapshot",
	"detail",
	"data",
	"diff",
	"response",
	"answer",
	"evidence",
	"content",
	"before",
	"after",
	"operations",
}

// notes are members with text that is part of a payload.
var notes = []string{"notes"}

// faultsOf are the types of answers whose errors say what does not fit in a payload, and quote it.
var faultsOf = []reflect.Type{reflect.TypeFor[pawl.ItemPart]()}

// Payloads reports whether answers to this caller may contain payloads: what tasks and
// items are given and produce, snapshots, details of errors and events. A key with only
// the roles reader and claimer sees only the payloads of what it claims itself.
func (p Pass) Payloads() bool {
	return p.Key == nil || p.Key.Payloads || slices.ContainsFunc(p.Key.Roles, func(r string) bool { return r != "reader" && r != "claimer" })
}

// Hides reports whether answers of a route must be passed to Hide.
func (p Pass) Hides(r api.Route) bool { return !p.Payloads() && !r.Has(api.ShowsPayloads) }

// HidesFrom is Hides for one answer, a pointer. A resume state keeps its payloads for
// the key that holds the item's lease, and for the lease's token.
func (p Pass) HidesFrom(r api.Route, answer any) bool {
	state, ok := answer.(*pawl.ResumeState)
	return p.Hides(r) && !(ok && (state.Held || p.leased))
}

var (
	rawJSON = reflect.TypeFor[json.RawMessage]()
	fields  = reflect.TypeFor[[]pawl.Field]()
)

// Hide sets every payload in v, a pointer to an answer, to its zero value.
func Hide(v any) { hide(reflect.ValueOf(v)) }

func hide(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			hide(v.Elem())
		}
	case reflect.Slice, reflect.Array:
		if v.Type() == rawJSON {
			return
		}
		for i := range v.Len() {
			hide(v.Index(i))
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			value := reflect.New(v.Type().Elem()).Elem() // values in a map cannot be set in place
			value.Set(v.MapIndex(key))
			hide(value)
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case !f.IsExported() && !f.Anonymous, !v.Field(i).CanSet() && f.Type == rawJSON:
			case f.Type == rawJSON && slices.Contains(payloads, name):
				v.Field(i).SetZero()
			case f.Type.Kind() == reflect.String && slices.Contains(notes, name),
				f.Type == fields && slices.Contains(faultsOf, v.Type()):
				v.Field(i).SetZero()
			default:
				hide(v.Field(i))
			}
		}
	}
}
