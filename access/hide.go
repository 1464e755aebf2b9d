package access

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
)

// payloads are the members that carry what work is about; metadata, titles,
// stages and error messages are not among them.
var payloads = []string{"payload", "input", "result", "assembled_result", "snapshot", "detail", "data", "diff", "response", "evidence", "before", "after", "operations"}

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
