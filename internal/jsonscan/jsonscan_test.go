package jsonscan_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-work/pawl/internal/cost"
	"github.com/pawl-work/pawl/internal/jsonscan"
)

func TestDepth(t *testing.T) {
	for text, want := range map[string]int{`1`: 0, `"[[["`: 0, `"\"[["`: 0, `[]`: 1, `{"a":[1],"b":[[2]]}`: 3, `[[`: 2, ``: 0} {
		if got := jsonscan.Depth([]byte(text)); got != want {
			t.Errorf("%s: %d, not %d", text, got, want)
		}
	}
}

func TestBadString(t *testing.T) {
	for text, want := range map[string]string{
		`"\\u0000"`:                         "",
		`"\\\u0000"`:                        " contains a NUL character",
		` { "a~/b" : [ 1 , "\u0000" ] } `:   "/a~0~1b/1 contains a NUL character",
		`{"a":{"b\u0000":1}}`:               "/a/b\x00 its name contains a NUL character",
		`{"a":1,"b":"\u0000","c":"\u0000"}`: "/b contains a NUL character",
		"{\"a\":\"\xff\"}":                  "/a is not valid UTF-8",
		"[{\"\xff\":1}]":                    "/0 has a name that is not valid UTF-8",
		`[true,null,-1.5e3,{"x":"\u0001"}]`: "",
		`["\ud83d\ude00","\\ud800"]`:        "",
		`["a","x\ud83d y"]`:                 "/1 has half of a surrogate pair: such text is no Unicode",
		`{"a":"\ude00"}`:                    "/a has half of a surrogate pair: such text is no Unicode",
		`{"a":{"\ud83d":1}}`:                "/a/\ufffd its name has half of a surrogate pair",
	} {
		pointer, reason := jsonscan.BadString([]byte(text))
		if got := strings.TrimPrefix(pointer+" "+reason, " "); strings.TrimSpace(got) != strings.TrimSpace(want) {
			t.Errorf("%q: %q, not %q", text, got, want)
		}
	}
}

func TestSelect(t *testing.T) {
	text := []byte(` {"a":{"b":[10,{"c":"x"}],"b~/":1,"\u0064":2},"e":null,"f":{"g":1},"f":{"h":2}} `)
	for pointer, want := range map[string]string{
		``: string(text), `/a/b/0`: `10`, `/a/b/1`: `{"c":"x"}`, `/a/b/1/c`: `"x"`, `/a/b~0~1`: `1`, `/a/d`: `2`, `/e`: `null`,
		`/f/h`: `2`, `/f/g`: ``, `/a/b/2`: ``, `/a/b/00`: ``, `/a/b/-1`: ``, `/e/x`: ``, `a`: ``, `/`: ``,
	} {
		if got := jsonscan.Select(text, []string{"/e", pointer})[1]; string(got) != want {
			t.Errorf("%s: %s, not %s", pointer, got, want)
		}
	}
	if got := jsonscan.Select(nil, []string{"", "/a"}); got[0] != nil || got[1] != nil {
		t.Errorf("of nothing: %s", got)
	}
}

// A search allocates the same few objects, however deep and long its text is.
func TestScansDoNotCopy(t *testing.T) {
	deep := []byte(strings.Repeat(`{"a":[0,`, 200) + `"` + strings.Repeat("x", 1<<20) + `\u0001"` + strings.Repeat(`]}`, 200))
	bad := slices.Concat(
		[]byte(strings.Repeat(`{"a":[0,`, 200)),
		[]byte(`"\\u0000`),
		make([]byte, 0),
		[]byte(`"`),
		[]byte(strings.Repeat(`]}`, 200)),
	)
	path := strings.Repeat("/a/1", 200)
	pointers := slices.Repeat([]string{path}, 16)
	for name, fn := range map[string]func(){
		"Depth":     func() { jsonscan.Depth(deep) },
		"BadString": func() { jsonscan.BadString(bad) },
		"Select":    func() { jsonscan.Select(deep, pointers) },
	} {
		if n := testing.AllocsPerRun(5, fn); n > 20_000 {
			t.Errorf("%s: %v objects", name, n)
		}
	}
	if !json.Valid(deep) || !json.Valid(bad) {
		t.Error("the texts are not JSON")
	}
}

// FuzzScan checks that valid JSON never panics a scan, and that a scan finds what
// encoding/json finds.
func FuzzScan(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b":"\u0000"}]}`), "/a/1/b")
	f.Add([]byte(`[[],{}]`), "/0")
	f.Fuzz(func(t *testing.T, text []byte, pointer string) {
		if !json.Valid(text) || jsonscan.Depth(text) > 500 {
			return
		}
		var got json.RawMessage
		cost.Check(t, len(text)+len(pointer), func() {
			jsonscan.BadString(text)
			got = jsonscan.Select(text, []string{pointer})[0]
		})
		if got != nil && !json.Valid(got) {
			t.Errorf("%s of %s is %s", pointer, text, got)
		}
	})
}
