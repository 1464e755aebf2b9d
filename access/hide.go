package access

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// payloads are the members that carry what work is about; metadata, titles,
// stages and error messages are not among them.
var payloads = []string{"payload", "input", "result", "assembled_result", "snapshot", "detail", "data", "diff", "response", "evidence", "content", "before", "after", "operations"}

// Payloads says whether answers may show payloads: what tasks and items are
// about and come to, snapshots, details of errors and events. A key that only
// reads or claims sees none but what it claims itself.
func (p Pass) Payloads() bool {
	return p.Key == nil || p.Key.Payloads || slices.ContainsFunc(p.Key.Roles, func(r string) bool { return r != "reader" && r != "claimer" })
}

// own are the routes whose answers are the caller's own work, payloads and all.
var own = []string{"claim", "resume_item"}

// Hides says that answers of a route are to be shown without payloads (Hide).
func (p Pass) Hides(route string) bool { return !p.Payloads() && !slices.Contains(own, route) }

var rawJSON = reflect.TypeFor[json.RawMessage]()

// Hide empties every payload in v, a pointer to an answer.
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
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case !f.IsExported() && !f.Anonymous, !v.Field(i).CanSet() && f.Type == rawJSON:
			case f.Type == rawJSON && slices.Contains(payloads, name):
				v.Field(i).SetZero()
			default:
				hide(v.Field(i))
			}
		}
	}
}
