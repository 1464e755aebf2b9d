package dashboard

import (
	"encoding/json"
	"reflect"
	"slices"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
)

// shownRaw are the members with raw JSON that a page may show to every reader, by field.
var shownRaw = []string{"Metadata", "PartsRequired", "PartsState", "Usage", "Extra", "Schema",
	"PayloadSchema", "InputSchema", "ResultSchema", "When"}

// What a page holds as raw JSON is hidden from keys without payloads, unless it is listed here: a
// copy under another name would show it.
func TestRawJSONOfPagesIsHiddenOrListed(t *testing.T) {
	for _, page := range []any{
		&overviewPage{}, &tasksPage{}, &taskPage{}, &bulkPage{}, &itemsPage{}, &itemPage{}, &approvalsPage{}, &effectsPage{}, &effectPage{},
		&failuresPage{}, &selection{}, &messagePage{}, &messagesPage{}, &searchPage{}, &pawl.List[pawl.WorkerInfo]{}, &typesPage{},
		&queuesPage{}, &queuePage{}, &schedulesPage{}, &schedulePage{}, &pawl.List[pawl.Budget]{}, &budgetPage{}, &confirmation{},
		&sweepsPage{}, &relaysPage{},
		&keysPage{},
	} {
		v := reflect.ValueOf(page).Elem()
		fillRaw(v, 0)
		access.Hide(page)
		findRaw(v, v.Type().Name(), func(path, field string) {
			if !slices.Contains(shownRaw, field) {
				t.Errorf("%s is neither hidden nor shown to every reader", path)
			}
		})
	}
}

// deepestRaw bounds types that contain themselves.
const deepestRaw = 8

func fillRaw(v reflect.Value, depth int) {
	switch {
	case depth > deepestRaw:
	case v.Kind() == reflect.Struct: // of an embedded one that is not exported, the members can be set
		for i := range v.NumField() {
			fillRaw(v.Field(i), depth+1)
		}
	case !v.CanSet():
	case v.Type() == reflect.TypeFor[json.RawMessage]():
		v.SetBytes([]byte(`1`))
	case v.Kind() == reflect.Pointer && v.Type().Elem().Kind() == reflect.Struct:
		v.Set(reflect.New(v.Type().Elem()))
		fillRaw(v.Elem(), depth+1)
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillRaw(v.Index(0), depth+1)
	}
}

func findRaw(v reflect.Value, path string, found func(path, field string)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			findRaw(v.Elem(), path, found)
		}
	case reflect.Slice:
		for i := range v.Len() {
			findRaw(v.Index(i), path, found)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f, name := v.Field(i), v.Type().Field(i).Name
			if f.Type() == reflect.TypeFor[json.RawMessage]() && f.Len() > 0 {
				found(path+"."+name, name)
			} else {
				findRaw(f, path+"."+name, found)
			}
		}
	}
}
