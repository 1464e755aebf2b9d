package idform_test

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/oklog/ulid/v2"

	"github.com/pawl-work/pawl/internal/cost"
	"github.com/pawl-work/pawl/internal/idform"
)

const (
	zeros = "00000000-0000-0000-0000-000000000000"
	ones  = "ffffffff-ffff-ffff-ffff-ffffffffffff"
	some  = "0198f0c2-7D41-7abc-8def-0123456789aB"
)

func uuid(b [16]byte) string {
	h := hex.EncodeToString(b[:])
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

func TestAUUIDIsTheTextOfTheSameBytes(t *testing.T) {
	if got := idform.Task(zeros); got != "tsk_00000000000000000000000000" {
		t.Error(got)
	}
	if got := idform.Item(ones); got != "itm_7ZZZZZZZZZZZZZZZZZZZZZZZZZ" {
		t.Error(got)
	}
	if idform.Task(some) != idform.Task(strings.ToUpper(some)) {
		t.Error("the case counts")
	}
	for range 1000 {
		var b [16]byte
		_, _ = rand.Read(b[:]) // never fails
		if got, want := idform.Task(uuid(b)), "tsk_"+ulid.ULID(b).String(); got != want {
			t.Fatalf("%s: %s want %s", uuid(b), got, want)
		}
	}
	for _, other := range []string{"", "tsk_00000000000000000000000000", "tsk_" + zeros, "{" + zeros + "}", "urn:uuid:" + zeros,
		strings.ReplaceAll(zeros, "-", ""), zeros[1:] + "g", "0" + zeros[:35], zeros + " ", strings.Repeat("-", 36)} {
		if got := idform.Task(other); got != other {
			t.Errorf("%q became %q", other, got)
		}
	}
}

type fence struct {
	ItemID string `json:"id"`
	Worker string `json:"worker_id"`
}

type call struct {
	fence                   // not exported: its fields are
	TaskID  string          `json:"task_id"`
	ItemIDs []string        `json:"items"`
	IDs     []string        `json:"ids" id:"task"`
	Payload json.RawMessage `json:"payload"`
	Title   string          `json:"title"`
}

func TestCalls(t *testing.T) {
	given := []call{{TaskID: "a"}, {fence: fence{some, some}, TaskID: some, ItemIDs: []string{"x", some}, IDs: []string{some}, Title: some}}
	kept := slices.Clone(given)
	got := idform.Calls(given)
	want := call{fence: fence{idform.Item(some), some}, TaskID: idform.Task(some), ItemIDs: []string{"x", idform.Item(some)},
		IDs: []string{idform.Task(some)}, Title: some}
	if !reflect.DeepEqual(got[1], want) || !reflect.DeepEqual(got[0], given[0]) || !reflect.DeepEqual(given, kept) ||
		given[1].ItemIDs[1] != some || !reflect.DeepEqual(idform.Call(given[1]), want) {
		t.Errorf("%+v\ngiven %+v", got, given)
	}
	if plain := given[:1]; &idform.Calls(plain)[0] != &plain[0] {
		t.Error("calls without a UUID were copied")
	}
	if n := testing.AllocsPerRun(100, func() { idform.Calls(given[:1]) }); n > 0 {
		t.Errorf("calls without a UUID take %v allocations", n)
	}
}

func TestJSON(t *testing.T) {
	type batch struct {
		Items []call `json:"items"`
	}
	m := idform.MembersOf(reflect.TypeFor[batch](), "json")
	for given, want := range map[string]string{
		`{"items":[{"id":"U","task_id": "U" ,"items":["a","U"],"ids":["U"],"title":"U","payload":{"task_id":"U"}}],"task_id":"U"}`: `{` +
			`"items":[{"id":"I","task_id": "T" ,"items":["a","I"],"ids":["T"],"title":"U","payload":{"task_id":"U"}}],"task_id":"U"}`,
		`{"items":[{"id":{"a":"U"}},{"id":"U"}]}`: `{"items":[{"id":{"a":"U"}},{"id":"I"}]}`,
		`{"items":[{"id":"U"}`:                    `{"items":[{"id":"U"}`,
		`["U"]`:                                   `["U"]`,
		`"U"`:                                     `"U"`,
	} {
		form := strings.NewReplacer("U", some, "I", idform.Item(some), "T", idform.Task(some))
		if got := string(m.JSON([]byte(form.Replace(given)))); got != form.Replace(want) {
			t.Errorf("%s:\n%s", given, got)
		}
	}
}

// FuzzIDs reads arbitrary texts and bodies: what is no UUID stays as it is, and what is one has
// the bytes that the UUID has.
func FuzzIDs(f *testing.F) {
	for _, text := range []string{zeros, ones, some, "tsk_",
		`{"task_id":"` + some + `"}`, `[[{"items":["` + zeros + `"]}]]`, "-", `"` + ones + `"`} {
		f.Add(text)
	}
	m := idform.MembersOf(reflect.TypeFor[call](), "json")
	f.Fuzz(func(t *testing.T, given string) {
		cost.Check(t, len(given), func() {
			if got := idform.Task(given); got != given {
				id, err := ulid.ParseStrict(strings.TrimPrefix(got, "tsk_"))
				if err != nil || !strings.EqualFold(uuid(id), given) || idform.Task(got) != got {
					t.Errorf("%q became %q: %v", given, got, err)
				}
			}
			got := m.JSON([]byte(given))
			if string(got) != given && (!json.Valid(got) && json.Valid([]byte(given)) || string(m.JSON(got)) != string(got)) {
				t.Errorf("%q became %q", given, got)
			}
		})
	})
}
