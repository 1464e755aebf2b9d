package strictjson_test

import (
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/strictjson"
)

// What does not fit is told which JSON its place takes.
func TestWhatAPlaceTakes(t *testing.T) {
	type thing struct {
		Yes   bool
		Text  *string
		Many  []string
		One   struct{ A int }
		Half  float64
		Whole int
		When  time.Time
	}
	for text, want := range map[string]string{
		`{"Yes":{}}`:    "must be true or false",
		`{"Text":[]}`:   "must be a text",
		`{"Many":"a"}`:  "must be a list",
		`{"One":"a"}`:   "must be an object",
		`{"Half":"a"}`:  "must be a number",
		`{"Whole":"a"}`: "must be an integer",
		`{"Whole":1.5}`: "is no integer, or out of range",
		`{"When":1}`:    "is no integer, or out of range",
		`{"When":[]}`:   "is not of the kind expected",
		`1`:             "must be an object",
	} {
		fields := pawl.FieldsOf(strictjson.Read([]byte(text), new(thing)))
		if len(fields) != 1 || fields[0].Message != want {
			t.Errorf("%s: %v, want %s", text, fields, want)
		}
	}
}
