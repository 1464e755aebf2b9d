package schema

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-work/pawl"
)

func must(t testing.TB, text string) *Schema {
	t.Helper()
	s, bad := Compile([]byte(text))
	if bad != nil {
		t.Fatalf("%s: %v", text, bad)
	}
	return s
}

func lines(fs []pawl.Field) string {
	var b strings.Builder
	for _, f := range fs {
		fmt.Fprintf(&b, "%s %s\n", f.Pointer, f.Message)
	}
	return b.String()
}

const person = `{"type":"object","required":["name","age"],"additionalProperties":false,"properties":{
	"name":{"type":"string","minLength":1,"maxLength":5},"age":{"type":"integer","minimum":0,"maximum":150},"mail":{"type":"string",` +
	`"format":"email"},
	"tags":{"type":"array","items":{"enum":["a","b"]},"uniqueItems":true,"maxItems":2},"id":{"type":"string","pattern":"^[a-z]+$"},` +
	`"a/b~c":{"type":"null"},
	"share":{"type":"number","multipleOf":0.1},"what":{"const":"this"},"pet":{"oneOf":[{"type":"object","required":["cat"],` +
	`"properties":{"cat":{"type":"string"}}},{"type":"object","required":["dog"],"properties":{"dog":{"type":"integer"}}}]}}}`

// A violation is reported with its pointer and the expected value.
func TestCheckTellsWhereAndWhy(t *testing.T) {
	s := must(t, person)
	for _, c := range []struct{ value, says string }{
		{`{"name":"Ann","age":7}`, ""},
		{`{"name":"Ann","age":7.0,"share":0.3,"what":"this","pet":{"dog":1}}`, ""},
		{`[]`, " is an array; it must be an object\n"},
		{``, " is null; it must be an object\n"},
		{`{"name":"","age":"x"}`, "/age is a string; it must be an integer\n/name has 0 characters; it must have at least 1\n"},
		{`{"extra":1,"mail":"no"}`,
			"/age is required\n/extra is not allowed here\n/mail is \"no\", which is not a valid email\n/name is required\n"},
		{`{"name":"A","age":151,"id":"UPPER"}`, "/age is 151; it must be at most 150\n/id is \"UPPER\", which does not match ^[a-z]+$\n"},
		{`{"name":"A","age":1.5,"tags":["a","a","c"]}`,
			"/age is a number; it must be an integer\n/tags has 3 elements; it must have at most 2\n" +
				"/tags has the same element twice, at 0 and 1\n/tags/2 is \"c\"; it must be \"a\" or \"b\"\n"},
		{`{"name":"A","age":1,"a/b~c":1,"share":0.25,"what":{}}`,
			"/a~1b~0c is a number; it must be null\n/share is 0.25; it must be a multiple of 0.1\n/what is an object; it must be \"this\"\n"},
		{`{"name":"A","age":1,"pet":{"dog":"rex"}}`,
			"/pet fits none of 2 alternatives; the errors of the closest one follow\n/pet/dog is a string; it must be an integer\n"},
		{`{"name":"A","age":1,"name":"B"}`, "/name is there more than once\n"},
		{`{"name":`, "/name is not valid JSON\n"},
		{`{} {}`, " is followed by something else\n"},
	} {
		if diff := cmp.Diff(c.says, lines(s.Check([]byte(c.value)))); diff != "" {
			t.Errorf("%s: %s", c.value, diff)
		}
	}
	var none *Schema
	if bad := none.Check([]byte("no JSON")); bad != nil {
		t.Error("no schema refused", bad)
	}
}

// Numbers are compared as written, not rounded to float64.
func TestNumbersAreExact(t *testing.T) {
	s := must(t, `{"const":9007199254740993}`)
	if bad := s.Check([]byte("9007199254740993")); bad != nil {
		t.Error(bad)
	}
	if s.Check([]byte("9007199254740992")) == nil {
		t.Error("a number fits its neighbour's schema")
	}
	s = must(t, `{"multipleOf":0.01,"maximum":1e400}`)
	if bad := s.Check([]byte("1000000000000000000000.07")); bad != nil {
		t.Error(bad)
	}
}

// The messages for a value with many violations are short.
func TestWhatIsToldIsShort(t *testing.T) {
	s := must(t, `{"type":"object","additionalProperties":{"enum":["`+strings.Repeat("y", 500)+`","z"]}}`)
	value := map[string]string{}
	for i := range 500 {
		value[fmt.Sprintf("%03d%s", i, strings.Repeat("k", 1000))] = strings.Repeat("x", 1000)
	}
	raw, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	bad := s.Check(raw)
	if len(bad) != MaxErrors || bad[MaxErrors-1].Message != "does not fit in 491 more places" {
		t.Error(len(bad), bad[len(bad)-1])
	}
	for _, f := range bad {
		if len([]rune(f.Pointer)) > maxPointer || len([]rune(f.Message)) > maxMessage {
			t.Error(f)
		}
	}
}

func TestSchemasThatAreNone(t *testing.T) {
	for _, c := range []struct{ schema, says string }{
		{`{`, " is not valid JSON\n"},
		{`3`, " is not a schema: a schema must be an object, true or false\n"},
		{`{"type":"objekt"}`, "/type fits none of 2 alternatives"},
		{`{"properties":{"a":{"minLength":-1}}}`, "/properties/a/minLength is -1; it must be at least 0\n"},
		{`{"properties":{"a":{"required":"b"}}}`, "/properties/a/required is a string; it must be an array\n"},
		{`{"properties":{"a":{"$ref":"#/$defs/no"}}}`, "/properties/a/$ref refers to a definition that the schema does not have\n"},
		{`{"$ref":"#nowhere"}`, "/$ref refers to a definition that the schema does not have\n"},
		{`{"properties":{"a":{"pattern":"(?=x)"}}}`,
			"/properties/a/pattern is \"(?=x)\", which uses (?=: patterns are RE2, which has no look-ahead\n"},
		{`{"pattern":"[(?=]\\.a(?<!b)"}`, "/pattern is \"[(?=]\\\\.a(?<!b)\", which uses (?<!: patterns are RE2, which has no look-behind\n"},
		{`{"pattern":"(a)\\1"}`, "/pattern is \"(a)\\\\1\", which uses \\1: patterns are RE2, which has no back-reference\n"},
		{`{"pattern":"a++"}`, "/pattern is \"a++\", which uses ++: patterns are RE2, which has no possessive quantifier\n"},
		{`{"patternProperties":{"(?>a)":{}}}`,
			"/patternProperties/(?>a) is \"(?>a)\", which uses (?>: patterns are RE2, which has no atomic group\n"},
		{`{"patternProperties":{"(":{}}}`, "/patternProperties/( is \"(\", which is not a pattern of RE2: missing closing ): (\n"},
		{`{"pattern":"` + strings.Repeat("a", 1001) + `"}`,
			"/pattern is \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…\", which has 1001 characters; at most 1000 are allowed\n"},
		{`{"pattern":"((a{100}){100}){100}"}`, "/pattern is \"((a{100}){100}){100}\", which is not a pattern of RE2: "},
		{`{"pattern":"` + strings.Repeat(`\\pL{900}`, 60) + `"}`, "/pattern is \"\\\\pL{900}\\\\pL{900}"},
		{`{"$schema":"http://json-schema.org/draft-04/schema#"}`,
			"/$schema is \"http://json-schema.org/draft-04/schema#\"; schemas are read as " + Dialect + " or " + Draft7 + "\n"},
		{`{"$defs":{"a":{"$schema":"http://json-schema.org/draft-07/schema#"}}}`,
			"/$defs/a/$schema is \"http://json-schema.org/draft-07/schema#\", and the schema is read as " + Dialect + "\n"},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","items":5}`, "/items fits none of"},
		{`{"maximum":1e999999999}`, "/maximum is a number with an exponent beyond ±1000\n"},
		{`{"enum":[` + strings.Repeat("0,", maxNodes) + `0]}`, " has more than 5000 parts\n"},
		{strings.Repeat(`{"not":`, 600) + "{}" + strings.Repeat("}", 600), " is nested deeper than 500 levels\n"},
		{`{"title":"` + strings.Repeat("a", maxBytes) + `"}`, " has 262156 bytes; at most 262144 are allowed\n"},
	} {
		s, bad := Compile([]byte(c.schema))
		if got := lines(bad); s != nil || !strings.HasPrefix(got, c.says) {
			t.Errorf("%.60s\n got %s\nwant %s", c.schema, got, c.says)
		}
	}
}

// A schema that names draft-07 is read by it: lists of items, definitions, dependencies, and a reference
// that stands alone.
func TestDraft7(t *testing.T) {
	for _, dialect := range []string{Draft7, Draft7 + "#", "https://json-schema.org/draft-07/schema#"} {
		s := must(t, `{"$schema":"`+dialect+`","properties":{
			"pair":{"items":[{"type":"string"},{"type":"integer"}],"additionalItems":false},
			"list":{"items":{"$ref":"#/definitions/word","minLength":9}},
			"a":{}},
			"dependencies":{"a":["b"]},"definitions":{"word":{"type":"string"}}}`)
		for _, c := range []struct{ value, says string }{
			{`{"pair":["a",1],"list":["x"],"a":1,"b":2}`, ""},
			{`{"pair":[1,"a"]}`, "/pair/0 is a number; it must be a string\n/pair/1 is a string; it must be an integer\n"},
			{`{"pair":["a",1,2]}`, "/pair has more elements than the schema lists\n"},
			{`{"list":[1]}`, "/list/0 is a number; it must be a string\n"},
			{`{"a":1}`, "/b is required where \"a\" is given\n"},
		} {
			if got := lines(s.Check([]byte(c.value))); got != c.says && (c.says == "" || !strings.HasPrefix(got, c.says)) {
				t.Errorf("%s: %s", c.value, got)
			}
		}
	}
}

// A reference to a file or the network is refused and never followed.
func TestNothingIsFetched(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("fetched over HTTP") }))
	defer srv.Close()
	secret := filepath.Join(t.TempDir(), "secret.json")
	if err := os.WriteFile(secret, []byte(`{"const":"s3cret"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{srv.URL + "/a.json", "file://" + filepath.ToSlash(secret), filepath.ToSlash(secret), "other.json",
		"../up.json#/$defs/x", "http://[::1]:1/x#y"} {
		for _, key := range []string{"$ref", "$dynamicRef"} {
			text, err := json.Marshal(map[string]any{"properties": map[string]any{"x": map[string]any{key: ref}}})
			if err != nil {
				t.Fatal(err)
			}
			s, bad := Compile(text)
			if got := lines(bad); s != nil ||
				got != "/properties/x/"+escape(key)+" refers to another document; schemas are never fetched: put the definition under $defs\n" {
				t.Errorf("%s %s: %s", key, ref, got)
			}
		}
	}
	inside := must(
		t,
		`{"$id":"https://example.com/a","properties":{"x":{"$ref":"https://example.com/b"}},"$defs":{"b":{"$id":"b","type":"string"}}}`,
	)
	if bad := inside.Check([]byte(`{"x":1}`)); lines(bad) != "/x is a number; it must be a string\n" {
		t.Error("a reference to what the schema has itself:", bad)
	}
}

// bombs are schemas and values that would take very long without a budget.
var bombs = map[string][2]string{
	"lists of draft-07": {`{"$schema":"` + Draft7 + `","allOf":[{"items":[{"$ref":"#"}]},{"items":[{"$ref":"#"}]}]}`,
		strings.Repeat("[", 60) + strings.Repeat("]", 60)},
	"alternatives of alternatives": {doubling(40), `1`},
	"recursion that doubles at each level": {
		`{"$defs":{"n":{"type":"object","allOf":[{"properties":{"c":{"$ref":"#/$defs/n"}}},{"properties":{"c":{"$ref":"#/$defs/n"}}}]}},` +
			`"$ref":"#/$defs/n"}`,
		strings.Repeat(`{"c":`, 60) + "1" + strings.Repeat("}", 60),
	},
	"an anchor of another resource": {dynamic("c", "T"), nested},
	"an anchor at an unusual place": {dynamic("a c%/~", "T"), nested},
	"an anchor that the draft uses": {dynamic("c", "meta"), nested},
	"$recursiveRef":                 {`{"allOf":[{"items":{"$recursiveRef":"#"}},{"items":{"$recursiveRef":"#"}}]}`, nested},
	"a long const":                  {repeated(`{"const":[[` + zeros + `1]]}`), `[[` + zeros + `2]]`},
	"a long enum":                   {repeated(`{"enum":[` + zeros + `1]}`), `2`},
	"lists that are equal but for the end": {repeated(`{"uniqueItems":true}`),
		`[[` + zeros + `1],[` + zeros + `2],[` + zeros + `3],[` + zeros + `2]]`},
	"many names":               {repeated(`{"required":[` + numbered + `"z"]}`), `{}`},
	"under a not":              {strings.Replace(doubling(40), `"$ref":"#/$defs/d0"`, `"not":{"$ref":"#/$defs/d0"}`, 1), `1`},
	"a long pattern and text":  {`{"pattern":"` + strings.Repeat("(a|b)*", 160) + `c$"}`, `"` + strings.Repeat("ab", 1<<19) + `"`},
	"a number that is long":    {`{"multipleOf":3}`, `1e1000000000`},
	"many patterns in a value": {`{"items":{"format":"regex"}}`, `["` + strings.Repeat(strings.Repeat(`\\pL`, 200)+`","`, 1200) + `"]`},
	"a pattern in a value":     {`{"format":"regex"}`, `"` + strings.Repeat("((((", 1<<18) + `"`},
}

var (
	zeros    = strings.Repeat("0,", 2000)
	numbered = func() string {
		var b strings.Builder
		for i := range 4000 {
			fmt.Fprintf(&b, `"n%d",`, i)
		}
		return b.String()
	}()
)

// nested is a value that is checked 2^18 times if each of its levels is checked twice.
var nested = strings.Repeat("[", 18) + strings.Repeat("]", 18)

// dynamic is a schema that refers to an anchor, which leads to the outermost of two resources.
func dynamic(place, anchor string) string {
	items := `{"items":{"$dynamicRef":"#` + anchor + `"}}`
	return `{"$id":"https://e.x/r","$ref":"foo","$defs":{"` + place +
		`":{"$dynamicAnchor":"` + anchor + `","allOf":[` + items + `,` + items + `]},` +
		`"foo":{"$id":"foo","$dynamicRef":"#` + anchor + `","$defs":{"d":{"$dynamicAnchor":"` + anchor + `"}}}}}`
}

// repeated is a schema that checks a subschema a thousand times.
func repeated(sub string) string {
	return strings.Replace(doubling(10), `{"type":"string"}`, sub, 1)
}

func doubling(n int) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/d0","$defs":{`)
	for i := range n {
		fmt.Fprintf(&b, `"d%d":{"anyOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	fmt.Fprintf(&b, `"d%d":{"type":"string"}}}`, n)
	return b.String()
}

func TestBombsAreRefused(t *testing.T) {
	for name, b := range bombs {

		s, bad := Compile([]byte(b[0]))
		if bad != nil {
			t.Errorf("%s: %v", name, bad)
			continue
		}
		got := s.Check([]byte(b[1]))
		if name != "a number that is long" && name != "many patterns in a value" && name != "a pattern in a value" &&
			!strings.Contains(lines(got), "takes too long to check") {
			t.Errorf("%s: %v", name, got)
		}
		if again := s.Check([]byte(b[1])); lines(again) != lines(got) {
			t.Errorf("%s: %v, then %v", name, got, again)
		}
	}
}

// A schema is refused quickly: the size of its patterns is computed before they are compiled.
// Compiling 256 KiB of patterns would take minutes and gigabytes.
func TestManyPatternsAreRefused(t *testing.T) {
	for name, p := range map[string]string{"texts": strings.Repeat(`\\pL`, 200), "programs": `(a{30}){30}`} {
		var b strings.Builder
		for i := range 240 {
			fmt.Fprintf(&b, `,{"pattern":"%s%d"}`, p, i)
		}
		if s, bad := Compile([]byte(`{"anyOf":[` + b.String()[1:] + `]}`)); s != nil ||
			len(bad) != 1 && !strings.Contains(lines(bad), "too large") {
			t.Errorf("%s: %v", name, lines(bad))
		}
	}
	var b strings.Builder
	for i := range 400 { // what people write is far from it
		fmt.Fprintf(&b, `,{"pattern":"^[a-z][a-z0-9-]{0,62}%d$"}`, i%100)
	}
	must(t, `{"anyOf":[`+b.String()[1:]+`]}`)
}

// A check that spent its budget does not reduce the budget of the next one.
func TestChecksDoNotShareABudget(t *testing.T) {
	s := must(t, `{"type":"array","items":{"type":"integer","minimum":0}}`)
	good := []byte("[" + strings.Repeat("1,", 1000) + "1]")
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 50 {
				if bad := s.Check(good); bad != nil {
					t.Error(bad)
				}
			}
		})
	}
	wg.Wait()
}

func TestCacheCompilesOnce(t *testing.T) {
	var c Cache
	a, bad := c.Get([]byte(person))
	if bad != nil {
		t.Fatal(bad)
	}
	b, _ := c.Get([]byte(person))
	if a != b {
		t.Error("compiled twice")
	}
	if none, bad := c.Get(nil); none != nil || bad != nil {
		t.Error(none, bad)
	}
	for i := range maxCached {
		if _, bad := c.Get(fmt.Appendf(nil, `{"const":%d}`, i)); bad != nil {
			t.Fatal(bad)
		}
	}
	if d, _ := c.Get([]byte(person)); d == a {
		t.Error("the oldest made no room")
	}
}
