package client

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/pawl-work/pawl"
)

var rawType = reflect.TypeFor[json.RawMessage]()

// check refuses what encoding/json would mend in silence or refuse without a
// place: text that is not UTF-8, raw JSON that is none. All else is the
// server's to judge.
func check(v any) error {
	var fields []pawl.Field
	walk(reflect.ValueOf(v), "", func(pointer, message string) {
		fields = append(fields, pawl.Field{Pointer: pointer, Message: message})
	})
	if fields != nil {
		return &pawl.Error{Code: pawl.CodeInvalid, Fields: fields}
	}
	return nil
}

func walk(v reflect.Value, at string, found func(pointer, message string)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			walk(v.Elem(), at, found)
		}
	case reflect.String:
		if !utf8.ValidString(v.String()) {
			found(at, "is not valid UTF-8")
		}
	case reflect.Slice:
		if v.Type() == rawType {
			if raw := v.Bytes(); len(raw) > 0 && !json.Valid(raw) {
				found(at, "is not valid JSON")
			}
			return
		}
		for i := range v.Len() {
			walk(v.Index(i), fmt.Sprintf("%s/%d", at, i), found)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case !f.IsExported():
			case f.Anonymous && name == "":
				walk(v.Field(i), at, found)
			default:
				walk(v.Field(i), at+"/"+name, found)
			}
		}
	}
}
